"""Convolutions by tiles compute what plain ones do: exactly on small whole numbers, else within the bound of
the page.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.interpret_loops import run_func
from support.nests import parse_module
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import ocannl as oc
from ocannl.dialects.loops import GroupOp
from ocannl.passes.analysis.nests import functions, nests, nodes, steps
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.winograd import blocks
from ocannl.passes.loops.winograd.winograd import WinogradPass

CONVOLUTION = "..., h + i, w + j | c; o, i, j | c => ..., h, w | o"


def image_node(
    label: str, batch: int, height: int, width: int, channels: int, mode: str = "on_device"
) -> str:
    return f'%{label} = assign.node "{label}" {mode} : memref<{batch}x{height}x{width}x{channels}xf32>'


def sums(batch: int, height: int, width: int, inner: int, outer: int, flipped: bool, padded: int) -> str:
    """A convolution, flipped or not, with a bias, stored to the inside of its result."""
    at = "2 - i" if flipped else "i"
    return f"""
loops.func @f {{
  {image_node("x", batch, height + 2, width + 2, inner)}
  %w = assign.node "w" on_device : memref<{outer}x3x3x{inner}xf32>
  %z = assign.node "z" on_device : memref<{outer}xf32>
  {image_node("y", batch, height + 2 * padded, width + padded, outer)}
  loops.nest "y" (b = {batch}, h = {height}, w = {width}, o = {outer}) {{
    %s = loops.reduce add (i = 3, j = 3, c = {inner}) : f32 {{
      %d = loops.load %x[b, h + {at}, w + j, c]
      %g = loops.load %w[o, i, j, c]
      %p = arith.mulf %g, %d : f32
      loops.yield %p
    }}
    %z0 = loops.load %z[o]
    %r = arith.addf %s, %z0 : f32
    loops.store %r, %y[b, h + {padded}, w, o]
  }}
}}""".replace("h + 2 - i", "h - i + 2")


def of_kernel(batch: int, height: int, width: int, inner: int, outer: int) -> str:
    """The gradient of a kernel, that is added to the kernel."""
    return f"""
loops.func @f {{
  {image_node("x", batch, height + 2, width + 2, inner)}
  {image_node("g", batch, height, width, outer)}
  %w = assign.node "w" on_device : memref<{outer}x3x3x{inner}xf32>
  loops.nest "w" (o = {outer}, i = 3, j = 3, c = {inner}) {{
    %s = loops.reduce add (b = {batch}, h = {height}, w = {width}) : f32 {{
      %a = loops.load %g[b, h, w, o]
      %d = loops.load %x[b, h + i, j + w, c]
      %p = arith.mulf %a, %d : f32
      loops.yield %p
    }}
    %old = loops.load %w[o, i, j, c]
    %new = arith.addf %old, %s : f32
    loops.store %new, %w[o, i, j, c]
  }}
}}"""


def of_image(batch: int, height: int, width: int, inner: int, outer: int, inside: int, mode: str) -> str:
    """The gradient of an image, of whose rows and columns the outermost ones may not be read."""
    sizes = (height + 2 - 2 * inside, width + 2 - 2 * inside)
    return f"""
