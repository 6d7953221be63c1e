"""Backward slices: the operations on which values depend."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.loops import ReduceOp, StoreOp
from ocannl.passes.analysis.nests import (
    operations,
    with_reduced,
)


def operations_for(store: StoreOp, block: Block) -> list[Operation]:
    """The operations of a nest that the stored value depends on, in order."""
    needed: set[SSAValue] = {store.value}
    found: list[Operation] = []
    for op in reversed(operations_of(block)):
        if any(result in needed for result in op.results):
            found.append(op)
            needed.update(op.operands)
            if isinstance(op, ReduceOp):
                needed.update(operand for inner in operations(op.body.block) for operand in inner.operands)
    found.reverse()
    return found


def slice_of(values: Iterable[SSAValue]) -> set[Operation]:
    """The operations of nests that values depend on, nodes excepted."""
    found: set[Operation] = set()
    waiting = list(values)
    while waiting:
        op = waiting.pop().owner
        if isinstance(op, Operation) and not isinstance(op, NodeOp) and op not in found:
            found.add(op)
            waiting += [operand for inner in with_reduced((op,)) for operand in inner.operands]
    return found
