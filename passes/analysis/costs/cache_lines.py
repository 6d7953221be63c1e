"""The size of a cache line, and where the tiles of accesses begin and end in lines."""

from __future__ import annotations

import math

from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.loops import LoadOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.loops.values import address_of

LINE = 64


def fills_lines(store: StoreOp, schedule: Schedule) -> bool:
    """Whether a store, with a tile of the schedule, writes whole cache lines: contiguous vectors, aligned to
    lines.

    All nodes begin at a line.
    """
    address, bytes = address_of(store).merge(schedule.merged), element_bytes(store.node)
    along = next((t for t in (schedule.lanes, schedule.rows) if t and address.stride(t[0]) == 1), None)
    if along is None or along[1] * bytes % LINE:
        return False
    steps = [step for name, step in address.terms if name != along[0]]
    return all(step * bytes % LINE == 0 for step in (*steps, address.constant))


def alignment_in_line(access: LoadOp | StoreOp, schedule: Schedule) -> int:
    """The bytes, a divisor of a line's, of a multiple of which each row of a tile of the schedule begins in a
    line.
    """
    address, bytes = address_of(access).merge(schedule.merged), element_bytes(access.node)
    lanes, width = schedule.lanes or ("", 1)
    steps = [step * (width if name == lanes else 1) for name, step in address.terms]
    return math.gcd(LINE, *(step * bytes for step in (*steps, address.constant)))
