"""Bounds on index expressions, against the points at which they hold."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.index.bounds import (
    Bound,
    BoundsAttr,
    bounds_text,
    check_bounds,
    clashing_within,
    collapsed,
    extremes_within,
    unshifted,
)
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.kernel import KERNEL

Point = dict[str, int]
NAMES = "abc"
SIZES = st.fixed_dictionaries({name: st.integers(1, 4) for name in NAMES})
LINEARS = st.builds(
    Linear.of, st.dictionaries(st.sampled_from(NAMES), st.integers(-3, 6), max_size=3), st.integers(-2, 4)
)
POSITIVE = st.builds(
    Linear.of, st.dictionaries(st.sampled_from(NAMES), st.integers(1, 4), min_size=1), st.integers(0, 2)
)
BOUNDS = st.lists(st.builds(Bound, POSITIVE, st.integers(1, 12)), max_size=2)


def value(index: Linear, point: Mapping[str, int]) -> int:
    return sum(coefficient * point[name] for name, coefficient in index.terms) + index.constant


def points(sizes: Mapping[str, int], bounds: list[Bound]) -> list[Point]:
    """Those of a space at which bounds hold."""
    found = (dict(zip(sizes, at, strict=True)) for at in product(*map(range, sizes.values())))
    return [point for point in found if all(0 <= value(b.index, point) < b.below for b in bounds)]


@given(st.lists(st.builds(Bound, LINEARS, st.integers(0, 99)), min_size=1, max_size=3))
def test_text(bounds: list[Bound]):
    context = Context()
    context.load_dialect(KERNEL)
    attribute = BoundsAttr(tuple(bounds))
    assert Parser(context, str(attribute)).parse_attribute() == attribute
    assert bounds_text(bounds) in str(attribute)
    assert bounds_text([Bound(Linear.of({"b": 16, "t": 1}), 100)]) == "16*b + t < 100"


@given(LINEARS, SIZES, BOUNDS)
def test_a_variable_in_place_of_an_expression(index: Linear, sizes: Point, bounds: list[Bound]):
    """With its value, the index has the value from before; that is within its size where the bounds hold."""
    whole, own = collapsed(index, bounds)
    for point in points(sizes, bounds):
        parts = {str(b.index): value(b.index, point) for b in map(unshifted, bounds)}
        assert value(whole, point | parts) == value(index, point)
        assert all(0 <= parts[name] < size for name, size in own.items())


def test_an_expression_that_is_contained_often():
    bounds = [Bound(Linear.of({"b": 4, "t": 1}), 10)]
    whole = Linear.of({"4*b + t": 3, "c": 1})
    assert collapsed(Linear.of({"b": 12, "t": 3, "c": 1}), bounds) == (whole, {"4*b + t": 10})
    assert collapsed(Linear.of({"b": 12, "t": 2}), bounds) == (Linear.of({"b": 12, "t": 2}), {})
    t = Linear.var("t")
    for below in ((3, 2), (2, 3)):
        assert collapsed(t, [Bound(t, b) for b in below]) == (t, {"t": 2})


@given(LINEARS, SIZES, BOUNDS)
def test_extremes(index: Linear, sizes: Point, bounds: list[Bound]):
    inside = points(sizes, bounds)
    assume(inside)
    found = extremes_within(index, sizes, bounds)
    assert found is not None
    values = [value(index, point) for point in inside]
    assert found[0] <= min(values)
    assert max(values) <= found[1]


def test_extremes_of_a_bounded_expression():
    index, bounds = Linear.of({"b": 4, "t": 1}, 2), [Bound(Linear.of({"b": 4, "t": 1}), 10)]
    assert extremes_within(index, {"b": 3, "t": 4}, bounds) == (2, 11)
    assert extremes_within(index, {"b": 3, "t": 4}, []) == (2, 13)
    assert extremes_within(index, {"b": 3}, []) is None


@given(st.lists(LINEARS, min_size=1, max_size=2), SIZES, BOUNDS)
def test_two_points_of_one_cell_differ_in_clashing_variables(
    indices: list[Linear], sizes: Point, bounds: list[Bound]
):
    clashing = clashing_within(tuple(indices), sizes, bounds)
    cells: dict[tuple[int, ...], list[Point]] = {}
    for point in points(sizes, bounds):
        cells.setdefault(tuple(value(index, point) for index in indices), []).append(point)
    for same in cells.values():
        assert {n for a in same for b in same for n in NAMES if a[n] != b[n]} <= clashing


def test_bounds_tell_points_apart():
    """Rows of 10 are cut into blocks of 4: those beyond the end would be in the next row."""
    index, sizes = Linear.of({"row": 10, "b": 4, "t": 1}), {"row": 3, "b": 3, "t": 4}
    assert clashing_within((index,), sizes, [Bound(Linear.of({"b": 4, "t": 1}), 10)]) == set()
    assert clashing_within((index,), sizes, []) == {"row", "b", "t"}
    one = {"b": 3, "t": 4}
    assert clashing_within((Linear.of({"b": 2, "t": 1}),), one, [Bound(Linear.var("t"), 2)]) == set()
    assert clashing_within((Linear.of({"b": 2, "t": 1}),), one, [Bound(Linear.var("t"), 3)]) == {"b", "t"}


def test_an_index_that_may_be_negative():
    sizes = {"a": 3, "b": 3}
    check_bounds([Bound(Linear.of({"a": 1, "b": -1}, 2), 4)], sizes)
    check_bounds([Bound(Linear.of({"elsewhere": -1}), 4)], sizes)
    with pytest.raises(VerifyException, match="`a - b` may be negative"):
        check_bounds([Bound(Linear.of({"a": 1, "b": -1}), 4)], sizes)
