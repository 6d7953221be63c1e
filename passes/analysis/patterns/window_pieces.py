"""The pieces of loops over positions of windows at which the same offsets lie inside of an image."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.records import dataclass


@dataclass(frozen=True)
class Piece:
    """Points of a loop over positions, and those of the sum over offsets that are in the image there."""

    own: range
    summed: range

    @property
    def points(self) -> int:
        return len(self.own) * len(self.summed)


def pieces_of(
    index: Linear, position: str, positions: int, offset: str, offsets: int, inside: range
) -> Iterator[Piece]:
    """The positions with equal offsets inside of a box, each with these."""
    move, turn = index.coefficient(position), index.coefficient(offset)
    within = [turns_inside(index.constant + at * move, turn, offsets, inside) for at in range(positions)]
    first = 0
    for found, group in itertools.groupby(within):
        count = len(list(group))
        yield Piece(range(first, first + count), found)
        first += count


def turns_inside(start: int, step: int, count: int, inside: range) -> range:
    """Those of so many steps from a start that end inside of a range of cells."""
    if step == 0:
        return range(count if start in inside else 0)
    low, high = inside.start - start, inside.stop - 1 - start
    if step < 0:
        low, high, step = -high, -low, -step
    return range(max(0, -(-low // step)), min(count, high // step + 1))
