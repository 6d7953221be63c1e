"""Fixed points, and scans of associative functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc


def test_gradients_of_a_fixed_point_are_implicit() -> None:
    """Those of `x = cos(w x + b)`: `x' = -sin(w x + b) (x + w x')`, and so for `b`."""
    w, b = oc.param("w", np.array([0.5, -0.7])), oc.data(np.array([0.3, 0.1]), label="b")
    x = oc.fixed_point(lambda x, b: oc.cos(w * x + b), 0.0, b, tolerance=1e-13, most=200)
    by_w, by_b = oc.grad((x * x).sum(), [w, b])
    ctx = oc.Context()
    code = x.forward + by_w.forward + by_b.forward
    ctx.init_params(code)
    ctx.compile(code)()
    found, slopes = np.array(ctx[x]), np.array([0.5, -0.7])
    np.testing.assert_allclose(found, np.cos(slopes * found + ctx[b]), atol=1e-12)
    inner = -np.sin(slopes * found + ctx[b])
    np.testing.assert_allclose(ctx[by_w], 2 * found * inner * found / (1 - inner * slopes), atol=1e-10)
    np.testing.assert_allclose(ctx[by_b], 2 * found * inner / (1 - inner * slopes), atol=1e-10)


def test_gradients_reach_what_a_fixed_point_uses() -> None:
    """The square root by Newton's method, of a tensor that depends on others, more than once."""

    @oc.function
    def root(a: oc.Tensor, b: oc.Tensor):
        both = a * b + a
        return oc.fixed_point(
            lambda x: (x + (both + 0 * a) / x) / 2, oc.cast(1.0, np.float64), tolerance=1e-14
        )

    a, b = np.float64(1.5), np.float64(1.0)
    np.testing.assert_allclose(root(a, b), np.sqrt(3), rtol=1e-12)
    np.testing.assert_allclose(oc.grad(root)(a, b), (1 + b) / (2 * np.sqrt(3)), rtol=1e-10)


def test_a_nan_of_one_element_ends_no_others() -> None:
    a = oc.data(np.array([4.0, np.nan]), label="a", axes="o")
    x = oc.fixed_point(lambda x: 0.5 * (x + a / x), a, tolerance=1e-12)
    by_a = oc.grad(oc.sum(x * oc.data(np.array([1.0, 0.0]))), a)
    ctx = oc.Context.cpu(1)
    ctx.compile(x.forward + by_a.forward)()
    np.testing.assert_allclose(ctx[x], [2.0, np.nan], rtol=1e-10)
    np.testing.assert_allclose(ctx[by_a][0], 0.25, rtol=1e-10)


def test_random_numbers_of_a_fixed_point_are_the_same_in_all_iterations() -> None:
    a = oc.data(np.array([0.7, 0.9]), label="a", axes="o")

    def drawn() -> oc.Tensor:
        return oc.uniform(3, output=[2], key="drawn", dtype=np.float64)

    x = oc.fixed_point(lambda x: 0.3 * oc.cos(x) * a * drawn(), 0.0 * a, tolerance=1e-13)
    by_a = oc.grad(x.sum(), a)
    ctx, factor = oc.Context.cpu(1), drawn()
    ctx.compile(x.forward + by_a.forward + factor.forward)()
    found, slope = ctx[x], 0.3 * ctx[factor]
    np.testing.assert_allclose(found, slope * np.cos(found) * ctx[a], atol=1e-12)
    np.testing.assert_allclose(
        ctx[by_a], slope * np.cos(found) / (1 + slope * np.sin(found) * ctx[a]), rtol=1e-9
    )


