"""Products of small numbers as text, for the tests of matrix units."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from support.nests import random_arrays

from ocannl.dialects.loops import FuncOp

# How a number of each type is widened, and what adds and multiplies it then.
WIDENED = {
    "bf16": ("arith.extf", "bf16", "f32", "f"),
    "f16": ("arith.extf", "f16", "f32", "f"),
    "i8": ("arith.extsi", "i8", "i32", "i"),
    "ui8": ("arith.extui", "i8", "i32", "i"),
}


def product(
    sizes: dict[str, int],
    x: str = "b, k",
    w: str = "k, o",
    y: str = "b, o",
    types: tuple[str, str] = ("bf16", "bf16"),
    summed: str = "k",
) -> str:
    """A product and an addition to what stands in its place, as one nest: `x`, `w` and `y` are the axes of
    the operands and of the result, `summed` those of the sum.
    """
    shapes = {axes: "x".join(str(sizes[a]) for a in axes.split(", ")) for axes in (x, w, y)}
    (extend_x, x_type, wide, kind), (extend_w, w_type, _, _) = (WIDENED[type] for type in types)
    own = ", ".join(f"{name} = {sizes[name]}" for name in y.split(", "))
    reduced = ", ".join(f"{name} = {sizes[name]}" for name in summed.split(", "))
    return f"""
loops.func @product {{
  %x = assign.node "x" on_device : memref<{shapes[x]}x{types[0]}>
  %w = assign.node "w" on_device : memref<{shapes[w]}x{types[1]}>
  %y = assign.node "y" on_device : memref<{shapes[y]}x{wide}>
  loops.nest "y" ({own}) {{
    %sum = loops.reduce add ({reduced}) : {wide} {{
      %xv = loops.load %x[{x}]
      %xw = {extend_x} %xv : {x_type} to {wide}
      %wv = loops.load %w[{w}]
      %ww = {extend_w} %wv : {w_type} to {wide}
      %p = arith.mul{kind} %xw, %ww : {wide}
      loops.yield %p
    }}
    %old = loops.load %y[{y}]
    %new = arith.add{kind} %old, %sum : {wide}
    loops.store %new, %y[{y}]
  }}
}}"""


def small_numbers(func: FuncOp, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Values of which all sums of products are exact, in any order."""
    arrays, rng = random_arrays(func), np.random.default_rng(seed)
    for array in arrays.values():
        lowest = 0 if array.dtype.kind == "u" else -8
        array[...] = rng.integers(lowest, 9, array.shape)
    return arrays


def product_of_blocks(rows: int) -> str:
    """A matrix of blocks of 32 bytes, each with a scale, times a vector of bytes."""
    return f"""
loops.func @product {{
  %w = assign.node "w" on_device : memref<{rows}x64x32xi8>
  %s = assign.node "s" on_device : memref<{rows}x64xf32>
  %x = assign.node "x" on_device : memref<64x32xi8>
  %y = assign.node "y" on_device : memref<{rows}xf32>
  loops.nest "y" (o = {rows}) {{
    %least = arith.constant -127 : i32
    %total = loops.reduce add (k = 64, l = 8) : f32 {{
      %sum = loops.reduce add (i = 4) : i32 {{
        %wv = loops.load %w[o, k, i + 4*l]
        %ww = arith.extsi %wv : i8 to i32
        %xv = loops.load %x[k, i + 4*l]
        %xw = arith.extsi %xv : i8 to i32
        %xo = arith.maxsi %xw, %least : i32
        %p = arith.muli %ww, %xo : i32
        loops.yield %p
      }}
      %f = arith.sitofp %sum : i32 to f32
      %sv = loops.load %s[o, k]
      %v = arith.mulf %f, %sv : f32
      loops.yield %v
    }}
    loops.store %total, %y[o]
  }}
}}"""


def product_of_decoded_blocks(rows: int) -> str:
    """A matrix of blocks of 32 bytes, each with a scale, times a vector of floats."""
    return f"""
loops.func @product {{
  %w = assign.node "w" on_device : memref<{rows}x64x32xi8>
  %s = assign.node "s" on_device : memref<{rows}x64xf32>
  %x = assign.node "x" on_device : memref<64x32xf32>
  %y = assign.node "y" on_device : memref<{rows}xf32>
  loops.nest "y" (o = {rows}) {{
    %total = loops.reduce add (k = 64, j = 32) : f32 {{
      %wv = loops.load %w[o, k, j]
      %wf = arith.sitofp %wv : i8 to f32
      %sv = loops.load %s[o, k]
      %ws = arith.mulf %wf, %sv : f32
      %xv = loops.load %x[k, j]
      %v = arith.mulf %ws, %xv : f32
      loops.yield %v
    }}
    loops.store %total, %y[o]
  }}
}}"""
