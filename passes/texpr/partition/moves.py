"""Collectives that move a value from one split to another."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ocannl.dialects.texpr.collectives import (
    AllGatherOp,
    AllReduceOp,
    AllToAllOp,
    CollectiveOp,
    ReduceScatterOp,
)
from ocannl.dialects.texpr.tensor_type import TensorType
from ocannl.passes.analysis.infer_placements.problem import WHOLE, Split


def moved_sum(value: SSAValue, accum: str, target: Split, mesh: str, type: TensorType) -> CollectiveOp:
    """The accumulation of what the ranks have, in a split."""
    if target == WHOLE:
        return AllReduceOp(value, accum, mesh, type)
    return ReduceScatterOp(value, accum, target, mesh, type)


def moved_parts(
    value: SSAValue, source: Split, size: int, target: Split, mesh: str, type: TensorType
) -> CollectiveOp:
    """A value that is split along an axis of this size, in another split."""
    if target == WHOLE:
        return AllGatherOp(value, source, size, mesh, type)
    return AllToAllOp(value, source, size, target, mesh, type)
