"""Where a function gets nodes that a rewrite makes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.loops import FuncOp


def declare(func: FuncOp, made: NodeOp | Sequence[NodeOp]) -> None:
    """Declares nodes before the first step of a function, so that each may use them."""
    block = func.body.block
    first = next((op for op in block.ops if not isinstance(op, NodeOp)), None)
    Rewriter.insert_op(made, InsertPoint.at_end(block) if first is None else InsertPoint.before(first))
