"""Dependences between points of a space: whether one reads what another one stores."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import TypeAlias

from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear, Map, Space, has_position

Point: TypeAlias = dict[str, int]


def check_own_reads(
    stored: Map,
    other: Map,
    space: Mapping[str, int],
    apart: Collection[str] | None = None,
    does: str = "reads",
    bounds: Sequence[Bound] = (),
) -> None:
    """Raises `VerifyException` where a point reads, or sets, an element that another point stores: the result
    would depend on their order. Points are told apart by the variables `apart`, or by those of the store;
    `bounds` hold at all of them.
    """
    apart = None if apart is None else tuple(apart)
    found = _found_before(stored, other, tuple(space.items()), apart, tuple(bounds))
    if found is None:
        return
    writer, reader = (", ".join(f"{name} = {value}" for name, value in point.items()) for point in found)
    way = ": read a copy of the node" if does == "reads" else ""
    raise VerifyException(
        f"the point {reader} {does} an element that the point {writer} sets, and points have no order{way}"
    )


@lru_cache(maxsize=4096)
def _found_before(
    stored: Map, other: Map, space: Space, apart: tuple[str, ...] | None, bounds: tuple[Bound, ...]
) -> tuple[Point, Point] | None:
    """`dependent_points`, kept: each verification of a module asks for the same."""
    return dependent_points(stored, other, dict(space), apart, bounds)


def dependent_points(
    stored: Map,
    loaded: Map,
    space: Mapping[str, int],
    apart: Collection[str] | None = None,
    bounds: Sequence[Bound] = (),
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
    pairs = [*zip(stored, loaded, (difference.constant for difference in differences), strict=True)]
    if any(_never_meet(store, load, constant, space) for store, load, constant in pairs):
        return None
    same = {name for store, load, constant in pairs if not constant for name in _same(store, load, space)}
    if same.issuperset(own):
        return None
    for reader in _corners(space, names):
        cells = [
            _inside(load, space).substitute(_constants(reader)).constant + difference.constant
            for load, difference in zip(loaded, differences, strict=True)
        ]
        writer = _solved([_inside(index, space) for index in stored], cells, space)
        if writer is None or not _hold(bounds, reader) or not _hold(bounds, reader | writer):
            continue
        if any(writer[name] != reader[name] for name in own):
            return {name: writer[name] for name in own}, {name: reader[name] for name in own}
    return None


def _never_meet(store: Linear, load: Linear, constant: int, space: Mapping[str, int]) -> bool:
    """Whether an index at no point is that of a load at another point and a constant: the range of their
    difference or the common divisor of its factors tells (Banerjee, "Dependence Analysis", 1997).
    """
    terms = [*_inside(store, space).terms, *(_inside(load, space) * -1).terms]
    reaches = [factor * (space[name] - 1) for name, factor in terms]
    if not sum(min(reach, 0) for reach in reaches) <= constant <= sum(max(reach, 0) for reach in reaches):
        return True
    divisor = math.gcd(*(factor for _, factor in terms))
    return divisor > 0 and constant % divisor != 0


def _same(store: Linear, load: Linear, space: Mapping[str, int]) -> set[str]:
    """The variables that have one value where two indices are the same and a value of the first tells all of
    its variables: the others have factors and sizes alike.
    """
    stored, loaded = set(_inside(store, space).terms), set(_inside(load, space).terms)
    both = stored & loaded
    rests = (sorted((factor, space[name]) for name, factor in terms - both) for terms in (stored, loaded))
    return {name for name, _ in both} if next(rests) == next(rests) else set()


def _hold(bounds: Sequence[Bound], point: Point) -> bool:
    values = _constants(point)
    return all(bound.index.substitute(values).constant < bound.below for bound in bounds)


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
    """The point at which indices have these values, each of which has one variable, or those of a tile,
    `i + 4*i_block`, of which a value tells all.
    """
    point: Point = {}
    for index, cell in zip(indices, cells, strict=True):
        digits = _digits(index, cell, space)
        if digits is None or any(point.get(name, value) != value for name, value in digits.items()):
            return None
        point |= digits
    return point


def _digits(index: Linear, cell: int, space: Mapping[str, int]) -> Point | None:
    """The only values of its variables at which an index has this value; None if there are none or others."""
    point: Point = {}
    terms = sorted(index.terms, key=lambda term: abs(term[1]))
    reaches = [abs(factor) * (space[name] - 1) for name, factor in terms]
    reach = sum(reaches)
    rest = cell - sum(min(factor, 0) * (space[name] - 1) for name, factor in terms)
    for (name, factor), own in zip(reversed(terms), reversed(reaches), strict=True):
        reach -= own
        if abs(factor) <= reach:
            return None
        value, rest = divmod(rest, abs(factor))
        if not 0 <= value < space[name]:
            return None
        point[name] = value if factor > 0 else space[name] - 1 - value
    return None if rest else point
