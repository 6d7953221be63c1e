"""Products without one factor, which the derivative of a product over axes needs where that may be zero."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import App, Arg, Const, Term, substitute
from ocannl.dialects.texpr import ApplyOp
from ocannl.dialects.texpr.parts import Part
from ocannl.passes.texpr.differentiate.derivative_builder import combined, gradient_type, insert, parts_of
from ocannl.passes.texpr.differentiate.slopes import accumulation

ZERO, HALF, ONE = Const(0.0), Const(0.5), Const(1.0)
OWN = Arg(0)
"""Stands for a point's term."""


def products_beside_zeros(op: ApplyOp, before: Operation) -> tuple[SSAValue, ...]:
    """For an accumulation by `mul`, values `a`, `b` and `c` of each cell, for which `a - t * (b - t * c)` is
    the product of all terms but `t`, which is zero, and has its derivatives, as long as no more than three
    are zero; for other accumulations, none.

    The zeros without `t` have the product 1 if it is the only one, `s - t` if there are two, and for three
    `(s * s - q) / 2 - t * (s - t)`, where `s` is their sum and `q` that of their squares; times the product
    of what is not zero. With more zeros all three values are zero, so that fourth derivatives are, too.
    """
    parts = parts_of(op)
    if all(accumulation(op, part) != "mul" for part in parts):
        return ()

    def over(accum: str, at_zero: Term, elsewhere: Term) -> SSAValue:
        own = [_where_zero(part, at_zero, elsewhere) for part in parts]
        return insert(ApplyOp.of_parts(own, gradient_type(op.result), accum), before, op).result

    def cells(term: Term, *values: SSAValue) -> SSAValue:
        return combined(term, values, gradient_type(op.result), before)

    zeros, others = over("add", ONE, ZERO), over("mul", ONE, OWN)
    total, squares = over("add", OWN, ZERO), over("add", App("mul", (OWN, OWN)), ZERO)

    def where_zeros(count: float, otherwise: Term, *values: SSAValue) -> SSAValue:
        term = App("where", (App("eq", (Arg(0), Const(count))), Arg(1), otherwise))
        return cells(term, zeros, others, *values)

    of_three = where_zeros(3.0, ZERO)
    of_two = where_zeros(2.0, App("mul", (Arg(2), Arg(3))), of_three, total)
    mean = App("mul", (HALF, App("add", (App("mul", (Arg(3), Arg(3))), Arg(4)))))
    pairs = App("sub", (App("mul", (Arg(5), Arg(3))), App("mul", (Arg(2), mean))))
    return where_zeros(1.0, pairs, of_three, total, squares, of_two), of_two, of_three


def _where_zero(part: Part, at_zero: Term, elsewhere: Term) -> Part:
    """A part with one term where its own is zero, and another elsewhere; `OWN` stands for its own."""
    combination = part.combination
    own = combination.term
    there, other = (substitute(term, {0: own}) for term in (at_zero, elsewhere))
    term = App("where", (App("eq", (own, ZERO)), there, other))
    return Part(Combination(term, combination.operands, combination.maps), part.result_map, part.space)
