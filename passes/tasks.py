"""Tasks of a nest: the blocks into which the parallel loops of its schedule cut its space."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ocannl.dialects.loops import GroupOp, NestOp


@dataclass(frozen=True, slots=True)
class Cut:
    """A loop as blocks of whole tiles: `block` points each, up to `whole`.

    The last block may be smaller. It also has the rest that fills no tile.
    """

    variable: str
    tile: int
    block: int
    whole: int
    rest: int

    @property
    def count(self) -> int:
        """How many blocks there are; each has at least one whole tile."""
        return -(-self.whole // self.block)


def cuts(nest: NestOp | GroupOp) -> list[Cut]:
    """The loops that are cut into several blocks, in the order of the schedule."""
    if isinstance(nest, GroupOp) or nest.schedule is None:
        return []
    schedule = nest.schedule.data
    sizes = schedule.loops(nest.space.data)
    found: list[Cut] = []
    for variable, block in schedule.parallel:
        size, tile = sizes[variable], schedule.tile(variable)
        found.append(Cut(variable, tile, block, size - size % tile, size % tile))
    return [cut for cut in found if cut.count > 1]


def task_count(nest: NestOp | GroupOp) -> int:
    """How many tasks a nest has; 1 if it runs as a whole."""
    return math.prod(cut.count for cut in cuts(nest))
