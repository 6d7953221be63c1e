"""Attention by products of warpgroups: weights are their left operand, in the registers of threads."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from support.attention import numbers
from support.cuda_on_cpu import FakeDriver, install
from support.nests import run_compiled
from support.ptx.memory import Counts
from support.ptx.run import run_ptx
from support.tensor_core_kernels import lowered

import ocannl as oc
from ocannl import nn
from ocannl.dialects.kernel import CopyOp, LaunchOp
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.runtime.cuda.ptx import ptx_text

Array = NDArray[Any]
ROWS, KEYS, FEATURES, SCALE = 64, 48, 64, 0.1875
# One block of rows, and three of keys, of which a causal mask hides some elements.
ATTENTION = """
loops.func @attention {
  %q = assign.node "q" constant because "data" : memref<64x64xbf16>
  %k = assign.node "k" constant because "data" : memref<48x64xbf16>
  %v = assign.node "v" constant because "data" : memref<48x64xbf16>
  %most = assign.node "most" local because "partial results" : memref<64xf32>
  %sum = assign.node "sum" local because "partial results" : memref<64xf32>
  %all = assign.node "all" local because "partial results" : memref<64x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<64x64xf32>
  loops.nest "most reset" (i = 64) {
    %low = arith.constant 0xff800000 : f32
    loops.store %low, %most[i]
  }
  loops.nest "sum reset" (i = 64) {
    %zero = arith.constant 0.000000e+00 : f32
    loops.store %zero, %sum[i]
  }
  loops.nest "all reset" (i = 64, d = 64) {
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
      %dot = loops.reduce add (d = 64) : f32 {
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
    loops.nest "all" (i = 64, d = 64) {
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
  loops.nest "y" (i = 64, d = 64) {
    %0 = loops.load %all[i, d]
    %1 = loops.load %sum[i]
    %2 = arith.divf %0, %1 : f32
    loops.store %2, %y[i, d]
  }
}
""".replace("SCALE", str(SCALE))


def operands() -> dict[str, Array]:
    sizes = {"q": ROWS, "k": KEYS, "v": KEYS}
    arrays = {
        name: numbers(size, FEATURES, seed=seed).astype(ml_dtypes.bfloat16)
        for seed, (name, size) in enumerate(sizes.items())
    }
    return {**arrays, "y": np.zeros((ROWS, FEATURES), np.float32)}


def expected(arrays: dict[str, Array]) -> Array:
    q, k, v = (arrays[name].astype(np.float64) for name in "qkv")
    scores = np.where(np.tri(ROWS, KEYS) > 0, SCALE * (q @ k.T), -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ v / weights.sum(1, keepdims=True)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_90"])
def test_as_ptx(arch: str):
    """Tiles come in bulk, swizzled, and sums go on from what was scaled; without bank conflicts."""
    module = lowered(ATTENTION, tf32=False, warpgroups=arch == "sm_90a")
    text, arrays = ptx_text(module, arch), operands()
    assert text.count("wgmma.mma_async") == (2 * (4 + 1) if arch == "sm_90a" else 0)
    counts = run_ptx(text, arrays)
    assert not counts.conflicts(looped=True)
    np.testing.assert_allclose(arrays["y"], expected(arrays), rtol=0, atol=1e-2)


def test_tiles_are_copied_in_bulk():
    module = lowered(ATTENTION, tf32=False, warpgroups=True)
    (launch,) = [op for op in module.walk() if isinstance(op, LaunchOp)]
    copies = [op for op in launch.walk() if isinstance(op, CopyOp)]
    assert len(copies) == 5
    assert all(op.is_bulk for op in copies)


@pytest.mark.exhaustive
def test_emulated():
    module = lowered(ATTENTION, tf32=False, warpgroups=True)
    arrays = operands()
    run_compiled(module, arrays, {}, emulation=Emulation(shuffle=2, check=True))
    np.testing.assert_allclose(arrays["y"], expected(arrays), rtol=0, atol=1e-2)


@pytest.mark.exhaustive
def test_gradients_as_ptx(monkeypatch: pytest.MonkeyPatch):
    driver = FakeDriver()
    driver.capability, driver.counts = (9, 0), Counts()
    install(monkeypatch, driver)

    def found(ctx: oc.Context) -> tuple[oc.Routine, list[Array]]:
        arrays = [numbers(1, 256, 1, FEATURES, seed=seed) for seed in range(4)]
        q, k, v, g = (oc.data(array, axes="bboo", dtype=oc.bfloat16) for array in arrays)
        y = nn.dot_product_attention(q, k, v, nn.causal_mask())
        results = [y, *oc.vjp(y, [q, k, v], g)]
        step = ctx.compile(sum(map(oc.forward, results), oc.Code()), name="step")
        step()
        return step, [np.asarray(ctx[result]).astype(np.float32) for result in results]

    step, here = found(oc.Context.cuda())
    assert step.ptx().count("wgmma.mma_async") == 2 * (8 + 12 + 16)
    for left, right in zip(here, found(oc.Context.cpu(threads=1))[1], strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-2 * np.abs(right).max())
    assert not driver.counts.conflicts(looped=True)
