"""What index maps reach: which cells, and whether each of them once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

from ocannl.dialects.index.linear import Linear, Map

Interval: TypeAlias = tuple[int, int]
"""The first cell and the number of cells."""
Box: TypeAlias = tuple[Interval, ...]


def covers(indices: Sequence[Linear], space: Mapping[str, int], sizes: Sequence[int]) -> bool:
    """The map from the space onto an array of these sizes is a bijection."""
    return tiles([(tuple(indices), space)], sizes)


def tiles(parts: Iterable[tuple[Map, Mapping[str, int]]], sizes: Sequence[int]) -> bool:
    """The maps reach every cell of an array of these sizes, each by one point of one space."""
    boxes = [box_of(indices, space) for indices, space in parts]
    found = [box for box in boxes if box is not None]
    return len(found) == len(boxes) and fill(found, sizes)


def fill(boxes: Sequence[Box], sizes: Sequence[int]) -> bool:
    """Boxes inside an array of these sizes have no cell in common, and together all cells."""
    if any(_overlap(a, b) for a, b in combinations(boxes, 2)):
        return False
    return sum(math.prod(size for _, size in box) for box in boxes) == math.prod(sizes)


def box_of(indices: Map, space: Mapping[str, int]) -> Box | None:
    """The intervals that a map reaches along each axis, if it is a bijection onto their product."""
    names = [name for index in indices for name in index.names]
    if len(names) != len(space) or set(names) != set(space):
        return None
    intervals = [_interval(index, space) for index in indices]
    box = tuple(interval for interval in intervals if interval is not None)
    return box if len(box) == len(intervals) else None


def _interval(index: Linear, space: Mapping[str, int]) -> Interval | None:
    """Mixed radix: each coefficient is the number of values of the terms below it."""
    extent = 1
    for name, coefficient in sorted(index.terms, key=lambda term: term[1]):
        if coefficient != extent:
            return None
        extent *= space[name]
    return index.constant, extent


def _overlap(a: Box, b: Box) -> bool:
    return all(
        start < other + extent and other < start + size
        for (start, size), (other, extent) in zip(a, b, strict=True)
    )
