"""The errors of sums in every order of reduction, in units of rounding of the sum of absolute values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

Array = NDArray[Any]
KINDS = ("random", "positive", "equal", "alternating", "growing")
FLOATS = [np.float32, np.float64]
LENGTHS = [17, 1000, 4096, 100_003]
LONG = [2**20 + 1, 2**24]


def terms(kind: str, count: int, dtype: type) -> Array:
    rng, ramp = np.random.default_rng(count), np.arange(count)
    found = {
        "random": rng.standard_normal(count),
        "positive": rng.uniform(0, 1, count),
        "equal": np.full(count, 0.1),
        "alternating": np.where(ramp % 2, -1, 1) * rng.uniform(1, 2, count),
        "growing": ramp + 0.3,
    }
    return found[kind].astype(dtype)


def roundings(count: int) -> float:
    """The additions that a number goes through in NumPy's pairwise summation: 18 in blocks of 128, then one
    for each time that the length doubles.
    """
    return 11 + max(7.0, math.log2(count))


def allowed(x: Array) -> float:
    """The error that the sum of an array may have."""
    return roundings(x.size) * float(np.finfo(x.dtype).eps) / 2 * math.fsum(np.abs(x))


def orders(x: Array) -> dict[str, tuple[Array, tuple[int, ...]]]:
    """Arrays of the kinds of terms in rows, with the axes to sum over: all reductions of the same numbers."""
    kinds, count = x.shape
    split = max(d for d in range(1, math.isqrt(count) + 1) if count % d == 0)
    middle = x.T.reshape(split, count // split, kinds)
    return {
        "contiguous": (x, (1,)),
        "strided": (np.ascontiguousarray(x.T), (0,)),
        "between": (np.stack([x.T, x.T]), (1,)),
        "two axes": (np.ascontiguousarray(middle), (0, 1)),
        "outer axis": (np.ascontiguousarray(np.moveaxis(middle, 2, 1)), (0, 2)),
    }


def check_orders(dtype: type, count: int) -> None:
    x = np.stack([terms(kind, count, dtype) for kind in KINDS])
    exact, bound = [math.fsum(row) for row in x], [allowed(row) for row in x]
    for order, (array, axes) in orders(x).items():
        sums = oc.sum(oc.data(array), axes).numpy().reshape(-1, len(KINDS))
        for row in sums:
            for kind, found, wanted, most in zip(KINDS, row, exact, bound, strict=True):
                error = abs(math.fsum([float(found), -wanted]))
                assert error <= most, f"{order}, {kind}: {error / most:.2f} of what is allowed"
    for row, wanted, most in zip(x, exact, bound, strict=True):
        assert abs(math.fsum([float(np.sum(row)), -wanted])) <= most, "of NumPy"


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_are_within_the_bound_of_pairwise_summation(dtype: type, count: int) -> None:
    check_orders(dtype, count)


@pytest.mark.exhaustive
@pytest.mark.parametrize("count", LONG)
@pytest.mark.parametrize("dtype", FLOATS)
def test_long_sums_are_within_the_bound_of_pairwise_summation(dtype: type, count: int) -> None:
    check_orders(dtype, count)


def test_a_sum_of_2_to_the_24_plus_some_ones_is_exact() -> None:
    """Plain accumulation of f32 stops at 2^24 in each accumulator."""
    a, b = oc.data(np.ones(2**13, np.float32)), oc.data(np.ones(2**13, np.float32))
    assert float(oc.einsum("i; j => 0", a, b).numpy()[0]) == 2.0**26
    rows = oc.data(np.ones((2**13, 3), np.float32))
    assert np.all(oc.einsum("i; j | k => k", a, rows).numpy() == 2.0**26)


@pytest.mark.exhaustive
def test_a_sum_of_2_to_the_32_ones_is_exact() -> None:
    a, b = oc.data(np.ones(2**16, np.float32)), oc.data(np.ones(2**16, np.float32))
    assert float(oc.einsum("i; j => 0", a, b).numpy()[0]) == 2.0**32


@pytest.mark.parametrize("dtype", FLOATS)
def test_means_losses_and_variances(dtype: type) -> None:
    x, y = terms("positive", 60_000, dtype), terms("random", 60_000, dtype)
    one, other = oc.data(x), oc.data(y)
    wide, apart = x.astype(np.longdouble), x.astype(np.longdouble) - y.astype(np.longdouble)
    unit = np.finfo(dtype).eps / 2
    for found, exact in (
        (nn.mean(one), wide.mean()),
        (nn.mse(one, other), np.mean(apart**2)),
        (oc.var(one), np.var(wide)),
        (oc.norm(one), np.sqrt(np.sum(wide**2))),
    ):
        error = abs(np.longdouble(found.numpy()) - exact) / exact
        assert error <= (roundings(x.size) + 8) * unit


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_biases(dtype: type) -> None:
    """Sums over a batch, in blocks of rows that run one after the other."""
    weights = np.stack([terms("positive", 40_000, dtype)] * 7, axis=1)
    bias = oc.param("bias", output=7, dtype=dtype)
    loss = oc.einsum("... | ... => 0", oc.data(weights) * oc.tanh(bias))
    ctx = oc.Context()
    step = ctx.compile(train.grad_update(loss))
    ctx.init_params(loss)
    ctx[bias] = np.zeros(7, dtype)
    step()
    column = weights[:, 0]
    assert np.all(np.abs(ctx[bias.grad].astype(np.longdouble) - math.fsum(column)) <= allowed(column))


@pytest.mark.parametrize("rows", [3, 200])
@pytest.mark.parametrize("dtype", FLOATS)
def test_contractions_are_within_the_bound_of_blocks_of_256(dtype: type, rows: int) -> None:
    depth = 2**18 if rows == 3 else 5000
    x = np.stack([terms("equal", depth, dtype)] * rows, axis=1)
    y = np.stack([terms(kind, depth, dtype) for kind in KINDS], axis=1)
    found = oc.einsum("k | i; k | j => i | j", oc.data(x), oc.data(y)).numpy()
    wide = x[:, :1].astype(np.longdouble) * y.astype(np.longdouble)
    bound = (256 + depth / 256) * np.finfo(dtype).eps / 2 * np.abs(wide).sum(axis=0)
    assert np.all(np.abs(found - wide.sum(axis=0)) <= bound)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_small_floats_are_summed_in_f32(dtype: str) -> None:
    x = terms("positive", 30_000, np.float32)
    small = oc.cast(oc.data(np.stack([x, x + 1])), dtype)
    wide = oc.cast(small, np.float32).numpy()
    found = oc.sum(oc.cast(small, np.float32) * np.float32(2**-6), 1).numpy()
    exact = [math.fsum(row) / 64 for row in wide]
    np.testing.assert_allclose(found, exact, rtol=roundings(x.size) * 2**-24)
    rounded = oc.cast(oc.cast(oc.data(np.array(exact, np.float32)), dtype), np.float32).numpy()
    scaled = oc.sum(small * (1 / 64), 1)
    np.testing.assert_allclose(oc.cast(scaled, np.float32).numpy(), rounded, rtol=2.0**-7)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_infinities_nan_and_overflow_in_blocks(dtype: type, axis: int) -> None:
    most = np.finfo(dtype).max
    x = np.ones((6, 5000), dtype)
    x[0, 1234] = np.inf
    x[1, 4321], x[1, 17] = np.inf, -np.inf
    x[2, 2999] = np.nan
    x[3] = most
    x[4] = -most
    x[5] = -0.0
    with np.errstate(all="ignore"):
        wanted = np.sum(x, axis=1)
    found = oc.sum(oc.data(np.ascontiguousarray(x.T) if axis == 0 else x), axis).numpy()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("count", [50, 1000, 5001])
def test_lanes_beyond_the_end_add_nothing(count: int) -> None:
    """Also where what is added there would not be 0."""
    x = terms("random", count, np.float32)
    found = float(oc.sum(oc.cos(oc.data(x)) + 1).numpy())
    assert abs(found - math.fsum(np.cos(x.astype(np.float64)) + 1)) <= count * 2**-20
    shifted = float(oc.sum(oc.maximum(oc.data(x) + 2, 1)).numpy())
    assert abs(shifted - math.fsum(np.maximum(x.astype(np.float64) + 2, 1))) <= count * 2**-20
