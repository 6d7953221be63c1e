"""Scattered windows are gathered: the same sums, for all strides, dilations and orders of operands."""

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
from ocannl.passes.loops.gather_windows import GatherWindowsPass

Axis = tuple[int, int, int, int, int]
# Positions, offsets, stride and dilation, and the first cell that they reach.
AXES = st.tuples(*(st.integers(1, 4) for _ in range(4)), st.integers(0, 2))


def scatter(axes: list[Axis], swapped: bool, reset: bool, reads: list[tuple[int, int]] | None = None) -> str:
    """A scatter to `x`, of whose cells a nest reads those at some places, if `reads` says so."""
    sizes = [(p - 1) * s + (k - 1) * d + at + 1 for p, k, s, d, at in axes]
    space = ", ".join(f"h{n} = {p}, k{n} = {k}" for n, (p, k, _, _, _) in enumerate(axes))
    cells = ", ".join(f"{s}*h{n} + {d}*k{n} + {at}" for n, (_, _, s, d, at) in enumerate(axes))
    shapes = ["x".join(str(a[at]) for a in axes) for at in (0, 1)]
    places = [", ".join(f"{name}{n}" for n in range(len(axes))) for name in "hk"]
    whole = ", ".join(f"i{n} = {size}" for n, size in enumerate(sizes))
    loads = [f"%a = loops.load %g[{places[0]}, o]", f"%b = loops.load %w[o, {places[1]}]"]
    places_read = zip(sizes, reads or [(0, 1)] * len(axes), strict=True)
    read = [range(size)[first:][:count] or range(1) for size, (first, count) in places_read]
    points = ", ".join(f"i{n} = {len(cells)}" for n, cells in enumerate(read))
    moved = ", ".join(f"i{n} + {cells.start}" for n, cells in enumerate(read))
    copy = f"""loops.nest "y" ({points}) {{
    %v = loops.load %x[{moved}]
    loops.store %v, %y[{", ".join(f"i{n}" for n in range(len(axes)))}]
  }}"""
    zeros = f"""loops.nest "x reset" ({whole}) {{
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %x[{", ".join(f"i{n}" for n in range(len(axes)))}]
  }}"""
    return f"""
loops.func @gradient {{
  %g = assign.node "g" on_device : memref<{shapes[0]}x5xf32>
  %w = assign.node "w" on_device : memref<5x{shapes[1]}xf32>
  %x = assign.node "x" {"local" if reads else "on_device"} : memref<{"x".join(map(str, sizes))}xf32>
  %y = assign.node "y" on_device : memref<{"x".join(str(len(cells)) for cells in read)}xf32>
  {zeros if reset else ""}
  loops.nest "x" ({space}) {{
    %sum = loops.reduce add (o = 5) : f32 {{
      {chr(10).join(reversed(loads) if swapped else loads)}
      %p = arith.mulf %{"b" if swapped else "a"}, %{"a" if swapped else "b"} : f32
      loops.yield %p
    }}
    %old = loops.load %x[{cells}]
    %new = arith.addf %old, %sum : f32
    loops.store %new, %x[{cells}]
  }}
  {copy if reads else ""}
}}
"""


def run(module: ModuleOp, result: str = "x") -> NDArray[Any]:
    """The numbers that the nests leave in a node, from small whole ones."""
    module.verify()
    (func,) = functions(module)
    arrays: dict[str, NDArray[Any]] = {}
    for number, node in enumerate(nodes(func)):
        rng = np.random.default_rng(number)
        shape = node.result.type.get_shape()
        arrays[node.label.data] = rng.integers(-4, 5, shape).astype(np.float32)
    run_func(func, arrays, {})
    return arrays[result]


