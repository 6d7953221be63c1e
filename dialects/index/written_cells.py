"""The cells of an array that may have been written, and whether an access surely reads another one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from ocannl.dialects.index.bounds import Bound, extremes_within
from ocannl.dialects.index.images import box_of
from ocannl.dialects.index.linear import Linear, Map, has_position

MOST_BOXES = 32
"""The boxes of cells that are told apart; more are joined."""
Box: TypeAlias = tuple[tuple[int, int], ...]
"""The first and the last cell along each axis."""
Cell: TypeAlias = tuple[int, ...]


class WrittenCells:
    """Boxes around the cells that may have been written, and how many these are at most."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.whole: Box = tuple((0, size - 1) for size in shape)
        self.size = math.prod(shape)
        self.boxes: list[Box] = []
        self.most = 0

    def add_all(self) -> None:
        self.boxes, self.most = [self.whole], self.size

    def add(
        self, indices: Map, space: Mapping[str, int], around: Mapping[str, int], bounds: Sequence[Bound] = ()
    ) -> None:
        """Adds the cells of a map over a space; variables `around` it have one value at a time."""
        if self.boxes == [self.whole] and self.most >= self.size:
            return
        self.most += math.prod(space.values())
        known = {**around, **space}
        box = tuple(
            extremes_within(index, known, bounds) or whole
            for index, whole in zip(indices, self.whole, strict=True)
        )
        if not any(_inside(box, other) for other in self.boxes):
            self.boxes = [*(other for other in self.boxes if not _inside(other, box)), box]
        if len(self.boxes) > MOST_BOXES:
            self.boxes = [_around(self.boxes)]

    def missing(
        self, indices: Map, space: Mapping[str, int], around: Mapping[str, int], bounds: Sequence[Bound] = ()
    ) -> str | None:
        """Cells that a map surely reaches, and that nothing has written; None if none are known."""
        names = {name for index in indices for name in index.names}
        is_known = names <= {*space, *around} and not any(map(has_position, indices))
        if not is_known or 0 in space.values() or self.size == 0:
            return None
        started = tuple(index.substitute(dict.fromkeys(around, Linear())) for index in indices)
        own = {name: size for name, size in space.items() if name in names}
        for point in _corners(own):
            values = {**dict.fromkeys((*around, *space), 0), **point}
            if all(_value(bound.index, values) < bound.below for bound in bounds):
                cell = tuple(_value(index, point) for index in started)
                if not any(_has(box, cell) for box in self.boxes):
                    return f"cell {[*cell]}"
        box = None if bounds else box_of(started, own)
        count = 0 if box is None else math.prod(size for _, size in box)
        if count > self.most:
            return f"one of {count} cells"
        return None


def _corners(space: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Points at which all variables, or all but one, have their first or their last value."""
    first, last = dict.fromkeys(space, 0), {name: size - 1 for name, size in space.items()}
    yield first
    yield last
    for name in space if len(space) > 1 else ():
        yield first | {name: last[name]}
        yield last | {name: 0}


def _value(index: Linear, values: Mapping[str, int]) -> int:
    return index.constant + sum(factor * values.get(name, 0) for name, factor in index.terms)


def _has(box: Box, cell: Cell) -> bool:
    return all(low <= at <= high for (low, high), at in zip(box, cell, strict=True))


def _inside(box: Box, other: Box) -> bool:
    return all(a >= low and b <= high for (a, b), (low, high) in zip(box, other, strict=True))


def _around(boxes: Sequence[Box]) -> Box:
    return tuple(
        (min(low for low, _ in axis), max(high for _, high in axis)) for axis in zip(*boxes, strict=True)
    )
