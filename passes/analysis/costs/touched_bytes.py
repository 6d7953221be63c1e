"""The bytes of memory that accesses touch while some loops run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from ocannl.dialects.loops.schedule import Schedule
from ocannl.passes.analysis.schedules.nest_facts import Access, ScopeFacts


class Reuse(NamedTuple):
    """How many times in a row a sum reads the same numbers, and the bytes touched between two times."""

    times: int
    between: int


def reuse(access: Access, scope: ScopeFacts, own: Mapping[str, int], schedule: Schedule) -> Reuse | None:
    """The reuse of what a sum reads, if tiles are taken in the order of the loops `own`; None if it reads
    each number once.
    """
    loops = [name for name in own if name in scope.varies]
    tiles = {name: math.ceil(own[name] / schedule.tile(name)) for name in loops}
    again = [place for place, name in enumerate(loops) if name not in access.strides and tiles[name] > 1]
    if not again:
        return None
    extents = {name: schedule.tile(name) for name in loops}
    extents |= {name: own[name] for name in loops[again[-1] + 1 :]} | scope.space
    between = sum(
        other.bytes * math.prod([extents[name] for name in other.strides if name in extents])
        for other in scope.accesses
    )
    return Reuse(tiles[loops[again[-1]]], between)


def spanned(access: Access, extents: Mapping[str, int]) -> int:
    """The bytes that an access touches while loops run over the given extents, those of overlapping windows
    once.
    """
    run = 1
    for stride, size in sorted(
        (abs(s), extents[name]) for name, s in access.strides.items() if name in extents
    ):
        run = run * size if stride > run else run + stride * (size - 1)
    return run * access.bytes
