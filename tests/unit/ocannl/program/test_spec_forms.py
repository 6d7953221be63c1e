"""Products, concatenations and affine axes as layers need them, and the shapes inferred for them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from support.spec_meaning import Array

import ocannl as oc
from ocannl import train
from ocannl.dialects.shapes.shape import RowKind
from ocannl.lowering.pipelines import module_text, parse_text

STEP = 1e-5


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
    [("p^q; q^2^p => p^2", "q^2^p; p^q => p^2"), ("p; q^r; p^1^q^r => 1", "p; p^1^q^r; q^r => 1")],
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


@pytest.mark.parametrize("stage", ["texpr", "assign", "loops", "kernels"])
def test_names_of_any_letters(stage: str):
    """Texts have them in other letters, or in quotes."""
    x = oc.data(images(3, 4), axes="oo", label="größe")
    size = oc.Dim("größe")
    y = oc.einsum("größe, é => é, höhe,", x, größe=size, höhe=2) * size
    text = oc.einsum("é ö => ö é", y).ir(stage)
    assert module_text(parse_text(text)) == text


@pytest.mark.parametrize("reset", [False, True])
def test_what_is_written_beyond_the_ends_of_memory_is_cut_off(reset: bool):
    top = oc.node("top", output=2, init=0.5)
    x = oc.data([[2.0, 1.0], [0.5, -1.0]], axes="oo", label="x")
    ctx = oc.Context.cpu()
    ctx.compile(oc.accumulate(top, "max", x, spec="f d => f =+ 2*d", reset=reset))()
    np.testing.assert_array_equal(ctx[top], [0.5, 1.0])


def test_one_truth_value_becomes_0_or_1():
    top = oc.node("top", output=3)
    x = oc.data([0.0, 2.0, -1.0], label="x")
    for accum in ("or", "and"):
        ctx = oc.Context.cpu()
        ctx.compile(oc.accumulate(top, accum, x, reset=True))()
        np.testing.assert_array_equal(ctx[top], [0, 1, 1])


def test_clamping_ids_leaves_their_sizes_to_them():
    """A clamped copy with more cells than the ids would fit this spec as well."""
    table, ids = oc.data(np.arange(6.0), label="table"), oc.data(np.zeros((1, 5)), axes="oo", label="ids")
    spec = "v; p, p^q => p"
    assert oc.gather(spec, table, ids, at="v", out_of_range="clamp").shape.output == (1,)


def test_axes_called_like_rows_beside_rows():
    """`...` of the batch row is no row called `batch`."""
    x = oc.data(np.arange(24.0).reshape(2, 3, 4), axes="bbo", label="x")
    total = oc.einsum("batch, ... | output => ... | batch", x)
    np.testing.assert_array_equal(oc.Context.cpu(threads=1)[total], np.arange(24.0).reshape(2, 3, 4).sum(2).T)


def test_any_of_these_symbols_makes_names_long():
    """Without a comma too, `+`, `*`, `^` and `&` tell names of many letters, and numbers of many digits."""
    a = np.arange(6.0).reshape(2, 3)
    x = oc.data(np.arange(25.0), axes="o")
    joined = oc.einsum("row col => row&col", oc.data(a, axes="oo"))
    np.testing.assert_array_equal(joined.numpy(), a.ravel())
    both = oc.concat("left; right => left^right", oc.arange(2), oc.arange(3))
    np.testing.assert_array_equal(both.numpy(), [0, 1, 0, 1, 2])
    windows = oc.einsum("stride*out + ker => out ker", x, stride=2, ker=3)
    np.testing.assert_array_equal(
        windows.numpy(), np.lib.stride_tricks.sliding_window_view(x.numpy(), 3)[::2]
    )
    np.testing.assert_array_equal(oc.einsum("12*out + k => out k", x, k=1).numpy(), [[0], [12], [24]])
    np.testing.assert_array_equal(oc.einsum("ij => ji", oc.data(a, axes="oo")).numpy(), a.T)