@given(st.lists(AXES, min_size=1, max_size=2), st.booleans(), st.booleans())
def test_sums_are_the_same(axes: list[Axis], swapped: bool, reset: bool):
    text = scatter(axes, swapped, reset)
    module = parse_module(text)
    GatherWindowsPass().apply(Context(), module)
    np.testing.assert_array_equal(run(module), run(parse_module(text)))
    is_changed = all(min(s, d) == 1 for _, _, s, d, _ in axes) and any(min(p, k) > 1 for p, k, *_ in axes)
    if is_changed:
        assert not any(nest.clashing for nest in nests(functions(module)[0]))


@pytest.mark.exhaustive
@given(st.lists(AXES, min_size=1, max_size=2), st.booleans())
def test_what_is_computed_in_place_is_the_same(axes: list[Axis], swapped: bool):
    """The gradient that is scattered is computed with zeros around, where others read it, too."""
    text = scatter(axes, swapped, True)
    shape = [*(positions for positions, *_ in axes), 5]
    points = ", ".join(f"i{n} = {size}" for n, size in enumerate(shape))
    place = ", ".join(f"i{n}" for n in range(len(shape)))
    array = "x".join(map(str, shape))
    nests = f"""
  %d = assign.node "d" on_device : memref<{array}xf32>
  %s = assign.node "s" on_device : memref<{array}xf32>
  loops.nest "g" ({points}) {{
    %v = loops.load %d[{place}]
    loops.store %v, %g[{place}]
  }}
  loops.nest "s" ({points}) {{
    %v = loops.load %g[{place}]
    loops.store %v, %s[{place}]
  }}
  loops.nest "x reset\""""
    text = text.replace('"g" on_device', '"g" local').replace('loops.nest "x reset"', nests, 1)
    module = parse_module(text)
    GatherWindowsPass().apply(Context(), module)
    for result in ("x", "s"):
        np.testing.assert_array_equal(run(module, result), run(parse_module(text), result))


@given(st.lists(AXES, min_size=1, max_size=2), st.booleans(), st.data())
def test_what_is_read_is_the_same(axes: list[Axis], reset: bool, data: st.DataObject):
    """Cells that nothing reads are left out, and zeros that they need."""
    at = st.tuples(st.integers(0, 12), st.integers(1, 12))
    text = scatter(axes, False, reset, data.draw(st.lists(at, min_size=len(axes), max_size=len(axes))))
    module = parse_module(text)
    GatherWindowsPass().apply(Context(), module)
    np.testing.assert_array_equal(run(module, "y"), run(parse_module(text), "y"))


@pytest.mark.sampled(7)
@pytest.mark.parametrize("dtype", [oc.float32, oc.bfloat16])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
def test_convolutions(stride: int, dilation: int, dtype: Any):
    """The emulated GPU has the gradients of the CPU, without a cell that two points store to."""
    image = np.random.default_rng(0).standard_normal((2, 12, 12, 3)).astype(np.float32)
    found: list[dict[str, NDArray[Any]]] = []
    for ctx in (oc.Context.cpu(), oc.Context.emulated_gpu(check=True)):
        with oc.precision(dtype):
            x = oc.cast(oc.data(image, axes="bbbo", label="x"), dtype)
            first = nn.conv2d(out_channels=16, kernel_size=3)
            second = nn.conv2d(out_channels=24, kernel_size=3, stride=stride, dilation=dilation)
            y = second(oc.tanh(first(x)))
            loss = oc.sum(y * y)
        step = ctx.compile(train.grad_update(loss), name="step")
        ctx.init_params(loss, seed=1)
        step()
        found.append({name: np.asarray(ctx[p.grad], np.float32) for name, p in first.params.items()})
        if ctx.backend == "emulated_gpu":
            assert '_grad.padded"' in step.ir("gather-windows")
            assert "kernel.for" not in step.ir("kernels")
    for name, array in found[0].items():
        close = 0.05 if dtype == oc.bfloat16 else 1e-4
        np.testing.assert_allclose(found[1][name], array, rtol=close, atol=close * np.abs(array).max())
