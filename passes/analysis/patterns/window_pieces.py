"""The pieces of loops over positions of windows at which the same offsets lie inside of an image."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from ocannl.dialects.index.linear import Linear


@dataclass(frozen=True)
class Piece:
    """Points of a loop over positions, and those of the sum over offsets that are in the image there."""

    own: range
    summed: range

    @property
    def points(self) -> int:
        return len(self.own) * len(self.summed)


@dataclass(frozen=True)
class Border:
    """A loop of a nest and one of its sum, of which pieces lie inside of an image."""

    own: str
    summed: str
    pieces: tuple[Piece, ...]

    @property
    def points(self) -> int:
        return sum(piece.points for piece in self.pieces)


def pieces_of(
    index: Linear, position: str, positions: int, offset: str, offsets: int, inside: range
) -> Iterator[Piece]:
    """The positions with equal offsets inside of a box, each with these."""
    within = list[range]()
    for at in range(positions):
        start = index.constant + at * index.coefficient(position)
        own = [k for k in range(offsets) if start + k * index.coefficient(offset) in inside]
        within.append(range(own[0], own[-1] + 1) if own else range(0))
    first = 0
    for found, group in itertools.groupby(within):
        count = len(list(group))
        yield Piece(range(first, first + count), found)
        first += count
