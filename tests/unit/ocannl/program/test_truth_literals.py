"""True and False in expressions: truth values where NumPy has them, numbers in arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc

MASK, OTHER = np.array([True, False, True]), np.array([False, False, True])
COUNTS, REALS = np.array([1, 0, 3], np.int32), np.array([1.5, -2.0, 0.0], np.float32)
BYTES = np.array([1, 0, 3], np.uint8)

CASES: dict[str, Callable[[Any, Any], Any]] = {
    "maximum": lambda m, t: m.maximum(t(MASK), False),
    "minimum": lambda m, t: m.minimum(True, t(MASK)),
    "where": lambda m, t: m.where(t(MASK), True, False),
    "where, tensor": lambda m, t: m.where(t(MASK), t(OTHER), False),
    "where, bytes": lambda m, t: m.where(t(MASK), t(BYTES), True),
    "where, floats": lambda m, t: m.where(t(MASK), t(REALS), True),
    "and": lambda m, t: t(MASK) & True,
    "or": lambda m, t: False | t(MASK),
    "xor": lambda m, t: t(MASK) ^ True,
    "clip": lambda m, t: m.clip(t(MASK), False, True),
    "times": lambda m, t: t(COUNTS) * True,
    "plus, floats": lambda m, t: t(REALS) + True,
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("literal", [bool, np.bool_, np.array])
def test_they_are_numpys(name: str, literal: Callable[[bool], Any]) -> None:
    class Literals:
        """NumPy's or our functions, of which True and False are made `literal`."""

        def __init__(self, module: Any) -> None:
            self.module = module

        def __getattr__(self, name: str) -> Callable[..., Any]:
            function = getattr(self.module, name)
            return lambda *args: function(*[literal(a) if isinstance(a, bool) else a for a in args])

    expected = np.asarray(CASES[name](Literals(np), np.asarray))
    found = CASES[name](Literals(oc), oc.tensor).numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("literal", [np.bool_(True), np.array(True), True])
def test_in_arithmetic_they_count(literal: Any) -> None:
    truths = (oc.tensor(MASK) + literal).numpy()
    assert truths.dtype == np.int32
    np.testing.assert_array_equal(truths, MASK + 1)
    assert (oc.tensor(BYTES) * literal).numpy().dtype == np.uint8


def test_arrays_without_axes_are_whole_numbers() -> None:
    two: Any = np.array(2)
    found = (oc.tensor(COUNTS) * two).numpy()
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, COUNTS * 2)


def test_constants_and_branches() -> None:
    assert oc.constant(True).numpy().dtype == np.bool_
    chosen = oc.cond(oc.tensor(REALS)[0] > 0, lambda: True, lambda: False)
    assert chosen.numpy() == np.bool_(True)
    assert chosen.numpy().dtype == np.bool_
    assert oc.einsum("i; i => ", oc.tensor(REALS), True).numpy() == REALS.sum()


@pytest.mark.parametrize(
    ("cell", "dtype", "last"),
    [
        (lambda c, x: c | (x > 2), np.bool_, True),
        (lambda c, x: c + x, np.int32, 4),
        (lambda c, x: c + 0.5 * x, np.float32, 2.0),
    ],
)
def test_a_carry_that_begins_with_false(cell: Callable[..., oc.Tensor], dtype: type, last: float) -> None:
    xs = oc.data(COUNTS, axes="b")
    _, carry = oc.scan(lambda c, x: (cell(c, x), c), False, xs)
    assert carry.numpy().dtype == dtype
    assert carry.numpy() == last


def test_in_eager_mode_they_are_found_again() -> None:
    with oc.eager():
        mask = oc.tensor(MASK)
        first, second = oc.maximum(mask, False), oc.maximum(mask, False)
        assert first.ir_value is second.ir_value
        np.testing.assert_array_equal(first.numpy(), MASK)
