"""Prefetches of the cells that a product of matrices stores its tile to, or reads after its sum, from before
its first step on.

A tile of results has a few pieces of many rows, which no hardware prefetcher foresees.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.lowering.placement import Placement
from ocannl.passes.analysis.costs.far_arrays import array_bytes

# The points of a sum in whose time cells come from beyond the caches, and the bytes of an array that may be
# there.
LONG, FAR = 64, 2**15


def results_ahead(
    nest: NestOp, placement: Placement, schedule: Schedule
) -> dict[ReduceOp, list[LoadOp | StoreOp]]:
    """The accesses of a nest whose cells its product prefetches: contiguous along the lanes, and in rows. Of
    a cell that is read and stored, the last one.
    """
    if schedule.rows is None or schedule.lanes is None or len(placement.reductions) != 1:
        return {}
    (row, _), (lane, _) = schedule.rows, schedule.lanes
    ((op, reduction),) = placement.reductions.items()
    points = math.prod(level.size for level in reduction.levels)
    if reduction.product is None or not (reduction.rows and reduction.lanes) or points < LONG:
        return {}
    found: dict[tuple[SSAValue, Address], LoadOp | StoreOp] = {}
    for access in nest.body.block.ops:
        if isinstance(access, LoadOp | StoreOp) and not access.positions and not is_past_caches(access):
            address = placement.addresses[access]
            if array_bytes(access.node) >= FAR and address.stride(lane) == 1 and address.stride(row):
                found[access.node, address] = access
    return {op: [*found.values()]}


def is_past_caches(access: LoadOp | StoreOp) -> bool:
    return isinstance(access, StoreOp) and access.nontemporal is not None


def sums_first(
    ops: Sequence[Operation], ahead: Mapping[ReduceOp, Sequence[LoadOp | StoreOp]]
) -> Sequence[Operation]:
    """The operations of a loop with those behind the sum that need what it prefetches, as far as it does not
    use them: loads before it would wait for memory.
    """
    total = next((op for op in ops if isinstance(op, ReduceOp) and op in ahead), None)
    before = ops[: ops.index(total)] if total is not None else ()
    if total is None or any(isinstance(op, StoreOp) for op in before):
        return ops
    cells, late = {access.node for access in ahead[total]}, set[Operation]()
    for op in before:
        is_fetched = isinstance(op, LoadOp) and op.node in cells
        if is_fetched or any(operand.owner in late for operand in op.operands):
            late.add(op)
    if any(operand.owner in late for op in total.walk() for operand in op.operands):
        return ops
    early = [op for op in before if op not in late]
    return [*early, total, *(op for op in before if op in late), *ops[len(before) + 1 :]]
