"""Scattered terms are gathered: the same sums, for all strides, dilations and terms."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

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
from ocannl import nn, train
from ocannl.passes.analysis.nests import functions, nests, nodes
from ocannl.passes.loops import gather_cells

Axis = tuple[int, int, int, int]
# Positions, offsets, stride and dilation.
AXES = st.tuples(*(st.integers(1, 4) for _ in range(4)))
TERMS = {
    "added": "%t = arith.mulf %a, %b : f32 \n %new = arith.addf %t, %old : f32",
    "multiplied": "%new = math.fma %a, %b, %old : f32",
    "compared": "%c = arith.cmpf olt, %a, %b : f32 \n %t = arith.select %c, %a, %b : f32 \n"
    "%new = arith.addf %old, %t : f32",
}


def scatter(axes: list[Axis], term: str, margin: int, channels: int) -> str:
    """A scatter to `x`, whose cells but a margin another nest copies, of one image; a single channel has no
    loop, as the image.
    """
    sizes = [(p - 1) * s + (k - 1) * d + 1 for p, k, s, d in axes]
    space = ", ".join(f"h{n} = {p}, k{n} = {k}" for n, (p, k, _, _) in enumerate(axes))
    cells = ", ".join(f"{s}*h{n} + {d}*k{n}" for n, (_, _, s, d) in enumerate(axes))
    shapes = ["x".join(str(axis[at]) for axis in axes) for at in (0, 1)]
    places = [", ".join(f"{name}{n}" for n in range(len(axes))) for name in "hki"]
    inner = [max(1, size - 2 * margin) for size in sizes]
    starts = [min(margin, size - left) for size, left in zip(sizes, inner, strict=True)]
    whole, copied = (", ".join(f"i{n} = {size}" for n, size in enumerate(own)) for own in (sizes, inner))
    moved = ", ".join(f"i{n} + {start}" for n, start in enumerate(starts))
    loop, o = (f", o = {channels}", "o") if channels > 1 else ("", "0")
    return f"""
loops.func @gradient {{
  %g = assign.node "g" on_device : memref<1x{shapes[0]}x{channels}xf32>
  %w = assign.node "w" on_device : memref<{shapes[1]}x{channels}xf32>
  %x = assign.node "x" local : memref<1x{"x".join(map(str, sizes))}x{channels}xf32>
  %y = assign.node "y" on_device : memref<1x{"x".join(map(str, inner))}x{channels}xf32>
  loops.nest "x reset" ({whole}{loop}) {{
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %x[0, {places[2]}, {o}]
  }}
  loops.nest "x" ({space}{loop}) {{
    %a = loops.load %g[0, {places[0]}, {o}]
    %b = loops.load %w[{places[1]}, {o}]
    %old = loops.load %x[0, {cells}, {o}]
    {TERMS[term]}
    loops.store %new, %x[0, {cells}, {o}]
  }}
  loops.nest "y" ({copied}{loop}) {{
    %v = loops.load %x[0, {moved}, {o}]
    loops.store %v, %y[0, {places[2]}, {o}]
  }}
}}
"""


def run(module: ModuleOp) -> NDArray[Any]:
    """The numbers that the nests leave in `y`, from small whole ones."""
    module.verify()
    (func,) = functions(module)
    arrays: dict[str, NDArray[Any]] = {}
    for number, node in enumerate(nodes(func)):
        shape = node.result.type.get_shape()
        arrays[node.label.data] = np.random.default_rng(number).integers(-4, 5, shape).astype(np.float32)
    run_func(func, arrays, {})
    return arrays["y"]


@settings(max_examples=25)
@given(
    st.lists(AXES, min_size=1, max_size=2),
    st.sampled_from(sorted(TERMS)),
    st.integers(0, 1),
    st.sampled_from([1, 3]),
)
def test_sums_are_the_same(axes: list[Axis], term: str, margin: int, channels: int):
    text = scatter(axes, term, margin, channels)
    module = parse_module(text)
    with patch.multiple(gather_cells, LARGE=0, PARTS=1000):
        gather_cells.GatherCellsPass().apply(Context(), module)
    np.testing.assert_array_equal(run(module), run(parse_module(text)))
    overlap = [k > s for p, k, s, d in axes if p > 1 and d == 1]
    is_contiguous = channels > 1 or all(s == 1 for _, _, s, _ in axes)
    if len(overlap) == len(axes) and any(overlap) and all(k >= s for _, k, s, _ in axes) and is_contiguous:
        (func,) = functions(module)
        assert not any(nest.clashing for nest in nests(func))
        assert {nest.label.data for nest in nests(func)} == {"y"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("layer", ["depthwise", "by 2", "max_pool", "avg_pool"])
def test_gradients_of_layers_are_the_same(layer: str):
    """Each cell has the sum that a few positions add to it, with zeros, borders and channels of any kind."""
    x = oc.param(
        "x",
        np.random.default_rng(0).normal(size=(3, 11, 12, 5)).astype(np.float32),
        batch=[3, 11, 12],
        output=[5],
        input=[],
    )
    made = {
        "depthwise": nn.conv2d(kernel_size=3, out_channels=5, groups=5),
        "by 2": nn.conv2d(kernel_size=3, out_channels=5, groups=5, stride=2),
        "max_pool": nn.max_pool2d(window_size=3, stride=2, padding=1),
        "avg_pool": nn.avg_pool2d(window_size=3, stride=1, padding=1),
    }[layer]
    loss = (made(x) ** 2).sum(None)
    found: list[NDArray[Any]] = []
    for least in (0, 1 << 40):
        with patch.object(gather_cells, "LARGE", least):
            ctx = oc.Context.cpu()
            step = ctx.compile(train.grad_update(loss))
        ctx.init_params(loss, seed=1)
        step()
        found.append(ctx[x.grad])
    np.testing.assert_allclose(found[0], found[1], rtol=2e-5, atol=1e-6)
