"""Dead-code elimination in the bodies of nests."""

from __future__ import annotations

from xdsl.ir import Block
from xdsl.rewriter import Rewriter

from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.loops import ReduceOp
from ocannl.passes.analysis.nests import is_unused


def remove_unused_operations(block: Block) -> None:
    """Removes operations of a block, and of the reductions in it, that have no effect and no users."""
    for op in reversed(operations_of(block)):
        if is_unused(op):
            Rewriter.erase_op(op)
        elif isinstance(op, ReduceOp):
            remove_unused_operations(op.body.block)