loops.func @f {{
  {image_node("g", batch, height, width, outer)}
  %w = assign.node "w" on_device : memref<{outer}x3x3x{inner}xf32>
  {image_node("x", batch, height + 2, width + 2, inner, mode)}
  {image_node("y", batch, *sizes, inner)}
  loops.nest "x reset" (b = {batch}, h = {height + 2}, w = {width + 2}, c = {inner}) {{
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %x[b, h, w, c]
  }}
  loops.nest "x" (b = {batch}, i = 3, h = {height}, j = 3, w = {width}, c = {inner}) {{
    %s = loops.reduce add (o = {outer}) : f32 {{
      %a = loops.load %g[b, h, w, o]
      %d = loops.load %w[o, i, j, c]
      %p = arith.mulf %a, %d : f32
      loops.yield %p
    }}
    %old = loops.load %x[b, h + i, j + w, c]
    %new = arith.addf %old, %s : f32
    loops.store %new, %x[b, h + i, j + w, c]
  }}
  loops.nest "y" (b = {batch}, h = {sizes[0]}, w = {sizes[1]}, c = {inner}) {{
    %v = loops.load %x[b, h + {inside}, w + {inside}, c]
    loops.store %v, %y[b, h, w, c]
  }}
}}"""


def run(module: ModuleOp) -> dict[str, NDArray[Any]]:
    """The contents of nodes that live on after the nests, from small whole numbers."""
    (func,) = functions(module)
    rng = np.random.default_rng(0)
    arrays = {
        node.label.data: rng.integers(-3, 4, node.result.type.get_shape()).astype(np.float32)
        for node in nodes(func)
        if node.mode.data == "on_device"
    }
    run_func(func, arrays)
    return arrays


def by_tiles(text: str, target: TargetDescription | None = None) -> ModuleOp:
    module = parse_module(text)
    WinogradPass(described=target).apply(Context(), module)
    module.verify()
    return module


# Small convolutions pay, too, in blocks of few tiles.
ALWAYS = {"LEAST_WORK": 1, "PAYS": np.inf, "FEWEST_TILES": 1, "FEWEST_SUMMED": 1}


SIZES = st.tuples(st.integers(1, 4), st.sampled_from([2, 4, 6]), st.sampled_from([2, 4, 8]))
CHANNELS = st.tuples(st.sampled_from([1, 3, 8]), st.sampled_from([1, 5, 8, 16]))
# The second-level cache and the room on the stack: few, or all tiles are then in a block.
ROOMS = st.sampled_from([(2**14, 2**8), (2**14, 2**12), (2**20, 2**18)])


@pytest.mark.exhaustive
@settings(max_examples=settings().max_examples // 2)
@given(
    form=st.sampled_from(["sums", "flipped", "padded", "kernel", "image", "inside", "inside local"]),
    sizes=SIZES,
    channels=CHANNELS,
    room=ROOMS,
)
def test_tiles_give_the_same_on_whole_numbers(
    form: str, sizes: tuple[int, int, int], channels: tuple[int, int], room: tuple[int, int]
):
    batch, height, width = sizes
    # A smaller gradient is taken for the kernel of one of 3 x 3 positions.
    larger = (batch, max(4, height), max(4, width), *channels)
    all_sizes = (*sizes, *channels)
    text = {
        "sums": lambda: sums(*all_sizes, flipped=False, padded=0),
        "flipped": lambda: sums(*all_sizes, flipped=True, padded=0),
        "padded": lambda: sums(*all_sizes, flipped=False, padded=1),
        "kernel": lambda: of_kernel(*all_sizes),
        "image": lambda: of_image(*larger, inside=0, mode="on_device"),
        "inside": lambda: of_image(*larger, inside=1, mode="on_device"),
        "inside local": lambda: of_image(*larger, inside=1, mode="local"),
    }[form]()
    l2_bytes, largest = room
    target = TargetDescription(vector_bytes=16, l2_bytes=l2_bytes)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**ALWAYS, "LARGEST_BLOCK": largest}.items():
            patch.setattr(blocks, name, value)
        module = by_tiles(text, target)
    assert any("products" in nest.label.data for nest in nests(functions(module)[0]))
    expected, found = run(parse_module(text)), run(module)
    for label, array in expected.items():
        np.testing.assert_array_equal(found[label], array, f"{label}\n{module}")


@pytest.mark.parametrize("sizes", [(0, 8, 8), (32, 0, 8), (32, 8, 0)])
def test_nothing_is_done_where_there_are_no_positions(sizes: tuple[int, int, int]):
    for text in (sums(*sizes, 64, 64, flipped=False, padded=0), of_kernel(*sizes, 64, 64)):
        assert str(by_tiles(text)) == str(parse_module(text))


def test_blocks_of_tiles_are_groups_whose_points_threads_share():
    module = by_tiles(sums(8, 32, 32, 64, 64, flipped=False, padded=0))
    (group,) = (step for step in steps(functions(module)[0]) if isinstance(step, GroupOp))
    assert dict(group.space.data)["b"] == 8
    assert not group.clashing
    module = by_tiles(of_kernel(32, 32, 32, 64, 64))
    (group,) = (step for step in steps(functions(module)[0]) if isinstance(step, GroupOp))
    assert dict(group.space.data)["b_part"] == 8
    assert "b_part" not in group.clashing


@pytest.mark.parametrize("form", ["result", "image", "kernel"])
def test_errors_are_within_the_bound(form: str):
    """The bound of docs/passes/winograd.md: each result goes through so many roundings, and the sizes of what
    is added up are at most 64 times those of the largest numbers.
    """
    batch, size, inner, outer = 2, 16, 48, 64
    rng = np.random.default_rng(1)
    images = rng.standard_normal((batch, size, size, inner), np.float32)
    kernels = rng.standard_normal((outer, 3, 3, inner), np.float32)
    x = oc.param("x", images, batch=[batch, size, size], output=[inner], input=[])
    w = oc.param("w", kernels, batch=[outer, 3, 3], output=[inner], input=[])
    y = oc.einsum(CONVOLUTION, x, w, use_padding=True)
    zeros = oc.set(x.grad, 0) + oc.set(w.grad, 0)
    context = oc.Context.cpu(target="x86-64-v3")
    step = context.compile(oc.forward(y) + zeros + y.backprop)
    assert step.ir("winograd").count("products") >= 3
    context.init_params(y, seed=1)
    gradient = rng.standard_normal((batch, size, size, outer), np.float32)
    context[y.grad] = gradient
    step()
    around = np.pad(images.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(around, (size, size), axis=(1, 2))
    spread = np.pad(gradient.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    flipped = np.lib.stride_tricks.sliding_window_view(spread, (size, size), axis=(1, 2))
    found, exact, numbers = {
        "result": lambda: (
            context[y],
            np.einsum("bijchw,oijc->bhwo", windows, kernels),
            (images, kernels, inner),
        ),
        "image": lambda: (
            context[x.grad],
            np.einsum("bijohw,oijc->bhwc", flipped, kernels[:, ::-1, ::-1]),
            (gradient, kernels, outer),
        ),
        "kernel": lambda: (
            context[w.grad],
            np.einsum("bhwo,bijchw->oijc", gradient, windows),
            (images, gradient, batch * size * size // 4),
        ),
    }[form]()
    first, second, summed = numbers
    roundings = (summed + 11) * np.finfo(np.float32).eps / 2
    largest = 64 * summed * float(np.abs(first).max()) * float(np.abs(second).max())
    error = np.abs(np.asarray(found).reshape(exact.shape) - exact).max()
    assert error <= roundings * largest
    # What happens is far less.
    assert error <= 1e-6 * np.abs(exact).max()


@pytest.mark.parametrize("special", [np.nan, np.inf, 1e8])
def test_special_values_stay_in_their_windows(special: float):
    """Of the results of a convolution of 3 x 3, the 9 that a position belongs to depend on it, with tiles as
    without; an infinity may make them NaN.
    """
    rng = np.random.default_rng(4)
    image = rng.standard_normal((2, 16, 16, 64), np.float32)
    image[1, 7, 8, 5] = special
    kernel = rng.standard_normal((64, 3, 3, 64), np.float32)
    x = oc.param("x", image, batch=[2, 16, 16], output=[64], input=[])
    w = oc.param("w", kernel, batch=[64, 3, 3], output=[64], input=[])
    y = oc.einsum(CONVOLUTION, x, w, use_padding=True)

    def result(winograd: bool) -> NDArray[Any]:
        context = oc.Context.cpu(target="x86-64-v3", winograd=winograd)
        step = context.compile(y)
        assert step.ir("winograd").count("products") == winograd
        context.init_params(y)
        step()
        return np.asarray(context[y])

    plain, tiled = result(winograd=False), result(winograd=True)
    window = np.zeros(plain.shape, bool)
    window[1, 6:9, 7:10] = True
    for found in (plain, tiled):
        assert np.isfinite(found[~window]).all()
        assert (
            (np.abs(found[window]) > 1e3).mean() > 0.99
            if special == 1e8
            else not np.isfinite(found[window]).any()
        )
    np.testing.assert_allclose(tiled[~window], plain[~window], atol=2e-4)


def test_winograd_is_turned_on_or_off():
    neither: Any = 1
    with pytest.raises(oc.OcannlError, match="winograd"):
        oc.Context.cpu(winograd=neither)
