"""Prefetches of the cells that a product of matrices stores its tile to, or reads after its sum, from before
its first step on.

A tile of results has a few pieces of many rows, which no hardware prefetcher foresees.
"""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.lowering.loops_to_llvm.rows_ahead import array_bytes
from ocannl.lowering.placement import Placement

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
