"""The values of indices that are let through are those for which every access is inside its node."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from support.nests import parse_module, the_func
from xdsl.utils.exceptions import VerifyException

import ocannl as oc
from ocannl.dialects.index.linear import Linear
from ocannl.execute.indices.index_limits import IndexLimits
from ocannl.passes.analysis.dataflow.routine_facts import routine_facts

STATIC, VARIABLES = ("i", "j"), ("a", "b")
COEFFICIENTS = st.integers(-3, 3)
INDICES = st.builds(
    lambda coefficients, constant: Linear.of(
        dict(zip((*STATIC, *VARIABLES), coefficients, strict=True)), constant
    ),
    st.tuples(COEFFICIENTS, COEFFICIENTS, COEFFICIENTS, COEFFICIENTS),
    st.integers(-4, 8),
)
SIZES = st.integers(1, 4)


def limits_of(
    index: Linear, size: int, space: Mapping[str, int], ranges: Mapping[str, int | None]
) -> IndexLimits:
    """Those of a routine that reads a node of `size` elements at an index."""
    declared = ", ".join(name if range is None else f"{name} = {range}" for name, range in ranges.items())
    variables = ", ".join(f"{name} = {extent}" for name, extent in space.items())
    text = f"""
        loops.func @f indices ({declared}) {{
          %x = assign.node "x" on_device because "node" : memref<{size}xf32>
          %y = assign.node "y" on_device because "node" : memref<{"x".join(map(str, space.values()))}xf32>
          loops.nest "n" ({variables}) {{
            %0 = loops.load %x[{index}]
            loops.store %0, %y[{", ".join(space)}]
          }}
        }}"""
    try:
        module = parse_module(text)
    except VerifyException:  # whatever the indices are, it reads outside of the node
        reject()
    return IndexLimits(ranges, routine_facts(the_func(module)).limits)


def values(index: Linear, names: Mapping[str, range]) -> set[int]:
    points = itertools.product(*names.values())
    each = (dict(zip(names, point, strict=True)) for point in points)
    return {index.substitute({n: Linear((), v) for n, v in at.items()}).constant for at in each}


@given(index=INDICES, size=st.integers(1, 9), a=SIZES, b=SIZES, i=st.integers(-9, 9), j=st.integers(-9, 9))
def test_of_single_runs(index: Linear, size: int, a: int, b: int, i: int, j: int):
    limits = limits_of(index, size, {"a": a, "b": b}, {"i": None, "j": None})
    names = {"i": range(i, i + 1), "j": range(j, j + 1), "a": range(a), "b": range(b)}
    is_inside = values(index, names) <= set(range(size))
    try:
        limits.check_run({"i": (i, i), "j": (j, j)})
    except oc.OcannlError:
        assert not is_inside
    else:
        assert is_inside


@given(index=INDICES, size=st.integers(1, 9), a=SIZES, ranged=SIZES, first=st.integers(-4, 4), runs=SIZES)
def test_of_loops(index: Linear, size: int, a: int, ranged: int, first: int, runs: int):
    limits = limits_of(index, size, {"a": a, "b": 1}, {"i": ranged, "j": None})
    names = {"i": range(ranged), "j": range(first, first + runs), "a": range(a), "b": range(1)}
    is_inside = values(index, names) <= set(range(size))
    try:
        limits.check_run({"i": (0, ranged - 1), "j": (first, first + runs - 1)})
    except oc.OcannlError:
        assert not is_inside
    else:
        assert is_inside


@given(coefficients=st.tuples(COEFFICIENTS, COEFFICIENTS), size=st.integers(1, 9), value=st.integers(-9, 9))
def test_what_is_surely_valid_is(coefficients: tuple[int, int], size: int, value: int):
    index, a = Linear.of(dict(zip("ia", coefficients, strict=True))), 2
    limits = limits_of(index, size, {"a": a, "b": 1}, {"i": None, "j": None})
    if 0 <= value <= limits.surely_valid("i"):
        limits.check_run({"i": (value, value), "j": (0, 0)})


def test_a_backward_index_has_both_ends():
    limits = limits_of(Linear.of({"i": -2}, 3), 4, {"a": 1, "b": 1}, {"i": None, "j": None})
    limits.check("i", 0)
    limits.check("i", 1)
    for value in (-1, 2):
        with pytest.raises(oc.OcannlError, match=rf": index i={value} is outside the data that .*, 0\.\.1$"):
            limits.check("i", value)


def test_indices_limit_each_other():
    limits = limits_of(Linear.of({"i": 1, "j": 1}), 5, {"a": 1, "b": 1}, {"i": None, "j": None})
    assert limits.surely_valid("i") == -1
    limits.check_run({"i": (-3, -3), "j": (7, 7)})
    with pytest.raises(oc.OcannlError, match=r"with i=-3, j=6\.\.8 the index i \+ j is outside .*, 0\.\.4"):
        limits.check_run({"i": (-3, -3), "j": (6, 8)})


def test_there_may_be_no_value():
    limits = limits_of(Linear.of({"i": 1, "a": 1}), 2, {"a": 3, "b": 1}, {"i": None, "j": None})
    with pytest.raises(oc.OcannlError, match="which has no element for it"):
        limits.check("i", 0)
