"""Random programs against a direct reading of what they mean, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.program_check import check
from support.tensor_programs import Program, programs

import ocannl as oc

Array = NDArray[Any]
RANDOM = settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    derandomize=True,
)


@RANDOM
@given(programs(), st.sets(st.integers(0, 9), max_size=3))
def test_f64(program: Program, watched: set[int]):
    check(oc.Context.cpu(threads=1), program, [np.float64] * len(program.leaves), watched, 1e-10)


@RANDOM
@given(programs(), st.sets(st.integers(0, 9), max_size=3), st.lists(st.booleans(), min_size=3, max_size=3))
def test_mixed_precisions(program: Program, watched: set[int], wide: list[bool]):
    check(oc.Context.cpu(threads=1), program, [np.float64 if w else np.float32 for w in wide], watched, 2e-4)


def set_and_compare(
    result: oc.Tensor, params: dict[oc.Tensor, tuple[int, ...]], wanted: Callable[..., Array], seed: int
):
    """Parameters of inferred shapes, set by the context, give what NumPy gives."""
    ctx = oc.Context.cpu(threads=1)
    routine = ctx.compile(oc.forward(result), name="inferred")
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(rng.uniform(-1, 1, shape)).astype(np.float32) for shape in params.values()]
    for (param, shape), array in zip(params.items(), arrays, strict=True):
        assert param.shape.array == shape, param
        ctx[param] = array
    routine()
    np.testing.assert_allclose(ctx[result], wanted(*arrays), rtol=1e-4, atol=1e-4)


sizes = st.integers(1, 9)


@RANDOM
@given(sizes, st.lists(sizes, max_size=2), st.lists(sizes, min_size=1, max_size=3), st.integers(0, 99))
def test_layers_of_inferred_shapes(features: int, batch: list[int], hidden: list[int], seed: int):
    """Every weight is between the size before and the bias after it, in every way of giving that size."""
    x = np.random.default_rng(seed).uniform(-1, 1, (*batch, features)).astype(np.float32)
    tensor = oc.data(x, label="x")
    params: dict[oc.Tensor, tuple[int, ...]] = {}
    before = features
    for k, size in enumerate(hidden):
        how = (seed + k) % 3
        w = oc.param(f"w{k}", output=size if how == 0 else None)
        b = oc.param(f"b{k}", output=size if how == 1 else None)
        tensor = oc.tanh(w @ tensor + b)
        if how == 2:
            tensor = tensor * oc.data(np.ones(size, np.float32))
        params |= {w: (size, before), b: (size,)}
        before = size

    def wanted(*arrays: Array) -> Array:
        value = x
        for w, b in zip(arrays[::2], arrays[1::2], strict=True):
            value = np.tanh(value @ w.T + b)
        return value

    set_and_compare(tensor, params, wanted, seed)


@RANDOM
@given(sizes, sizes, sizes, st.lists(sizes, max_size=2), st.integers(0, 99))
def test_inferred_shapes_in_specs(m: int, k: int, n: int, batch: list[int], seed: int):
    """A parameter takes its rows from the slot of a spec, from a product, a transpose and a pointwise use."""
    x = np.random.default_rng(seed).uniform(-1, 1, (*batch, m, k)).astype(np.float32)
    data = oc.data(x, axes="b" * len(batch) + "oo", label="x")
    p, q, r, s = (oc.param(name) for name in "pqrs")
    middle = oc.einsum("...|m k; n -> k => ...|n m", data, p, n=n)
    scaled = middle * q
    result = oc.einsum("...|n m; m => ...|n", scaled, r) + s.T @ oc.data(np.ones(m, np.float32))
    params = {p: (k, n), q: (n, m), r: (m,), s: (m, n)}

    def wanted(p: Array, q: Array, r: Array, s: Array) -> Array:
        return (np.einsum("...mk,kn->...nm", x, p) * q) @ r + s.sum(0)

    set_and_compare(result, params, wanted, seed)


def test_a_parameter_of_two_uses_that_disagree_is_1():
    p = oc.param("p")
    x, y = oc.data(np.ones((4, 3), np.float32)), oc.data(np.ones((4, 5), np.float32))
    result = oc.outer_sum("b | i; b | j => b | i j", x * p, y * p)
    set_and_compare(result, {p: (1,)}, lambda p: np.full((4, 3, 5), 2 * p[0]), 1)


class TestNumbersInExpressions:
    """A number takes the shape of what it meets, and never gives it another."""

    @pytest.mark.parametrize(
        "build", [lambda x: x + x, lambda x: 2 * x, lambda x: x**2 + x * 0 + 0.75, lambda x: 4 * x**2]
    )
    def test_other_uses_do_not_change_a_value(self, build: Callable[[oc.Tensor], oc.Tensor]):
        x = oc.data(np.array(0.5))
        scalar = build(x)
        total = scalar.einsum("...|...->... => 0")
        wide = oc.data(np.ones(3)) + scalar
        ctx = oc.Context.cpu(threads=1)
        ctx.compile(oc.forward(total) + oc.forward(wide), name="numbers")()
        assert scalar.shape.array == ()
        np.testing.assert_allclose(ctx[total], [1.0])
        np.testing.assert_allclose(ctx[wide], [2.0] * 3)

    def test_an_expression_of_numbers_alone(self):
        total = (oc.constant(2.0) * 3).einsum("... => 0")
        wide = oc.data(np.ones(3)) + oc.constant(2.0) * 3
        ctx = oc.Context.cpu(threads=1)
        ctx.compile(oc.forward(total) + oc.forward(wide), name="numbers")()
        np.testing.assert_allclose(ctx[total], [6.0])
        np.testing.assert_allclose(ctx[wide], [7.0] * 3)

    def test_a_number_in_a_product(self):
        w = np.arange(6.0).reshape(2, 3)
        x = oc.data(w, axes="oi")
        right, left = x @ 2, 2 @ x
        ctx = oc.Context.cpu(threads=1)
        ctx.compile(oc.forward(right) + oc.forward(left), name="numbers")()
        np.testing.assert_allclose(ctx[right], 2 * w.sum(1))
        np.testing.assert_allclose(ctx[left], 2 * w.sum(0))
        assert (str(right.shape), str(left.shape)) == ("2", "3->")

    def test_other_uses_do_not_change_a_product(self):
        w = np.arange(6.0).reshape(2, 3)
        x = oc.data(w, axes="oi")
        right, left = x @ 2, 2 @ x
        totals = [product.einsum("...|...->... => 0") for product in (right, left)]
        wide = [x + right, x + left]
        ctx = oc.Context.cpu(threads=1)
        ctx.compile(sum(map(oc.forward, [*totals, *wide]), oc.Code()), name="numbers")()
        for total in totals:
            np.testing.assert_allclose(ctx[total], [2 * w.sum()])
        np.testing.assert_allclose(ctx[wide[0]], w + 2 * w.sum(1)[:, None])
        np.testing.assert_allclose(ctx[wide[1]], w + 2 * w.sum(0))