def test_a_fixed_point_has_all_derivatives() -> None:
    """The square root as a fixed point, in a scan over two numbers; twice in each mode, and three times."""
    a, b = oc.data(np.array([2.0, 5.0]), label="a", axes="b"), oc.data(np.array(0.5), label="b")
    roots, _ = oc.scan(
        lambda _, a: (0.0, oc.fixed_point(lambda x: 0.5 * (x + a * b / x), a, tolerance=1e-13)), 0.0, a
    )
    loss = roots.sum()
    by_a, by_b = oc.grad(loss, [a, b])
    twice, thrice = oc.grad(by_b, b), oc.grad(oc.grad(by_b, b), b)
    ctx, (one, two) = oc.Context.cpu(1), np.sqrt([2.0, 5.0])
    mixed, forward = oc.jvp(by_a, b, 1.0), oc.jvp(oc.jvp(loss, b, 1.0), b, 1.0)
    ctx.compile(by_a.forward + twice.forward + thrice.forward + mixed.forward + forward.forward)()
    expected = (one + two) / np.sqrt(0.5)
    np.testing.assert_allclose(ctx[by_a], 0.5 * np.sqrt(0.5 / np.array([2.0, 5.0])), rtol=1e-11)
    np.testing.assert_allclose([ctx[twice], ctx[forward]], -0.5 * expected, rtol=1e-11)
    np.testing.assert_allclose(ctx[thrice], 1.5 * expected, rtol=1e-10)
    np.testing.assert_allclose(ctx[mixed], 0.25 / np.array([one, two]) / np.sqrt(0.5), rtol=1e-11)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_tolerance_of_gradients_is_relative(scale: float) -> None:
    """A loss may be in any unit. `x = x / 2 + a` is `2 a`."""
    a = oc.data(np.array([1.0, 2.0]), label="a")
    x = oc.fixed_point(lambda x: x / 2 + a, 0.0)
    found = oc.Context.cpu(1)[oc.grad((scale * x).sum(), a) + oc.jvp(x, a, scale)]
    np.testing.assert_allclose(found, 4 * scale, rtol=1e-5)


def test_where_a_search_begins_does_not_matter() -> None:
    begin = oc.data(np.array(1.0), label="begin")
    x = oc.fixed_point(oc.cos, begin)
    assert oc.Context.cpu(1)[abs(oc.grad(x, begin)) + abs(oc.jvp(x, begin, 1.0))] == 0
    whole = oc.fixed_point(lambda n: oc.minimum(n, oc.data([5, 3])), oc.data([9, 9]), tolerance=0)
    assert np.array_equal(oc.Context.cpu(1)[whole], [5, 3])
    with pytest.raises(oc.ArgumentError, match="a tolerance is 0 or more, found nan"):
        oc.fixed_point(oc.cos, begin, tolerance=float("nan"))


@pytest.mark.parametrize("shape", [(5,), (5, 2), (3, 5, 2)])
def test_an_associative_scan_is_along_the_last_batch_axis(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape)
    found = oc.Context.cpu(1)[oc.associative_scan(lambda a, b: a * b, oc.data(array))]
    np.testing.assert_allclose(found, np.cumprod(array, axis=max(0, len(shape) - 2)), rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scans_of_pairs(size: int, reverse: bool) -> None:
    """The recurrence `h = a h + b`, as products of its steps."""
    rng = np.random.default_rng(2)
    arrays = rng.normal(size=(2, 3, size, 2))
    a, b = (oc.data(array) for array in arrays)

    def combine(one: Any, other: Any) -> dict[str, oc.Tensor]:
        return {"a": one["a"] * other["a"], "b": other["a"] * one["b"] + other["b"]}

    found = oc.associative_scan(combine, {"a": a, "b": b}, axis=1, reverse=reverse)["b"]
    ctx = oc.Context()
    ctx.compile(found.forward)()
    h, wanted = np.zeros((3, 2)), np.zeros((3, size, 2))
    for t in reversed(range(size)) if reverse else range(size):
        h = wanted[:, t] = arrays[0][:, t] * h + arrays[1][:, t]
    np.testing.assert_allclose(ctx[found], wanted, atol=1e-12)


def test_associative_scans_keep_form_and_size() -> None:
    x, y = oc.data(np.ones((2, 3))), oc.data(np.ones((2, 4)))
    with pytest.raises(oc.ArgumentError, match="one number of positions"):
        oc.associative_scan(lambda a, b: a, (x, y), axis=1)
    with pytest.raises(oc.ArgumentError, match="the form of its elements"):
        oc.associative_scan(lambda a, b: a[0], (x, x))
    with pytest.raises(oc.ArgumentError, match=r"shape 1\|3 it got `einsum` of the shape \(\); a reduction"):
        oc.associative_scan(lambda a, b: (a + b).sum(), x)
