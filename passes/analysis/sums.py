"""Sums of floats among reductions: contractions, and the others."""

from __future__ import annotations

from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import LoadOp, ReduceOp
from ocannl.dialects.scalar.precisions import is_integer
from ocannl.passes.analysis.nests import names_in


def is_float_sum(reduction: ReduceOp) -> bool:
    return reduction.accum.data == "add" and not is_integer(reduction.result.type)


def is_contraction(reduction: ReduceOp) -> bool:
    """Whether two operands of a reduction have an axis of the result each that the other one has not, so that
    both are read again and again.
    """
    around, reduced = scope_sizes(reduction).keys(), set(reduction.space.names)
    operands = [
        used & around
        for op in reduction.body.block.ops
        if isinstance(op, LoadOp) and not reduced.isdisjoint(used := names_in(op.indices.data))
    ]
    return any(x - y and y - x for k, x in enumerate(operands) for y in operands[:k])


def is_plain_sum(reduction: ReduceOp) -> bool:
    """Whether a reduction is a sum of floats, and no contraction."""
    return is_float_sum(reduction) and not is_contraction(reduction)
