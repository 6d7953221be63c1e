"""Linear index expressions against the integers that they stand for."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from ocannl.dialects.index.linear import Linear, identity_map

NAMES = ("b", "i", "o", "step_n")
INTEGERS = st.integers(-5, 5)

linears = st.builds(Linear.of, st.dictionaries(st.sampled_from(NAMES), INTEGERS), INTEGERS)
points = st.fixed_dictionaries(dict.fromkeys(NAMES, INTEGERS))
spaces = st.fixed_dictionaries({name: st.integers(1, 4) for name in NAMES})


def value(linear: Linear, point: dict[str, int]) -> int:
    return sum(coefficient * point[name] for name, coefficient in linear.terms) + linear.constant


def is_normal(linear: Linear) -> bool:
    names = [name for name, _ in linear.terms]
    return names == sorted(set(names)) and all(coefficient for _, coefficient in linear.terms)


@given(linears, linears, points)
def test_sum(a: Linear, b: Linear, point: dict[str, int]):
    assert value(a + b, point) == value(a, point) + value(b, point)
    assert is_normal(a + b)


@given(linears, INTEGERS, points)
def test_multiple(a: Linear, factor: int, point: dict[str, int]):
    assert value(a * factor, point) == value(a, point) * factor
    assert is_normal(a * factor)


@given(linears, linears, linears)
def test_equal_expressions_are_equal(a: Linear, b: Linear, c: Linear):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert (a + b) * 3 == a * 3 + b * 3
    assert a + a * -1 == Linear()


@given(linears, st.dictionaries(st.sampled_from(NAMES), linears), points)
def test_substitution(a: Linear, replacements: dict[str, Linear], point: dict[str, int]):
    """All names are replaced at once."""
    replaced = {name: value(r, point) for name, r in replacements.items()}
    assert value(a.substitute(replacements), point) == value(a, point | replaced)
    assert is_normal(a.substitute(replacements))


@given(linears, spaces)
def test_extremes(a: Linear, sizes: dict[str, int]):
    names = a.names
    values = [
        value(a, dict(zip(names, at, strict=True))) for at in product(*(range(sizes[n]) for n in names))
    ]
    assert a.extremes(sizes) == (min(values), max(values))


def test_extremes_of_unknown_sizes():
    assert Linear.of({"i": 2, "n": 1}).extremes({"i": 4}) is None
    assert Linear((), 3).extremes({}) == (3, 3)


@given(linears)
def test_queries(a: Linear):
    assert a.is_constant == (a == Linear((), a.constant))
    assert all(a.coefficient(name) == coefficient for name, coefficient in a.terms)
    assert all(a.coefficient(name) == 0 for name in NAMES if name not in a.names)
    assert a.variable is None or a == Linear.var(a.variable)


def test_variable():
    assert Linear.var("i").variable == "i"
    assert (Linear.var("i") + Linear((), 1)).variable is None
    assert (Linear.var("i") * 2).variable is None
    assert (Linear.var("i") * -1).variable is None
    assert [index.variable for index in identity_map(["b", "o"])] == ["b", "o"]


def test_text():
    assert str(Linear()) == "0"
    assert str(Linear((), -2)) == "-2"
    assert str(Linear.of({"o": 2, "k": 1}, -1)) == "k + 2*o - 1"
    assert str(Linear.of({"b": -1, "o": -3}, 7)) == "-b - 3*o + 7"
