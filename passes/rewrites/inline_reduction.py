"""Replaces a reduction over one point by its body."""

from __future__ import annotations

from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.ir.origins import inherit
from ocannl.dialects.loops import ReduceOp, YieldOp


def inline_reduction(reduce: ReduceOp) -> None:
    """Moves the operations of the body in front of a reduction without variables, and removes it."""
    last, value = reduce.body.block.last_op, reduce.yielded
    assert isinstance(last, YieldOp)
    assert not reduce.space.data
    Rewriter.erase_op(last)
    Rewriter.inline_block(reduce.body.block, InsertPoint.before(reduce))
    reduce.result.replace_all_uses_with(value)
    inherit(value, reduce)
    Rewriter.erase_op(reduce)
