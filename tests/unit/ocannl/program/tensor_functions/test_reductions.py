"""Reductions and creation, against NumPy: values, shapes, dtypes and gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from support.tensors import Array

import ocannl as oc
from ocannl import nn

NAMES = ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "argmax", "argmin"]
SMOOTH = ["sum", "prod", "max", "min", "mean", "var", "std"]
AXES: dict[Any, Any] = {None: None, 0: 0, -1: -1, (0, 2): (0, 2), "batch": (0, 1), "output": 2, "input": ()}
ROWS: list[Any] = [*AXES]
CTX = oc.Context.cpu(1)


def array_of(*shape: int) -> Array:
    return np.asarray(np.random.default_rng(5).normal(size=shape))


def slopes(f: Callable[[Array], Array], x: Array) -> Array:
    """Central differences of a sum with unequal weights."""
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[at] = 1e-6
        change = f(x + step) - f(x - step)
        found[at] = np.sum(change * weights(change.shape)) / 2e-6
    return found


def weights(shape: tuple[int, ...]) -> Array:
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("axes", ROWS, ids=str)
@pytest.mark.parametrize("keep", [False, True])
def test_values(axes: Any, keep: bool):
    """Of data, and of an expression whose rows are open."""
    x = oc.data(array_of(2, 3, 4), label="x")
    for name in NAMES:
        if name.startswith("arg") and not (axes is None or isinstance(axes, int)):
            continue
        wanted = getattr(np, name)(array_of(2, 3, 4), axis=AXES[axes], keepdims=keep)
        for t in (x, x * 1):
            found = getattr(t, name)(axes, keep)
            assert tuple(found.shape) == np.shape(wanted), name
            np.testing.assert_allclose(CTX[found], wanted, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("axes", [None, 1, "output"], ids=str)
def test_gradients(axes: Any):
    x = oc.data(array_of(2, 3, 4), label="x")
    for name in SMOOTH:
        y = getattr(oc, name)(x, axes)
        loss = (y * oc.data(weights(tuple(y.shape)), axes="b" * y.ndim if axes != 1 else None)).sum()
        wanted = slopes(
            lambda a, name=name: getattr(np, name)(a, axis=AXES[axes] if axes != 1 else 1), x.numpy()
        )
        np.testing.assert_allclose(CTX[oc.grad(loss, x)], wanted, rtol=1e-6, atol=1e-7, err_msg=name)


def test_products_with_zeros():
    """One factor that is zero, or two; forward mode, second derivatives, and a product of sums."""
    a = np.array([[2.0, 3.0, 4.0], [0.0, 5.0, 6.0], [0.0, 7.0, 0.0]])
    x, ones = oc.data(a, label="x"), oc.data(np.ones((3, 3)), label="ones")
    y = oc.prod(x, -1)
    gradient = oc.grad(y.sum(), x)
    np.testing.assert_array_equal(CTX[gradient], [[12, 8, 6], [30, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(CTX[oc.jvp(y, x, ones)], [26, 30, 0])
    np.testing.assert_array_equal(CTX[oc.jvp(gradient, x, ones)][:2], [[7, 6, 5], [11, 6, 5]])
    np.testing.assert_array_equal(CTX[oc.grad(oc.prod(x + 1), x)], np.prod(a + 1) / (a + 1))


@pytest.mark.exhaustive
@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_third_derivatives_of_products_with_zeros(zeros: int):
    """In three directions, by forward and by reverse mode: sums of products of what is left out."""
    array = np.array([2.0, 3.0, -0.5, 4.0])
    array[:zeros] = 0.0
    directions = array_of(3, 4)
    x = oc.data(array, label="x")
    along = by_gradients = oc.prod(x)
    for direction in directions:
        v = oc.data(direction)
        along, by_gradients = oc.jvp(along, x, v), (oc.grad(by_gradients, x) * v).sum()
    wanted = sum(
        np.prod(directions[range(3), chosen]) * np.prod(np.delete(array, chosen))
        for chosen in permutations(range(4), 3)
    )
    np.testing.assert_allclose([CTX[along], CTX[by_gradients]], np.full(2, wanted), rtol=1e-12)


def test_rows_may_be_open():
    w = oc.param("w")
    y = oc.sum(w @ oc.data(array_of(2, 3)), "output")
    assert y.shape.output == ()
    loss = (w @ oc.data(array_of(2, 3)) + oc.zeros((2, 5))).mean()
    assert tuple(loss.shape) == ()
    with pytest.raises(oc.ShapeError, match="axes of `v`"):
        oc.sum(oc.param("v", output=3), -1)


def test_the_numbers_of_elements():
    """Known or not, and less one."""
    b = oc.Dim("b")
    x = oc.einsum("b | o => b | o", oc.data(array_of(4, 3)), b=b)
    np.testing.assert_allclose(CTX[x.var(ddof=1)], array_of(4, 3).var(ddof=1), rtol=1e-12)
    np.testing.assert_allclose(CTX[(x * 1).var("batch", ddof=1)], array_of(4, 3).var(0, ddof=1), rtol=1e-12)


def test_no_degrees_of_freedom():
    """As in NumPy, the divisor is at least 0."""
    for array in (np.array([1.0, 3.0]), np.array([2.0, 2.0]), np.zeros((0,))):
        with warnings.catch_warnings(action="ignore"):
            wanted = [np.var(array, ddof=ddof) for ddof in (0, 2, 5)]
        x = oc.data(array, label="x")
        np.testing.assert_array_equal([CTX[x.var(ddof=ddof)] for ddof in (0, 2, 5)], wanted)


def test_positions_of_extremes():
    """The first of equal ones, and of NaN."""
    x = oc.tensor([[1.0, 3.0, 3.0], [np.nan, 7.0, np.nan], [2.0, 2.0, 2.0]])
    np.testing.assert_array_equal(CTX[x.argmax(-1)], [1, 0, 0])
    np.testing.assert_array_equal(CTX[x.argmin(-1)], [0, 0, 0])
    assert CTX[x[::2].argmax()] == 1
    assert CTX[oc.argmin(x[::2], "output")].tolist() == [0, 0]
    nothing = oc.zeros((0, 3))
    assert CTX[nothing.argmax(1)].shape == (0,)
    with pytest.raises(oc.ShapeError, match="has no elements there"):
        nothing.argmax(0)


def test_no_element_is_greatest():
    """As in NumPy and PyTorch; sums and products of nothing are 0 and 1, and logarithms of sums -inf."""
    nothing = oc.zeros((0, 3))
    for extreme in (nothing.max, nothing.min, lambda axes=None: oc.max(nothing, axes)):
        with pytest.raises(oc.ShapeError, match=r"no elements there, so none is (greatest|least)"):
            extreme()
        with pytest.raises(oc.ShapeError, match="has no elements there"):
            extreme(0)
        assert CTX[extreme(1)].shape == (0,)
    np.testing.assert_array_equal(CTX[nothing.prod(0)], [1, 1, 1])
    np.testing.assert_array_equal(CTX[oc.logsumexp(nothing, 0)], [-np.inf] * 3)
    np.testing.assert_array_equal(CTX[oc.einmax("a | b => b", nothing)], [-np.inf] * 3)
    assert CTX[nn.softmax()(oc.zeros((3, 0)))].shape == (3, 0)


@pytest.mark.parametrize("axes", ["rows", 3, (0, 0), 1.5, (0, "batch")])
def test_axes_that_there_are_not(axes: Any):
    with pytest.raises(oc.ArgumentError):
        oc.sum(oc.data(array_of(2, 3)), axes)


def test_creation():
    made = {
        oc.zeros((2, 3)): np.zeros((2, 3), np.float32),
        oc.ones(2, np.int32): np.ones(2, np.int32),
        oc.full((), 2.5): np.float32(2.5),
        oc.arange(5): np.arange(5, dtype=np.int32),
        oc.arange(1, 2, 0.25): np.arange(1, 2, 0.25, dtype=np.float32),
        oc.arange(5, 0, -2): np.array([5, 3, 1], np.int32),
        oc.arange(0): np.array([], np.int32),
        oc.arange(3, 0.0): np.array([], np.float32),
        oc.arange(2**40, 2**40 + 2): np.array([2**40, 2**40 + 1], np.int64),
        oc.eye(2, 3): np.eye(2, 3, dtype=np.float32),
        oc.eye(3, 4, -1): np.eye(3, 4, -1, dtype=np.float32),
        oc.linspace(0, 1, 3, dtype=np.float64): np.linspace(0, 1, 3),
        oc.linspace(0, 1, 4, False, np.float64): np.linspace(0, 1, 4, False),
        oc.tensor([[1, 2], [3, 4]]): np.array([[1, 2], [3, 4]], np.int32),
        oc.tensor([0.5]): np.array([0.5], np.float32),
        oc.tensor(np.float64(2.0)): np.float64(2.0),
    }
    for t, wanted in made.items():
        np.testing.assert_array_equal(t.numpy(), wanted)
        assert t.dtype == wanted.dtype
    assert str(oc.eye(2, axes="oi").shape) == "2->2"
    sizes: Any = (2, 0.5)
    for program in (lambda: oc.zeros(-1), lambda: oc.zeros(sizes), lambda: oc.tensor(["a"])):
        with pytest.raises(oc.OcannlError):
            program()


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_an_axis_that_turns_out_to_be_empty(name: str):
    """The error is that of one that is known to be, at the line of the reduction."""
    empty = oc.zeros(0)

    def use() -> oc.Tensor:
        y = oc.einsum("d, => d,", oc.param("w", init=1.0))
        return getattr(y, name)(0) + (y + empty).sum()

    message = r"test_reductions.py:\d+: .*has no elements there, so none is (greatest|least|first)"
    with pytest.raises(oc.ShapeError, match=message):
        CTX[use()]
    with pytest.raises(oc.ShapeError, match=message):
        CTX.compile(use().forward)
    with pytest.raises(oc.ShapeError, match=message):
        oc.infer(use())


def test_extremes_of_nothing_beside_an_empty_axis():
    """Where the result is empty too, and where -inf was asked for, nothing is wrong."""
    y = oc.einsum("d, => d,", oc.param("w", init=1.0))
    total = (y + oc.zeros(0)).sum()
    assert CTX[oc.einmax("d, => ", y) + total] == -np.inf
    assert CTX[oc.logsumexp(y) + total] == -np.inf
    rows = oc.einsum("d, e => d, e", oc.param("v", init=1.0))
    others = oc.data(np.zeros((0, 3), np.float32), axes="oo")
    oc.infer(rows.max(1) + oc.einsum("d, e => d,", rows + others))
    assert tuple(rows.shape) == (0, 3)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("depth", [1, 2])
def test_an_axis_that_turns_out_to_be_empty_inside_of_a_scan(name: str, depth: int):
    w = oc.param("w", init=1.0)

    def cell(carry: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        return carry, getattr(oc.einsum("d, ; => d, ", w, x), name)(0)

    def outer(carry: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        return carry, oc.scan(cell, 0.0, x)[0]

    xs = oc.data(np.ones((2, 3)[:depth]), axes="bb"[:depth])
    stacked, _ = oc.scan(cell if depth == 1 else outer, 0.0, xs)
    y = stacked.sum() + (oc.einsum("d, => d, ", w) + oc.zeros(0)).sum()
    message = r"test_reductions.py:\d+: .*has no elements there, so none is (greatest|least|first)"
    for use in (lambda: oc.Context.cpu().init_params(y), y.numpy):
        with pytest.raises(oc.ShapeError, match=message):
            use()
