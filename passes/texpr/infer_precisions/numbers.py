"""Numbers in programs as those of the type in which they are combined with others."""

from __future__ import annotations

from xdsl.ir import Operation

from ocannl.dialects.ir.errors import PrecisionError, at_line
from ocannl.dialects.scalar.accumulation import neutral_number
from ocannl.dialects.scalar.combination import TermAttr, number_text
from ocannl.dialects.scalar.precisions import integer_range, is_float, is_integer
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.scalar.types_of_terms import Element, map_leaves
from ocannl.dialects.texpr import ApplyOp, ConstantOp
from ocannl.dialects.texpr.tensor_type import tensor_type
from ocannl.passes.texpr.infer_precisions.whole_numbers import chooses_neutral


def settle_numbers(op: ApplyOp | ConstantOp) -> None:
    """Gives the numbers of an operation the types of their operands: `2` beside a float is `2.0`.

    Raises `PrecisionError` for one that the type has not.
    """
    element = tensor_type(op.result).element
    term = op.term.data
    if isinstance(op, ConstantOp):
        settled: Term = settle(op, Const(op.value), element)
    elif not has_numbers(term):
        return
    else:
        if chooses_neutral(op) and isinstance(term, App) and is_integer(element):
            assert op.accum_name is not None
            term = App("where", (*term.args[:2], Const(neutral_number(op.accum_name, element))))
        elements = [tensor_type(operand).element for operand in op.args]

        def leaf(leaf: Arg | Const, type: Element) -> Term:
            return settle(op, leaf, type) if isinstance(leaf, Const) else leaf

        settled = map_leaves(term, elements, element, leaf)
    if settled != op.term.data:
        op.properties["term"] = TermAttr(settled)


def has_numbers(term: Term) -> bool:
    return isinstance(term, Const) or (isinstance(term, App) and any(map(has_numbers, term.args)))


def settle(op: Operation, number: Const, type: Element) -> Const:
    value = number.value
    if type is None or (isinstance(value, float) and not isinstance(op, ConstantOp)):
        return number
    if is_float(type):
        return Const(float(value))
    assert is_integer(type)
    least, most = integer_range(type)
    if not least <= value <= most or value != int(value):
        raise PrecisionError(at_line(op, f"{number_text(value)} is no number of type {type}"))
    return Const(int(value))
