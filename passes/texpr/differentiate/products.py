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


def products_beside_zeros(op: ApplyOp, before: Operation) -> tuple[SSAValue, ...]:
    """For an accumulation by `mul`, two values `a` and `b` of each cell, for which `a - b * term` is the
    product of all terms but one that is zero, and has its first derivative; for other accumulations, none.

    With one zero `a` is the product of the others, and `b` is zero; with two, `b` is that of the others, and
    `a` is `b` times the sum of both; with more, both are zero, so that third derivatives of a product with
    three zeros are, too.
    """
    parts = parts_of(op)
    if all(accumulation(op, part) != "mul" for part in parts):
        return ()

    def over(accum: str, at_zero: Term | None, elsewhere: bool) -> SSAValue:
        return insert(
            ApplyOp.of_parts(
                [_where_zero(part, at_zero, elsewhere) for part in parts], gradient_type(op.result), accum
            ),
            before,
            op,
        ).result

    def cells(term: Term, *values: SSAValue) -> SSAValue:
        return combined(term, values, gradient_type(op.result), before)

    zeros, others = over("add", ONE, elsewhere=False), over("mul", ONE, elsewhere=True)
    both = cells(App("where", (App("eq", (Arg(0), Const(2.0))), Arg(1), ZERO)), zeros, others)
    total = over("add", None, elsewhere=False)
    of_one = App("where", (App("eq", (Arg(0), ONE)), Arg(1), App("mul", (Arg(2), Arg(3)))))
    return cells(of_one, zeros, others, both, total), both


def _where_zero(part: Part, at_zero: Term | None, elsewhere: bool) -> Part:
    """A part with a number where its term is zero, or the term itself, and its term or zero elsewhere."""
    combination = part.combination
    own = combination.term
    there = own if at_zero is None else at_zero
    term = App("where", (App("eq", (own, ZERO)), there, own if elsewhere else ZERO))
    return Part(Combination(term, combination.operands, combination.maps), part.result_map, part.space)
