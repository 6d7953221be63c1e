"""Tasks of a nest or a group: the blocks into which the parallel loops of its schedule cut its space."""

from __future__ import annotations

import math

from ocannl.dialects.loops import GroupOp, NestOp
from ocannl.dialects.records import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """A parallel loop in blocks of whole tiles: `block` points each, up to `whole`.

    The last block may be smaller, and also has the `remainder` of the loop, which fills no tile.
    """

    variable: str
    tile: int
    block: int
    whole: int
    remainder: int

    @property
    def count(self) -> int:
        """The number of blocks, each of which has at least one whole tile."""
        return -(-self.whole // self.block)


def cuts(step: NestOp | GroupOp) -> list[Cut]:
    """The loops that are cut into several blocks, in the order of the schedule."""
    if step.schedule is None or not step.schedule.data.parallel:
        return []
    schedule = step.schedule.data
    sizes = schedule.loops(step.space.data)
    found: list[Cut] = []
    for variable, block in schedule.parallel:
        size, tile = sizes[variable], schedule.tile(variable)
        found.append(Cut(variable, tile, block, size - size % tile, size % tile))
    return [cut for cut in found if cut.count > 1]


def task_count(step: NestOp | GroupOp) -> int:
    """How many tasks there are; 1 if all runs as a whole."""
    return math.prod(cut.count for cut in cuts(step))
