"""The derivative of one accumulation of a projected operation, for reverse and forward mode.

For a `max` or `min` accumulation it is gated by equality with the result, so every point that attains it
counts in full. For one by `mul` it is multiplied by the product of the other points' terms.
"""

from __future__ import annotations

from ocannl.dialects.index.linear import clashing_variables
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.scalar.precisions import is_float
from ocannl.dialects.scalar.terms import App, Arg, Const, Term, derivative
from ocannl.dialects.texpr import ApplyOp
from ocannl.dialects.texpr.parts import Part
from ocannl.dialects.texpr.tensor_type import tensor_type

ZERO = Const(0.0)


def accumulation(op: ApplyOp, part: Part) -> str | None:
    """The operator by which the points of a part accumulate in a cell; None where each cell has one point."""
    alone = op.more is None and not clashing_variables(part.result_map, dict(part.space))
    return None if alone else op.accum_name


def partial(op: ApplyOp, part: Part, index: int, result: Arg) -> Term | None:
    """The derivative of a part's term with respect to an operand, None if it is identically zero; `result`
    stands for the result's cell. That of integers and truth values is zero.

    Raises `OcannlError` where the accumulation has no derivative.
    """
    if not is_float(tensor_type(op.result).element):
        return None
    match accumulation(op, part):
        case None:
            return derivative(part.combination.term, index, result.index)
        case "add" | "max" | "min" | "mul":
            return derivative(part.combination.term, index)
        case other:
            raise OcannlError(at_line(op, f"there is no gradient through an accumulation by `{other}`"))


def through(op: ApplyOp, part: Part, slope: Term, result: Arg) -> Term:
    """The derivative of a cell of the result by that of a point's term: for an extreme, it counts where the
    point attains the result. For a product, the three arguments after `result` are the values of
    `products_beside_zeros`, in their order.
    """
    term = part.combination.term
    match accumulation(op, part):
        case "max" | "min":
            return App("where", (App("eq", (result, term)), slope, ZERO))
        case "mul":
            first, second, third = (Arg(result.index + number) for number in (1, 2, 3))
            inner = App("sub", (second, App("mul", (term, third))))
            beside_zero = App("sub", (first, App("mul", (term, inner))))
            others = App("where", (App("eq", (term, ZERO)), beside_zero, App("div", (result, term))))
            return App("mul", (slope, others))
        case _:
            return slope
