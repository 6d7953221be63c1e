"""Products as kernels that use tensor cores."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from support.nests import parse_module
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.kernel.gpu import MOST_SHARED_BYTES, PORTABLE_SHARED_BYTES
from ocannl.lowering.loops_to_kernels.lower import LowerLoopsToKernelsPass
from ocannl.lowering.loops_to_kernels.tensor_cores import TILES
from ocannl.lowering.pipelines import module_text
from ocannl.passes.loops.plan_memory import PlanMemoryPass

Array = NDArray[Any]
Sizes = tuple[int, int, int]
DTYPES: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64}
QUARTERS: dict[str, Any] = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}

# Tiles with elements whose sums fit into the registers of warps.
TILES_OF = [(t, e) for t in TILES for e in DTYPES if e != "f64" or t.warp_rows * t.warp_columns <= 64 * 32]


def product(
    sizes: Sizes, element: str, x: str = "b, i", w: str = "o, i", y: str = "b, o", outer: int = 0
) -> str:
    """A product with a bias, of batches if `outer` is not 0."""
    extents = dict(zip("boi", sizes, strict=True))
    batch, at, space = (f"{outer}x", "g, ", f"g = {outer}, ") if outer else ("", "", "")
    shape = {axes: batch + "x".join(str(extents[a]) for a in axes.split(", ")) for axes in (x, w, y)}
    is_wide, sums = element in ("f32", "f64"), "f64" if element == "f64" else "f32"
    loads = [
        f"%{name}{'v' if is_wide else 'n'} = loops.load %{name}[{at}{axes}]"
        for name, axes in (("x", x), ("w", w))
    ]
    wide = [] if is_wide else [f"%{n}v = arith.extf %{n}n : {element} to f32" for n in "xw"]
    lines = "\n".join([*loads, *wide])
    return f"""
loops.func @product {{
  %x = assign.node "x" on_device : memref<{shape[x]}x{element}>
  %w = assign.node "w" on_device : memref<{shape[w]}x{element}>
  %b = assign.node "b" on_device : memref<{extents["o"]}x{sums}>
  %y = assign.node "y" on_device : memref<{shape[y]}x{sums}>
  loops.nest "y" ({space}b = {extents["b"]}, o = {extents["o"]}) {{
    %bias = loops.load %b[o]
    %sum = loops.reduce add (i = {extents["i"]}) : {sums} {{
      {lines}
      %p = arith.mulf %xv, %wv : {sums}
      loops.yield %p
    }}
    %z = arith.addf %sum, %bias : {sums}
    loops.store %z, %y[{at}{y}]
  }}
}}
"""


def lowered(text: str, tf32: bool = True, warpgroups: bool = False, **options: Any) -> ModuleOp:
    """The kernels of a routine, on request for Hopper; with other options of the pass."""
    module = parse_module(text)
    PlanMemoryPass().apply(Context(), module)
    room = MOST_SHARED_BYTES if warpgroups else PORTABLE_SHARED_BYTES
    made = LowerLoopsToKernelsPass(tf32=tf32, warpgroups=warpgroups, shared_bytes=room, **options)
    made.apply(Context(), module)
    module.verify()
    assert module_text(parse_module(module_text(module))) == module_text(module)
    return module


def rounded(array: Array) -> Array:
    """The rounding of operands of tensor cores: f32 to the nearest number of TF32, the greater one of two."""
    if array.dtype != np.float32:
        return array.astype(np.float64)
    bits = array.view(np.uint32).astype(np.uint64)
    return ((bits + 0x1000) & ~np.uint64(0x1FFF)).astype(np.uint32).view(np.float32).astype(np.float64)
