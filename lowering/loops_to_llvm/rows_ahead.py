"""Prefetches of a matrix that a product with a vector reads once, row by row."""

from __future__ import annotations

import math

from xdsl.ir import Operation

from ocannl.dialects.index.memref import element_bytes, memref_shape
from ocannl.dialects.loops import LoadOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.lowering.placement import Placement

# Arrays of fewer bytes stay in the caches near to a core.
FAR = 2**20


def rows_ahead(placement: Placement, schedule: Schedule) -> dict[Operation, int]:
    """The distances, in elements, from each row of a tile to the same row of the next one, for loads of large
    arrays whose rows are contiguous along the lanes of a reduction, and which each tile reads anew.

    The rows of a tile are as many streams, too short for a hardware prefetcher to run ahead of them.
    """
    if schedule.rows is None or schedule.lanes is None:
        return {}
    (row, height), lane = schedule.rows, schedule.lanes[0]
    own = [level.variable for level in placement.levels if level.size > 1]
    found: dict[Operation, int] = {}
    for op, address in placement.addresses.items():
        if not isinstance(op, LoadOp) or op.positions or lane in own or address.stride(lane) != 1:
            continue
        is_far = math.prod(memref_shape(op.node)) * element_bytes(op.node) >= FAR
        if is_far and row in own and all(address.stride(variable) for variable in own):
            found[op] = height * address.stride(row)
    return found
