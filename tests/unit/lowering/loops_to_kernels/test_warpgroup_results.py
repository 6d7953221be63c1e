"""Results of products of warpgroups: stored in whole sectors, and after long epilogues."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.nests import parse_module
from support.ptx.run import run_ptx
from support.tensor_core_kernels import lowered, product
from support.warpgroup_products import ARCH, NEEDS_PTXAS, arrays
from xdsl.context import Context

from ocannl.dialects.kernel.gpu import MOST_SHARED_BYTES
from ocannl.lowering.loops_to_kernels.lower import LowerLoopsToKernelsPass
from ocannl.lowering.loops_to_kernels.tensor_cores import WARPGROUP_TILES
from ocannl.passes.loops.plan_memory import PlanMemoryPass
from ocannl.runtime.cuda.ptx import kernel_resources, ptx_text


def test_results_of_16_bits(only: Any):
    """Whole sectors, though a thread has pairs of neighbours: four threads exchange them."""
    only(WARPGROUP_TILES[-1])
    sizes, kept = (64, 128, 192), "memref<64x128xbf16>"
    text = product(sizes, "bf16").replace("memref<64x128xf32>", kept)
    text = text.replace("loops.store %z", "%h = arith.truncf %z : f32 to bf16\nloops.store %h")
    ptx, (found, expected) = (
        ptx_text(lowered(text, warpgroups=True), ARCH),
        arrays(sizes, "bf16", "b, i", "o, i"),
    )
    found["y"] = found["y"].astype(ml_dtypes.bfloat16)
    counts = run_ptx(ptx, found, apart=True)
    assert not counts.partial()
    np.testing.assert_allclose(found["y"].astype(np.float32), expected, rtol=2**-8, atol=1e-3)


@pytest.mark.parametrize(("wide", "exchanged"), [(96, True), (88, False)])
def test_results_with_longer_rows(wide: int, exchanged: bool, only: Any):
    """Threads exchange what they store where a bound holds for four tiles or for none."""
    only(WARPGROUP_TILES[-1])
    text = f"""
loops.func @product {{
  %x = assign.node "x" on_device : memref<64x192xbf16>
  %w = assign.node "w" on_device : memref<81x192xbf16>
  %z = assign.node "z" on_device : memref<64x81xf32>
  %y = assign.node "y" local : memref<64x{wide}xbf16>
  loops.nest "y" (b = 64, o = 81) {{
    %sum = loops.reduce add (i = 192) : f32 {{
      %xn = loops.load %x[b, i]
      %wn = loops.load %w[o, i]
      %xv = arith.extf %xn : bf16 to f32
      %wv = arith.extf %wn : bf16 to f32
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }}
    %h = arith.truncf %sum : f32 to bf16
    loops.store %h, %y[b, o]
  }}
  loops.nest "z" (b = 64, o = 81) {{
    %h = loops.load %y[b, o]
    %v = arith.extf %h : bf16 to f32
    loops.store %v, %z[b, o]
  }}
}}
"""
    module = parse_module(text)
    PlanMemoryPass().apply(Context(), module)
    LowerLoopsToKernelsPass(warpgroups=True, shared_bytes=MOST_SHARED_BYTES).apply(Context(), module)
    ptx = ptx_text(module, ARCH)
    assert ("shfl" in ptx) == exchanged
    found, _ = arrays((64, 81, 192), "bf16", "b, i", "o, i")
    expected = found["x"].astype(np.float32) @ found["w"].astype(np.float32).T
    given = {"x": found["x"], "w": found["w"], "z": np.zeros((64, 81), np.float32)}
    run_ptx(ptx, given)
    np.testing.assert_allclose(given["z"], expected, rtol=2**-8, atol=1e-3)


def with_long_epilogue(text: str) -> str:
    """A product, of whose results `x / (x * x + 2)` is computed 12 times over."""
    lines, x = ["%two = arith.constant 2.0 : f32"], "%z"
    for k in range(12):
        lines += [
            f"%s{k} = arith.mulf {x}, {x} : f32",
            f"%m{k} = arith.addf %s{k}, %two : f32",
            f"%d{k} = arith.divf {x}, %m{k} : f32",
        ]
        x = f"%d{k}"
    return text.replace("loops.store %z,", "\n".join([*lines, f"loops.store {x},"]))


@pytest.mark.exhaustive
def test_long_epilogues(only: Any):
    only(WARPGROUP_TILES[0])
    sizes = (128, 256, 192)
    module = lowered(with_long_epilogue(product(sizes, "bf16")), warpgroups=True)
    found, expected = arrays(sizes, "bf16", "b, i", "o, i")
    run_ptx(ptx_text(module, ARCH), found)
    for _ in range(12):
        expected = expected / (expected * expected + 2)
    np.testing.assert_allclose(found["y"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.exhaustive
@NEEDS_PTXAS
def test_long_epilogues_spill_nothing(only: Any):
    only(WARPGROUP_TILES[0])
    module = lowered(with_long_epilogue(product((512, 512, 512), "bf16")), warpgroups=True)
    (found,) = kernel_resources(module, ARCH)
    assert found.spilled == 0
