"""Attention of a block of rows as nests, for kernels whose scores stay in registers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from support.attention import numbers

Array = NDArray[Any]
ROWS, KEYS, FEATURES, SCALE = 64, 48, 64, 0.125
# One block of rows, and three of keys, of which a causal mask hides some elements.
ATTENTION = """
loops.func @attention {
  %q = assign.node "q" constant because "data" : memref<64xFEATURESxbf16>
  %k = assign.node "k" constant because "data" : memref<48xFEATURESxbf16>
  %v = assign.node "v" constant because "data" : memref<48xFEATURESxbf16>
  %most = assign.node "most" local because "partial results" : memref<64xf32>
  %sum = assign.node "sum" local because "partial results" : memref<64xf32>
  %all = assign.node "all" local because "partial results" : memref<64xFEATURESxf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<64xFEATURESxf32>
  loops.nest "most reset" (i = 64) {
    %low = arith.constant 0xff800000 : f32
    loops.store %low, %most[i]
  }
  loops.nest "sum reset" (i = 64) {
    %zero = arith.constant 0.000000e+00 : f32
    loops.store %zero, %sum[i]
  }
  loops.nest "all reset" (i = 64, d = FEATURES) {
    %zero = arith.constant 0.000000e+00 : f32
    loops.store %zero, %all[i, d]
  }
  loops.group "attention" (block = 3) {
    %s = assign.node "s" local because "intermediate value" : memref<64x16xf32>
    %e = assign.node "e" local because "intermediate value" : memref<64x16xf32>
    %w = assign.node "w" local because "intermediate value" : memref<64x16xbf16>
    %running = assign.node "running" local because "running maximum" : memref<64xf32>
    %factor = assign.node "factor" local because "exponential of its change" : memref<64xf32>
    loops.nest "s" (i = 64, j = 16) {
      %key = loops.index j + 16*block : i32
      %row = loops.index i : i32
      %sees = arith.cmpi sle, %key, %row : i32
      %dot = loops.reduce add (d = FEATURES) : f32 {
        %0 = loops.load %q[i, d]
        %1 = arith.extf %0 : bf16 to f32
        %2 = loops.load %k[j + 16*block, d]
        %3 = arith.extf %2 : bf16 to f32
        %4 = arith.mulf %1, %3 : f32
        loops.yield %4
      }
      %scale = arith.constant SCALE : f32
      %scaled = arith.mulf %dot, %scale : f32
      %hidden = arith.constant -1.000000e+09 : f32
      %score = arith.select %sees, %scaled, %hidden : f32
      loops.store %score, %s[i, j]
    }
    loops.nest "most" (i = 64) {
      %new = loops.reduce max (j = 16) : f32 {
        %0 = loops.load %s[i, j]
        loops.yield %0
      }
      %old = loops.load %most[i]
      %greatest = arith.maximumf %old, %new : f32
      loops.store %greatest, %most[i]
      %change = arith.subf %old, %greatest : f32
      %log2e = arith.constant 1.44269502 : f32
      %exponent = arith.mulf %change, %log2e : f32
      %power = math.exp2 %exponent fastmath<afn> : f32
      loops.store %greatest, %running[i]
      loops.store %power, %factor[i]
    }
    loops.nest "e" (i = 64, j = 16) {
      %score = loops.load %s[i, j]
      %shift = loops.load %running[i]
      %difference = arith.subf %score, %shift : f32
      %log2e = arith.constant 1.44269502 : f32
      %exponent = arith.mulf %difference, %log2e : f32
      %power = math.exp2 %exponent fastmath<afn> : f32
      loops.store %power, %e[i, j]
    }
    loops.nest "w" (i = 64, j = 16) {
      %0 = loops.load %e[i, j]
      %1 = arith.truncf %0 : f32 to bf16
      loops.store %1, %w[i, j]
    }
    loops.nest "sum" (i = 64) {
      %new = loops.reduce add (j = 16) : f32 {
        %0 = loops.load %e[i, j]
        loops.yield %0
      }
      %old = loops.load %sum[i]
      %by = loops.load %factor[i]
      %less = arith.mulf %old, %by : f32
      %total = arith.addf %less, %new : f32
      loops.store %total, %sum[i]
    }
    loops.nest "all" (i = 64, d = FEATURES) {
      %new = loops.reduce add (j = 16) : f32 {
        %0 = loops.load %w[i, j]
        %1 = arith.extf %0 : bf16 to f32
        %2 = loops.load %v[j + 16*block, d]
        %3 = arith.extf %2 : bf16 to f32
        %4 = arith.mulf %1, %3 : f32
        loops.yield %4
      }
      %old = loops.load %all[i, d]
      %by = loops.load %factor[i]
      %less = arith.mulf %old, %by : f32
      %total = arith.addf %less, %new : f32
      loops.store %total, %all[i, d]
    }
  }
  loops.nest "y" (i = 64, d = FEATURES) {
    %0 = loops.load %all[i, d]
    %1 = loops.load %sum[i]
    %2 = arith.divf %0, %1 : f32
    loops.store %2, %y[i, d]
  }
}
"""


def attention_text(features: int = FEATURES) -> str:
    """The nests for heads of so many features."""
    return ATTENTION.replace("SCALE", str(SCALE)).replace("FEATURES", str(features))


def operands(features: int = FEATURES) -> dict[str, Array]:
    sizes = {"q": ROWS, "k": KEYS, "v": KEYS}
    arrays = {
        name: numbers(size, features, seed=seed).astype(ml_dtypes.bfloat16)
        for seed, (name, size) in enumerate(sizes.items())
    }
    return {**arrays, "y": np.zeros((ROWS, features), np.float32)}
