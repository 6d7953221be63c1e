"""The size of a cache line, and stores that write whole lines."""

from __future__ import annotations

from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.loops import StoreOp
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
