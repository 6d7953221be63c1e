"""Products without one factor, which the derivative of a product over axes needs where that may be zero."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.texpr import ApplyOp
from ocannl.dialects.texpr.parts import Part
from ocannl.passes.texpr.differentiate.derivative_builder import combined, gradient_type, insert, parts_of
from ocannl.passes.texpr.differentiate.slopes import accumulation

ZERO, ONE = Const(0.0), Const(1.0)


def product_beside_zero(op: ApplyOp, before: Operation) -> SSAValue | None:
    """For an accumulation by `mul`, at each cell the product of all terms but the one that is zero; zero if
    none is, or several are. None for other accumulations.
    """
    parts = parts_of(op)
    if all(accumulation(op, part) != "mul" for part in parts):
        return None

    def over(accum: str, at_zero: Term, elsewhere: bool) -> SSAValue:
        return insert(
            ApplyOp.of_parts(
                [_where_zero(part, at_zero, elsewhere) for part in parts], gradient_type(op.result), accum
            ),
            before,
            op,
        ).result

    zeros, others = over("add", ONE, False), over("mul", ONE, True)
    term = App("where", (App("eq", (Arg(0), ONE)), Arg(1), ZERO))
    return combined(term, [zeros, others], gradient_type(op.result), before)


def _where_zero(part: Part, at_zero: Term, elsewhere: bool) -> Part:
    """A part with one number where its term is zero, and its term or zero elsewhere."""
    combination = part.combination
    own = combination.term
    term = App("where", (App("eq", (own, ZERO)), at_zero, own if elsewhere else ZERO))
    return Part(Combination(term, combination.operands, combination.maps), part.result_map, part.space)
