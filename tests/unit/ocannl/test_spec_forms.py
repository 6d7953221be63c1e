"""Products, concatenations and affine axes compute and differentiate as their definition says."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from unit.ocannl.spec_cases import Array, Case, Name, cases

import ocannl as oc
from ocannl import train
from ocannl.dialects.shape import RowKind

RANDOM = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    derandomize=True,
)
FUNCTIONS = {
    "einsum": (oc.einsum, "mul", "add"),
    "einmax": (oc.einmax, "mul", "max"),
    "tropical": (oc.tropical, "add", "max"),
    "outer_sum": (oc.outer_sum, "add", "add"),
}
STEP = 1e-5


def arrays_for(case: Case, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=case.shape(axes)) for axes in case.operands]


def central_differences(
    case: Case, arrays: list[Array], at: int, how: tuple[str, str], weights: Array
) -> Array:
    gradient = np.zeros_like(arrays[at])
    for cell in np.ndindex(*gradient.shape):
        values: list[float] = []
        for step in (STEP, -STEP):
            moved = [array.copy() for array in arrays]
            moved[at][cell] += step
            values.append(float(np.sum(case.evaluate(moved, *how) * weights)))
        gradient[cell] = (values[0] - values[1]) / (2 * STEP)
    return gradient


@RANDOM
@given(cases(), st.sampled_from(sorted(FUNCTIONS)), st.integers(0, 9))
def test_results_are_those_of_the_definition(case: Case, function: str, seed: int):
    note(case.text)
    operation, combine, accum = FUNCTIONS[function]
    arrays = arrays_for(case, seed)
    data = [oc.data(array, axes="o" * array.ndim, label="x") for array in arrays]
    found = oc.Context.cpu()[operation(case.text, *data, use_padding=False, **case.given)]
    expected = case.evaluate(arrays, combine, accum)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@settings(RANDOM, max_examples=60)
@given(cases(), st.sampled_from(sorted(FUNCTIONS)), st.integers(0, 9))
def test_gradients_are_those_of_the_definition(case: Case, function: str, seed: int):
    note(case.text)
    operation, *how = FUNCTIONS[function]
    combine, accum = how
    arrays = arrays_for(case, seed)
    value = case.evaluate(arrays, combine, accum)
    assume(value.size and np.isfinite(value).all())
    weights = np.random.default_rng(seed + 1).normal(size=value.shape)
    params = [oc.param(f"p{i}", array, output=list(array.shape)) for i, array in enumerate(arrays)]
    result = operation(case.text, *params, use_padding=False, **case.given)
    loss = (result * oc.data(weights, axes="o" * weights.ndim, label="weights")).einsum("... => 0")
    ctx = oc.Context.cpu()
    train.update_once(ctx, loss)
    for at, param in enumerate(params):
        expected = central_differences(case, arrays, at, (combine, accum), weights)
        np.testing.assert_allclose(ctx[param.grad], expected, rtol=1e-6, atol=1e-7)


@settings(RANDOM, max_examples=60)
@given(cases(), st.sampled_from(sorted(FUNCTIONS)), st.integers(0, 9))
def test_results_do_not_depend_on_the_order_of_operands(case: Case, function: str, seed: int):
    assume(len(case.operands) > 1)
    swapped = replace(case, operands=case.operands[::-1])
    note(f"{case.text} and {swapped.text}")
    operation = FUNCTIONS[function][0]
    data = [oc.data(array, axes="o" * array.ndim, label="x") for array in arrays_for(case, seed)]
    ctx = oc.Context.cpu()
    found = ctx[operation(case.text, *data, use_padding=False, **case.given)]
    other = ctx[operation(swapped.text, *data[::-1], use_padding=False, **case.given)]
    np.testing.assert_allclose(found, other, rtol=1e-12, atol=1e-12)


@settings(RANDOM, max_examples=80)
@given(cases(), st.booleans(), st.sampled_from(["drop", "clamp"]), st.integers(0, 9))
def test_gathers_and_scatters_by_all_forms_are_products_with_one_hot_vectors(
    case: Case, scatters: bool, out_of_range: str, seed: int
):
    x, result, at, size = case.operands[0], case.result, Name("v"), 3
    # A part that only the ids are in has nothing to choose.
    assume(not {axis.text for axis in x} & {part for part in case.parts if isinstance(part, str)})
    x, result = (x, [at, *result]) if scatters else ([*x, at], result)
    sizes = {**case.sizes, "v": size}
    case = Case([x, [Name("a")]], result, sizes, case.parts)
    note(case.text)
    array, _ = arrays_for(case, seed)
    ids = np.random.default_rng(seed).integers(-1, size + 1, sizes["a"])
    given = case.given | {"v": size}
    operands = (oc.data(array, axes="o" * array.ndim, label="x"), oc.data(ids, axes="o", label="ids"))
    chosen: Any = oc.scatter if scatters else oc.gather
    found = oc.Context.cpu()[chosen(case.text, *operands, at="v", out_of_range=out_of_range, **given)]
    positions = np.clip(ids, 0, size - 1) if out_of_range == "clamp" else ids
    one_hot = (positions[:, None] == np.arange(size)).astype(float)
    product = replace(case, operands=[x, [Name("a"), at]])
    expected = product.evaluate([array, one_hot], "mul", "add")
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


# Layers.

RNG = np.random.default_rng(7)


def images(*shape: int) -> Array:
    return RNG.normal(size=shape)


def windows(x: Array, kernel: int, stride: int, dilation: int, pad: float | None) -> Array:
    """The windows over the axes 1 and 2 of an NHWC array: their own axes are the last two."""
    span = 1 + (kernel - 1) * dilation
    if pad is not None:
        rows = x.shape[1] // stride * stride
        before = (span - 1) // 2
        after = max(0, stride * (rows // stride - 1) + span - rows - before)
        around = (before, after)
        x = np.pad(x, [(0, 0), around, around, (0, 0)], constant_values=pad)
    found = sliding_window_view(x, (span, span), axis=(1, 2))[..., ::dilation, ::dilation]
    return found[:, ::stride, ::stride]


@pytest.mark.parametrize(
    ("stride", "dilation", "size", "use_padding"),
    [(1, 1, 5, False), (1, 1, 5, True), (2, 1, 7, False), (2, 1, 6, True), (1, 2, 7, False), (1, 2, 6, True)],
)
def test_conv2d(stride: int, dilation: int, size: int, use_padding: bool):
    image, kernel = images(2, size, size, 3), images(3, 3, 3, 4)
    x = oc.param("x", image, batch=[2, size, size], output=3)
    w = oc.param("w", np.moveaxis(kernel, 3, 0), input=[3, 3, 3], output=4)
    spec = "..., s*y + d*u, s*x + d*v | i; u, v, i -> c => ..., y, x | c"
    y = oc.einsum(spec, x, w, s=stride, d=dilation, use_padding=use_padding)
    ctx = oc.Context.cpu()
    pad = 0.0 if use_padding else None
    expected = np.einsum("nyxiuv,uvic->nyxc", windows(image, 3, stride, dilation, pad), kernel)
    train.update_once(ctx, (y * y).einsum("...|... => 0"))
    np.testing.assert_allclose(ctx[y], expected, rtol=1e-12, atol=1e-12)

    def value(image: Array, kernel: Array) -> float:
        found = np.einsum("nyxiuv,uvic->nyxc", windows(image, 3, stride, dilation, pad), kernel)
        return float(np.sum(found * found))

    direction, turn = images(*image.shape), images(*kernel.shape)
    moved = value(image + STEP * direction, kernel) - value(image - STEP * direction, kernel)
    assert math.isclose(float(np.sum(ctx[x.grad] * direction)), moved / (2 * STEP), rel_tol=1e-6)
    moved = value(image, kernel + STEP * turn) - value(image, kernel - STEP * turn)
    by_kernel = np.sum(ctx[w.grad] * np.moveaxis(turn, 3, 0))
    assert math.isclose(float(by_kernel), moved / (2 * STEP), rel_tol=1e-6)


@pytest.mark.parametrize(("stride", "window", "use_padding"), [(2, 2, False), (1, 3, True), (2, 3, False)])
def test_max_pool2d(stride: int, window: int, use_padding: bool):
    size = 7 if window == 3 and stride == 2 else 6
    image = images(2, size, size, 3)
    x = oc.param("x", image, batch=[2, size, size], output=3)
    spec = "..., s*y + u, s*x + v | ... => ..., y, x | ..."
    y = oc.einmax(spec, x, s=stride, u=window, v=window, use_padding=use_padding)
    ctx = oc.Context.cpu()
    train.update_once(ctx, y.einsum("...|... => 0"))
    seen = windows(image, window, stride, 1, -math.inf if use_padding else None)
    np.testing.assert_array_equal(ctx[y], seen.max(axis=(-2, -1)))
    counts = np.array([np.sum(seen.max(axis=(-2, -1)) == value) for value in image.ravel()])
    np.testing.assert_array_equal(ctx[x.grad].ravel(), counts)


def test_average_pooling_divides_by_a_captured_window():
    image = images(2, 6, 6, 3)
    x = oc.data(image, axes="bbbo", label="x")
    u = oc.Dim("u", 2)
    y = oc.einsum("..., 2*y + u, 2*x + v | ... => ..., y, x | ...", x, u=u, v=2) / u / 2
    expected = image.reshape(2, 3, 2, 3, 2, 3).mean(axis=(2, 4))
    np.testing.assert_allclose(oc.Context.cpu()[y], expected, rtol=1e-12)


# What is inferred.


def test_a_kernel_parameter_takes_its_size_from_its_use():
    x = oc.data(images(8), label="x")
    w = oc.param("w")
    y = oc.einsum("o + k; k => o", x, w) + oc.data(images(6), label="y")
    oc.infer(y)
    assert str(w.shape) == "3"


def test_a_captured_row_variable_is_the_number_of_its_elements():
    x = oc.data(images(2, 3, 4), axes="bbo", label="x")
    n = oc.Dim("n")
    y = oc.einsum("..n.. | c => c", x, n=n) / n
    np.testing.assert_allclose(oc.Context.cpu()[y], oc.Context.cpu()[x].mean(axis=(0, 1)))


def test_row_variables_are_flattened_and_split():
    array = images(2, 3, 4)
    x = oc.data(array, axes="bbo", label="x")
    flat = oc.einsum("..r.. | c => ..r..&c", x)
    back = oc.einsum("..r..&c; ..r.. | c => ..r.. | c", flat, x)
    ctx = oc.Context.cpu()
    np.testing.assert_array_equal(ctx[flat], array.ravel())
    np.testing.assert_allclose(ctx[back], array * array)


# Joining.


def test_concat_takes_any_number_of_tensors():
    arrays = [images(size) for size in (2, 3, 1, 4)]
    joined = oc.concat("a; b; c; d => a^b^c^d", *(oc.data(array, label="x") for array in arrays))
    np.testing.assert_array_equal(oc.Context.cpu()[joined], np.concatenate(arrays))


@pytest.mark.parametrize(("axis", "place"), [("batch", 0), ("output", 1), ("input", 2)])
def test_stack(axis: RowKind, place: int):
    arrays = [images(2, 3, 4) for _ in range(3)]
    params = [oc.param(f"x{i}", a, batch=2, output=3, input=4) for i, a in enumerate(arrays)]
    stacked = oc.stack(params, axis=axis)
    ctx = oc.Context.cpu()
    train.update_once(ctx, (stacked * stacked).einsum("...|...->... => 0"))
    np.testing.assert_array_equal(ctx[stacked], np.stack(arrays, axis=place))
    for param, array in zip(params, arrays, strict=True):
        np.testing.assert_allclose(ctx[param.grad], 2 * array)


def test_accumulating_by_a_concatenation_runs_its_parts_in_turn():
    top = oc.node("top", output=5, init=10.0)
    x = oc.data(np.arange(3.0), label="x")
    code = oc.accumulate(top, "add", x, spec="a => 2^a")
    ctx = oc.Context.cpu()
    ctx.compile(code)()
    np.testing.assert_array_equal(ctx[top], [10, 10, 10, 11, 12])


def test_what_parts_wrote_together_is_read_in_the_same_routine():
    a, b = oc.param("a", np.arange(3.0)), oc.param("b", np.arange(2.0))
    joined = oc.concat("p; q => p^q", a, b)
    kept = joined.value
    ctx = oc.Context.cpu()
    step = ctx.compile(oc.forward(joined) + oc.forward(kept * 2))
    ctx.init_params(joined)
    step()
    np.testing.assert_array_equal(ctx[kept], [0, 1, 2, 0, 1])
    np.testing.assert_array_equal(ctx[kept * 2], [0, 2, 4, 0, 2])


def test_margins_of_integers_hold_what_floats_can():
    x = oc.data(np.arange(4), axes="o", label="x")
    np.testing.assert_array_equal(oc.Context.cpu()[oc.einmax("o =+ k => o", x - 9, k=3)], [-8, -7, -6, -6])
    np.testing.assert_array_equal(oc.Context.cpu()[oc.einmax("o =+ k => o", x, k=3)], [1, 2, 3, 3])


@pytest.mark.parametrize(
    ("spec", "swapped"),
    [
        ("p^q; q^2^p => p^2", "q^2^p; p^q => p^2"),
        ("p; q^r; p^1^q^r => 1", "p; p^1^q^r; q^r => 1"),
    ],
)
def test_parts_do_not_depend_on_the_order_of_operands(spec: str, swapped: str):
    shapes = {"p^q": 5, "q^2^p": 7, "p": 3, "q^r": 3, "p^1^q^r": 7}
    ctx = oc.Context.cpu()
    found: list[Array] = []
    for text in (spec, swapped):
        slots = text.split(" =>")[0].split("; ")
        operands = [oc.data(1.0 + np.arange(shapes[slot])) for slot in slots]
        found.append(ctx[oc.einsum(text, *operands, p=3, q=2)])
    np.testing.assert_array_equal(found[0], found[1])
