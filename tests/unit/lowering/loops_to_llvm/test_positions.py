"""Computed positions of compiled nests never leave their node."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.interpret_loops import Array, run_func
from support.nests import Arrays, compare, parse_module, run_compiled, the_func

from ocannl.lowering.loops_to_llvm import loops_to_llvm
from ocannl.passes.analysis.targets.processors import processor
from ocannl.runtime.host.jit import emit_assembly

EXTREMES = [-(2**63), -(2**31), -1, 0, 1, 12, 13, 2**31 - 1, 2**31, 2**63 - 1]
FLOATS = [*map(float, EXTREMES), -0.0, 0.5, 12.5, math.nan, math.inf, -math.inf, 1e300, 5e-324]
POSITION_TILES = [
    "",
    ", lanes = d : 8",
    ", lanes = t : 4",
    ", lanes = b : 8",
    ", rows = t : 5",
    ", rows = b : 3, lanes = d : 4",
    ", rows = d : 8, lanes = b : 8",
]


def guarded(shape: tuple[int, ...], dtype: str) -> tuple[Array, Array]:
    """An array, and the larger one in whose middle it is."""
    size, room = math.prod(shape), 4096
    around = np.full(size + 2 * room, 7, dtype)
    array = around[room : room + size].reshape(shape)
    array[...] = np.random.default_rng(0).normal(size=shape)
    return array, around


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", ["b, t, d", "d, t, b", "t, d, b"])
@pytest.mark.parametrize("tile", POSITION_TILES)
@pytest.mark.parametrize("type", ["i32", "i64", "f32", "f64"])
def test_positions_never_leave_the_node(type: str, tile: str, order: str):
    """Gathered and scattered, by rows and by lanes, at ids of any value."""
    text = f"""
loops.func @positions {{
  %ids = assign.node "ids" constant : memref<9x5x{type}>
  %x = assign.node "x" constant : memref<13x9xf32>
  %y = assign.node "y" on_device : memref<9x5x9xf32>
  %z = assign.node "z" on_device : memref<9x5x13x9xf32>
  loops.nest "y" (b = 9, t = 5, d = 9) schedule <order = ({order}){tile}> {{
    %id = loops.load %ids[b, t]
    %v, %inside = loops.position %id below 13
    %row = loops.load %x[%v, d]
    %r = loops.reduce add (k = 3) : f32 {{
      %w, %is = loops.position %id below 10
      %other = loops.load %x[%w + k, d]
      %none = arith.constant 0.0 : f32
      %p = arith.select %is, %other, %none : f32
      loops.yield %p
    }}
    %zero = arith.constant 0.0 : f32
    %chosen = arith.select %inside, %row, %zero : f32
    %sum = arith.addf %chosen, %r : f32
    loops.store %sum, %y[b, t, d]
    %old = loops.load %z[b, t, %v, d]
    %new = arith.addf %old, %sum : f32
    loops.store %new, %z[b, t, %v, d]
  }}
}}"""
    numpy_type = {"i32": "int32", "i64": "int64", "f32": "float32", "f64": "float64"}[type]
    values = np.array(FLOATS if type[0] == "f" else EXTREMES)
    with np.errstate(all="ignore"):
        ids = np.resize(values, (9, 5)).astype(numpy_type)
    module = parse_module(text)
    found: Arrays = {"ids": ids}
    arounds: list[Array] = []
    for label, shape in (("x", (13, 9)), ("y", (9, 5, 9)), ("z", (9, 5, 13, 9))):
        found[label], around = guarded(shape, "float32")
        arounds.append(around)
    expected = {label: array.copy() for label, array in found.items()}
    run_compiled(module, found)
    run_func(the_func(module), expected)
    compare(found, expected)
    for around in arounds:
        np.testing.assert_array_equal(around[:4096], 7)
        np.testing.assert_array_equal(around[-4096:], 7)


def test_cells_that_stay_are_not_stored_under_a_mask():
    """Where one position holds for all lanes, a branch leaves a cell as it is: with AVX2, a store under a
    mask is emulated by some processors, and no load after it is served from it.
    """
    text = """
loops.func @scatter {
  %ids = assign.node "ids" constant : memref<9xi32>
  %x = assign.node "x" constant : memref<9x64xf32>
  %y = assign.node "y" on_device : memref<5x64xf32>
  loops.nest "y" (b = 9, d = 64) schedule <order = (b, d), lanes = d : 32> {
    %id = loops.load %ids[b]
    %v, %inside = loops.position %id below 5
    %a = loops.load %x[b, d]
    %old = loops.load %y[%v, d]
    %sum = arith.addf %old, %a : f32
    %new = arith.select %inside, %sum, %old : f32
    loops.store %new, %y[%v, d]
  }
}"""
    target = processor("x86-64-v3")
    assembly = emit_assembly(loops_to_llvm(parse_module(text), target=target), target)
    assert "vaddps" in assembly
    assert "vmaskmov" not in assembly
