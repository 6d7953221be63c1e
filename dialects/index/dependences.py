"""Dependences between points of a space: whether one reads what another one stores."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import TypeAlias

from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.index.linear import Linear, Map, has_position

Point: TypeAlias = dict[str, int]


def check_own_reads(
    stored: Map,
    other: Map,
    space: Mapping[str, int],
    apart: Collection[str] | None = None,
    does: str = "reads",
) -> None:
    """Raises `VerifyException` where a point reads, or sets, an element that another point stores: the result
    would depend on their order. Points are told apart by the variables `apart`, or by those of the store.
    """
    found = dependent_points(stored, other, space, apart)
    if found is None:
        return
    writer, reader = (", ".join(f"{name} = {value}" for name, value in point.items()) for point in found)
    way = ": read a copy of the node" if does == "reads" else ""
    raise VerifyException(
        f"the point {reader} {does} an element that the point {writer} sets, and points have no order{way}"
    )


def dependent_points(
    stored: Map, loaded: Map, space: Mapping[str, int], apart: Collection[str] | None = None
) -> tuple[Point, Point] | None:
    """Two points of which the first stores an element that the second reads, if there are such among the
    corners of the space and what is beside them.
    """
    if any(map(has_position, (*stored, *loaded))) or 0 in space.values() or len(stored) != len(loaded):
        return None
    differences = [
        _outside(load, space) + _outside(store, space) * -1
        for store, load in zip(stored, loaded, strict=True)
    ]
    if not all(difference.is_constant for difference in differences):
        return None
    names = [name for index in (*stored, *loaded) for name in index.names if name in space]
    written = dict.fromkeys(name for index in stored for name in index.names if name in space)
    own = [name for name in written if apart is None or name in apart]
    if not own:
        return None
    for reader in _corners(space, names):
        cells = [
            _inside(load, space).substitute(_constants(reader)).constant + difference.constant
            for load, difference in zip(loaded, differences, strict=True)
        ]
        writer = _solved([_inside(index, space) for index in stored], cells, space)
        if writer is not None and any(writer[name] != reader[name] for name in own):
            return {name: writer[name] for name in own}, {name: reader[name] for name in own}
    return None


def _constants(point: Point) -> dict[str, Linear]:
    return {name: Linear((), value) for name, value in point.items()}


def _inside(index: Linear, space: Mapping[str, int]) -> Linear:
    """The terms of an index over the variables of a space."""
    return Linear(tuple(term for term in index.terms if term[0] in space))


def _outside(index: Linear, space: Mapping[str, int]) -> Linear:
    """The other terms, and the constant."""
    return Linear(tuple(term for term in index.terms if term[0] not in space), index.constant)


def _corners(space: Mapping[str, int], names: list[str]) -> Iterator[Point]:
    """Points at which at most two of the variables are not 0 but 1, 2 or the last value."""
    zero = dict.fromkeys(space, 0)
    yield zero
    steps = [
        {name: value}
        for name in dict.fromkeys(names)
        for value in sorted({1, 2, space[name] - 1})
        if 0 < value < space[name]
    ]
    for step in steps:
        yield zero | step
    for one, other in combinations(steps, 2):
        yield zero | one | other


def _solved(indices: list[Linear], cells: list[int], space: Mapping[str, int]) -> Point | None:
    """The point at which indices of one variable each have these values."""
    point: Point = {}
    for index, cell in zip(indices, cells, strict=True):
        if not index.terms:
            if cell:
                return None
            continue
        (name, coefficient), *more = index.terms
        value, rest = divmod(cell, coefficient)
        if more or rest or not 0 <= value < space[name] or point.get(name, value) != value:
            return None
        point[name] = value
    return point
