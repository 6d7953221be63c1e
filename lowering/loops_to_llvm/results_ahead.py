"""Prefetches of the cells to which a product of matrices stores its tile, from before its first step on.

A tile of results has a few pieces of many rows, which no hardware prefetcher foresees.
"""

from __future__ import annotations

import math

from ocannl.dialects.loops import NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.lowering.loops_to_llvm.rows_ahead import array_bytes
from ocannl.lowering.placement import Placement

# The points of a sum in whose time cells come from beyond the caches, and the bytes of an array that may be
# there.
LONG, FAR = 64, 2**15


def results_ahead(nest: NestOp, placement: Placement, schedule: Schedule) -> dict[ReduceOp, list[StoreOp]]:
    """The stores of a nest whose cells its product prefetches: contiguous along the lanes, and in rows."""
    if schedule.rows is None or schedule.lanes is None or len(placement.reductions) != 1:
        return {}
    (row, _), (lane, _) = schedule.rows, schedule.lanes
    ((op, reduction),) = placement.reductions.items()
    points = math.prod(level.size for level in reduction.levels)
    if reduction.product is None or not (reduction.rows and reduction.lanes) or points < LONG:
        return {}
    stores: list[StoreOp] = []
    for store in nest.body.block.ops:
        if isinstance(store, StoreOp) and not store.positions and store.nontemporal is None:
            address = placement.addresses[store]
            if array_bytes(store.node) >= FAR and address.stride(lane) == 1 and address.stride(row):
                stores.append(store)
    return {op: stores}
