"""Convolutions of few channels as products of matrices: the same sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.interpret_loops import run_func
from support.nests import parse_module
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import ocannl as oc
from ocannl import nn, train
from ocannl.passes.analysis.nests import functions, nests, nodes
from ocannl.passes.analysis.patterns.contractions import find_contraction
from ocannl.passes.loops.unfold_windows import UnfoldWindowsPass


def convolution(window: tuple[int, int, int], stride: int, columns: int, swapped: bool) -> str:
    """A convolution and the gradient of its kernel."""
    i, j, c = window
    height, width = 3 * stride + i, 7 * stride + j
    loads = [f"%a = loops.load %x[b, {stride}*h + i, {stride}*w + j, c]", "%k = loops.load %w[o, i, j, c]"]
    return f"""
loops.func @convolution {{
  %x = assign.node "x" on_device : memref<2x{height}x{width}x{c}xf32>
  %w = assign.node "w" on_device : memref<{columns}x{i}x{j}x{c}xf32>
  %y = assign.node "y" on_device : memref<2x4x8x{columns}xf32>
  %g = assign.node "g" on_device : memref<{columns}x{i}x{j}x{c}xf32>
  loops.nest "y" (b = 2, h = 4, w = 8, o = {columns}) {{
    %sum = loops.reduce add (i = {i}, j = {j}, c = {c}) : f32 {{
      {chr(10).join(reversed(loads) if swapped else loads)}
      %p = arith.mulf %{"k" if swapped else "a"}, %{"a" if swapped else "k"} : f32
      loops.yield %p
    }}
    loops.store %sum, %y[b, h, w, o]
  }}
  loops.nest "g" (o = {columns}, i = {i}, j = {j}, c = {c}) {{
    %sum = loops.reduce add (b = 2, h = 4, w = 8) : f32 {{
      {loads[0]}
      %d = loops.load %y[b, h, w, o]
      %p = arith.mulf %a, %d : f32
      loops.yield %p
    }}
    %old = loops.load %w[o, i, j, c]
    %new = arith.subf %old, %sum : f32
    loops.store %new, %g[o, i, j, c]
  }}
}}
"""


def run(module: ModuleOp) -> list[NDArray[Any]]:
    """The numbers that the nests leave, from small whole ones."""
    module.verify()
    (func,) = functions(module)
    arrays: dict[str, NDArray[Any]] = {}
    for node in nodes(func):
        rng = np.random.default_rng(len(node.label.data))
        arrays[node.label.data] = rng.integers(-4, 5, node.result.type.get_shape()).astype(np.float32)
    run_func(func, arrays, {})
    return [arrays["y"], arrays["g"]]


SIZES = st.integers(1, 5)


@given(st.tuples(SIZES, SIZES, SIZES), st.integers(1, 3), st.integers(16, 20), st.booleans())
def test_sums_are_the_same(window: tuple[int, int, int], stride: int, columns: int, swapped: bool):
    text = convolution(window, stride, columns, swapped)
    module = parse_module(text)
    UnfoldWindowsPass(least=0).apply(Context(), module)
    for found, expected in zip(run(module), run(parse_module(text)), strict=True):
        np.testing.assert_array_equal(found, expected)
    if sum(size > 1 for size in window) > 1 and np.prod(window) >= 16:
        made = {nest.label.data: nest for nest in nests(functions(module)[0])}
        assert find_contraction(made["y"], merges=True) is not None
        assert find_contraction(made["g.columns"]) is not None


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [oc.float32, oc.bfloat16])
def test_an_image_of_three_channels(dtype: Any):
    """The emulated GPU has the results of the CPU, by products of matrices."""
    image = np.random.default_rng(0).standard_normal((8, 32, 32, 3)).astype(np.float32)
    found: list[dict[str, NDArray[Any]]] = []
    for ctx in (oc.Context.cpu(), oc.Context.emulated_gpu(check=True)):
        with oc.precision(dtype):
            y = nn.conv2d(out_channels=40, kernel_size=3)(oc.cast(oc.data(image, axes="bbbo"), dtype))
            loss = oc.sum(y * y)
        step = ctx.compile(train.grad_update(loss), name="step")
        ctx.init_params(loss, seed=1)
        step()
        found.append({name: np.asarray(ctx[p.grad], np.float32) for name, p in oc.params(loss).items()})
        if ctx.backend == "emulated_gpu":
            assert step.ir("unfold-windows").count('.matrix" (') == 2
    for name, array in found[0].items():
        close = 0.05 if dtype == oc.bfloat16 else 1e-4
        np.testing.assert_allclose(found[1][name], array, rtol=close, atol=close * np.abs(array).max())
