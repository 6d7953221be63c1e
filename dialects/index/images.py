"""Images of index maps: the elements of an array that they reach, and whether each is reached once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

from ocannl.dialects.index.linear import Linear, Map

Interval: TypeAlias = tuple[int, int]
"""The first cell and the number of cells."""
Box: TypeAlias = tuple[Interval, ...]
FEW = 4
"""Values of a variable that are looked at one by one."""


def covers(indices: Sequence[Linear], space: Mapping[str, int], sizes: Sequence[int]) -> bool:
    """Whether the map from the space to an array of these sizes is a bijection."""
    return tiles([(tuple(indices), space)], sizes)


def tiles(parts: Iterable[tuple[Map, Mapping[str, int]]], sizes: Sequence[int]) -> bool:
    """Whether the maps together reach every element of an array of these sizes exactly once."""
    boxes = [box_of(indices, space) for indices, space in parts]
    found = [box for box in boxes if box is not None]
    return len(found) == len(boxes) and fill(found, sizes)


def fill(boxes: Sequence[Box], sizes: Sequence[int]) -> bool:
    """Whether boxes inside an array of these sizes are a partition of its elements."""
    if any(overlap(a, b) for a, b in combinations(boxes, 2)):
        return False
    return sum(math.prod(size for _, size in box) for box in boxes) == math.prod(sizes)


def without(box: Box, hole: Box) -> list[Box]:
    """The cells of a box outside of another one, as boxes that do not overlap."""
    parts: list[Box] = []
    inside: Box = ()
    for axis, ((start, size), (first, extent)) in enumerate(zip(box, hole, strict=True)):
        stop = start + size
        low = min(max(first, start), stop)
        high = min(max(first + extent, low), stop)
        sides = ((start, low - start), (high, stop - high))
        parts += [(*inside, side, *box[axis + 1 :]) for side in sides if side[1]]
        if low == high:
            return parts
        inside = (*inside, (low, high - low))
    return parts


def box_of(indices: Map, space: Mapping[str, int]) -> Box | None:
    """The intervals that a map reaches along each axis, if it is a bijection onto their product."""
    names = [name for index in indices for name in index.names]
    if len(names) != len(space) or set(names) != set(space):
        return None
    intervals = [_interval(index, space) for index in indices]
    box = tuple(interval for interval in intervals if interval is not None)
    return box if len(box) == len(intervals) else None


def boxes_of(indices: Map, space: Mapping[str, int]) -> list[Box]:
    """Boxes that a map reaches, which may overlap: where an index leaves gaps, as that of both borders of an
    axis, those of each value of its variable with the largest steps, if these are few. Empty where none are
    found.
    """
    box = box_of(indices, space)
    if box is not None:
        return [box]
    known = all(name in space for index in indices for name in index.names)
    apart = [index for index in indices if known and index.terms and _interval(index, space) is None]
    name = max(apart[0].terms, key=lambda term: abs(term[1]))[0] if apart else None
    if name is None or space[name] > FEW:
        return []
    rest = {other: size for other, size in space.items() if other != name}
    fixed = (
        tuple(index.substitute({name: Linear.of({}, value)}) for index in indices)
        for value in range(space[name])
    )
    return [box for each in fixed for box in boxes_of(each, rest)]


def _interval(index: Linear, space: Mapping[str, int]) -> Interval | None:
    """The interval that an index reaches if its terms are digits of a mixed-radix number, else None.

    Then each coefficient is the product of the sizes of the variables with smaller coefficients. A variable
    with a negative one counts down.
    """
    start, extent = index.constant, 1
    for name, coefficient in sorted(index.terms, key=lambda term: abs(term[1])):
        if abs(coefficient) != extent:
            return None
        start += min(coefficient, 0) * (space[name] - 1)
        extent *= space[name]
    return start, extent


def overlap(a: Box, b: Box) -> bool:
    """Whether two boxes have a cell in common."""
    return all(
        start < other + extent and other < start + size
        for (start, size), (other, extent) in zip(a, b, strict=True)
    )
