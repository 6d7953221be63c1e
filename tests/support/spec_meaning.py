"""The meaning of a spec, point by point: the language's page, read without the compiler's code."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from support.written_specs import (
    Affine,
    Anything,
    Axis,
    Case,
    Concat,
    Fixed,
    Name,
    Product,
    RowName,
    Slot,
    names_of,
)

Array: TypeAlias = NDArray[Any]
Place: TypeAlias = tuple[int, int]
"""An axis: its slot, and its place among the written axes of the slot in the order of memory."""


# Spaces.


@dataclass(frozen=True)
class Space:
    """The part at which each concatenation stands, and the operands that have an axis for each of theirs."""

    parts: Mapping[Place, int]
    reads: tuple[int, ...]


def spaces(case: Case) -> list[Space]:
    """Every way in which as many concatenations as can stand somewhere together do."""
    concats = {
        (s, a): axis
        for s, slot in enumerate(case.slots)
        for a, axis in enumerate(slot.axes)
        if isinstance(axis, Concat)
    }
    options = [[None, *range(len(concat.parts))] for concat in concats.values()]
    choices = [
        {place: part for place, part in zip(concats, chosen, strict=True) if part is not None}
        for chosen in itertools.product(*options)
    ]
    result = _plain_names(case.result)
    fitting = [c for c in choices if _fits(c, concats) and not result & _left(c, concats)]
    full = [choice for choice in fitting if not any(choice.items() < other.items() for other in fitting)]
    found: list[Space] = []
    for choice in full:
        absent = {place[0] for place in concats if place not in choice}
        elsewhere = _left(choice, concats)
        for s, slot in enumerate(case.slots):
            if _plain_names(slot) & elsewhere:
                absent.add(s)
        reads = tuple(s for s in range(len(case.operands)) if s not in absent)
        if reads and len(case.operands) not in absent:
            found.append(Space(choice, reads))
    return found


def _plain_names(slot: Slot) -> set[str]:
    """Those of the axes that are no concatenations."""
    return {name for axis in slot.axes if not isinstance(axis, Concat) for name in names_of(axis)}


def _fits(choice: Mapping[Place, int], concats: Mapping[Place, Concat]) -> bool:
    """Whether a name stands at the same part in every axis."""
    stands = {name for place, part in choice.items() for name in [concats[place].parts[part]]}
    return not stands & _left(choice, concats)


def _left(choice: Mapping[Place, int], concats: Mapping[Place, Concat]) -> set[str]:
    """The names of parts at which an axis could stand that stands elsewhere."""
    return {
        name
        for place, part in choice.items()
        for name in concats[place].parts
        if isinstance(name, str) and name != concats[place].parts[part]
    }


Variables: TypeAlias = dict[str, Array]
"""The value of each variable at each point of a space."""


def points(case: Case, space: Space) -> tuple[int, Variables]:
    """The number of points of a space: those of all axes of the operands that are read, and of the result."""
    sizes: dict[str, int] = {}
    for s in (*space.reads, len(case.operands)):
        for a, axis in enumerate(case.slots[s].axes):
            sizes |= _variables(case, space, axis, (s, a))
    count = math.prod(sizes.values())
    grid = np.indices(tuple(sizes.values())).reshape(len(sizes), count)
    return count, dict(zip(sizes, grid, strict=True))


def _variables(case: Case, space: Space, axis: Axis | RowName, place: Place) -> dict[str, int]:
    match axis:
        case RowName(name):
            return {_in_row(name, i): size for i, size in enumerate(case.rows[name])}
        case Anything(size):
            return {_own(place): size}
        case Concat(parts):
            part = parts[space.parts[place]]
            return {part if isinstance(part, str) else _own(place): case.part_size(part)}
        case Product(factors):
            return {k: n for f in factors for k, n in _variables(case, space, f, place).items()}
        case _:
            return {name: case.sizes[name] for name in names_of(axis)}


def _in_row(name: str, place: int) -> str:
    return f"..{name}..{place}"


def _own(place: Place) -> str:
    return f"_{place}"


@dataclass(frozen=True)
class Cells:
    """Where the points of a space stand in one array, and whether that is a cell of it."""

    indices: tuple[Array, ...]
    inside: Array

    def read(self, array: Array, outside: float) -> Array:
        values = np.full(self.inside.shape, outside)
        values[self.inside] = array[self.within]
        return values

    @property
    def within(self) -> tuple[Array, ...]:
        return tuple(index[self.inside] for index in self.indices)


def cells(case: Case, space: Space, slot: int, count: int, at: Variables) -> Cells:
    axes = case.slots[slot].axes
    found = [i for a, axis in enumerate(axes) for i in _positions(case, space, axis, (slot, a), at)]
    indices = tuple(np.broadcast_to(index, count) for index in found)
    inside = np.ones(count, bool)
    for index, size in zip(indices, case.shape(case.slots[slot]), strict=True):
        inside &= (index >= 0) & (index < size)
    return Cells(indices, inside)


def _positions(
    case: Case, space: Space, axis: Axis | RowName, place: Place, at: Variables
) -> list[Array | int]:
    """Where the points stand along an axis; along each axis of a row variable."""
    match axis:
        case Name(name):
            return [at[name]]
        case RowName(name):
            return [at[_in_row(name, i)] for i in range(len(case.rows[name]))]
        case Fixed(position):
            return [position]
        case Anything():
            return [at[_own(place)]]
        case Product(factors):
            index: Array | int = 0
            for factor in factors:
                for size, position in zip(
                    case.axis_sizes(factor), _positions(case, space, factor, place, at), strict=True
                ):
                    index = index * size + position
            return [index]
        case Concat(parts):
            chosen = space.parts[place]
            part = parts[chosen]
            before = sum(map(case.part_size, parts[:chosen]))
            return [before + at[part if isinstance(part, str) else _own(place)]]
        case Affine(over, kernel, stride, dilation, offset):
            position = stride * at[over] + offset
            if kernel is None:
                return [position]
            middle = dilation * (case.sizes[kernel] - 1) // 2 if case.is_padded(axis) else 0
            return [position + dilation * at[kernel] - middle]


# Operations.

ACCUMULATIONS = {
    "add": (np.add, 0.0),
    "mul": (np.multiply, 1.0),
    "max": (np.maximum, -math.inf),
    "min": (np.minimum, math.inf),
    "or": (np.logical_or, 0.0),
    "and": (np.logical_and, 1.0),
}


@dataclass(frozen=True)
class Terms:
    """The values that points of a space read and combine, and where they accumulate them."""

    reads: dict[int, tuple[Cells, Array]]
    result: Cells
    values: Array
    at: Variables


def terms(case: Case, arrays: Sequence[Array], combine: str, neutral: float) -> Iterator[Terms]:
    for space in spaces(case):
        count, at = points(case, space)
        # Beyond its ends an axis reads zero in a product, else the neutral element.
        outside = 0.0 if combine == "mul" and len(space.reads) > 1 else neutral
        reads: dict[int, tuple[Cells, Array]] = {}
        for slot in space.reads:
            where = cells(case, space, slot, count, at)
            reads[slot] = where, where.read(arrays[slot], outside)
        values = [read for _, read in reads.values()]
        combined = np.prod(values, axis=0) if combine == "mul" else np.sum(values, axis=0)
        yield Terms(reads, cells(case, space, len(case.operands), count, at), combined, at)


def evaluate(
    case: Case, arrays: Sequence[Array], combine: str, accum: str, start: float | None = None
) -> Array:
    """The result, accumulated onto `start`, or else onto the neutral element."""
    function, neutral = ACCUMULATIONS[accum]
    result = np.full(case.shape(case.result), neutral if start is None else start)
    for term in terms(case, arrays, combine, neutral):
        accumulate(function, result, term.result, term.values)
    return result


def accumulate(function: np.ufunc, result: Array, where: Cells, values: Array) -> None:
    for *cell, value in zip(*where.within, values[where.inside], strict=True):
        result[tuple(cell)] = function(result[tuple(cell)], value)


def pullback(case: Case, arrays: Sequence[Array], combine: str, accum: str, cotangent: Array) -> list[Array]:
    """The gradients of the sum of the result times `cotangent`.

    Of a maximum or minimum, all points that attain it receive the gradient.
    """
    _, neutral = ACCUMULATIONS[accum]
    result = evaluate(case, arrays, combine, accum)
    gradients = [np.zeros_like(array) for array in arrays]
    for term in terms(case, arrays, combine, neutral):
        reaches = term.result.read(cotangent, 0.0)
        if accum != "add":
            reaches = np.where(term.values == term.result.read(result, math.nan), reaches, 0.0)
        for slot, (where, _) in term.reads.items():
            others = [read for other, (_, read) in term.reads.items() if other != slot]
            slope = np.prod(others, axis=0) if others and combine == "mul" else 1.0
            accumulate(np.add, gradients[slot], where, reaches * slope)
    return gradients


def choose(
    case: Case, array: Array, ids: Sequence[Array], at: Sequence[str], accum: str, clamps: bool
) -> Array:
    """A gather or a scatter: the terms at which the ids are equal to the positions of the axes `at`."""
    function, neutral = ACCUMULATIONS[accum]
    result = np.full(case.shape(case.result), neutral)
    for term in terms(case, [array, *ids], "add", neutral):
        if 0 not in term.reads:
            continue
        chosen = np.ones(term.values.shape, bool)
        for slot, name in enumerate(at, 1):
            number = term.reads[slot][1]
            last = case.sizes[name] - 1
            chosen &= (np.clip(number, 0, last) if clamps else number) == term.at[name]
        values = np.where(chosen, term.reads[0][1], neutral)
        accumulate(function, result, term.result, values)
    return result
