"""Packed panels: which sides of a tile an operand can be copied along."""

from __future__ import annotations

from collections.abc import Mapping

from ocannl.dialects.loops import LoadOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.loops.values import address_of


def has_row_panels(op: LoadOp | StoreOp, space: Mapping[str, int], schedule: Schedule) -> bool:
    """Whether an access moves by single elements along the rows of the tile, of which there are whole tiles
    in the space of the nest, and not along its lanes.
    """
    if schedule.rows is None or schedule.lanes is None:
        return False
    (rows, height), (lanes, _) = schedule.rows, schedule.lanes
    address = address_of(op)
    is_along = address.stride(rows) == 1 and not any(map(address.stride, lanes.split("*")))
    return is_along and rows in space and space[rows] % height == 0
