"""Products of warpgroups: operands, what they give, and how the interpreter of PTX runs them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.ptx.memory import Counts
from support.ptx.run import run_ptx
from support.tensor_core_kernels import DTYPES, QUARTERS, Sizes, rounded
from xdsl.dialects.builtin import ModuleOp

from ocannl.runtime.cuda.ptx import ptx_text
from ocannl.runtime.cuda.ptxas import find_ptxas

Array = NDArray[Any]
NEEDS_PTXAS = pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas: install nvidia-cuda-nvcc")
HALVES = ("f16", "bf16")
LAYOUTS = list(itertools.product(["b, i", "i, b"], ["o, i", "i, o"]))
ARCH = "sm_90a"


def arrays(sizes: Sizes, element: str, x: str, w: str) -> tuple[dict[str, Array], Array]:
    """Operands, and the product that they have."""
    extents, rng = dict(zip("boi", sizes, strict=True)), np.random.default_rng(4)
    found = {
        name: rng.standard_normal([extents[axis] for axis in axes.split(", ")]).astype(
            (DTYPES | QUARTERS)[element]
        )
        for name, axes in (("x", x), ("w", w))
    }
    if element == "f32":
        # No number is half between two of TF32, where threads and copies round differently.
        found = {
            name: (array.view(np.uint32) | np.uint32(1)).view(np.float32) for name, array in found.items()
        }
    wide = [rounded(array) for array in found.values()]
    found |= {"y": np.zeros(sizes[:2], np.float32), "b": rng.standard_normal(sizes[1]).astype(np.float32)}
    return found, np.einsum(f"{x},{w}->bo".replace(", ", ""), *wide) + found["b"]


def check(
    module: ModuleOp, sizes: Sizes, element: str, x: str, w: str, arch: str = ARCH, apart: bool = False
) -> Counts:
    """Runs the PTX, which computes the product."""
    text = ptx_text(module, arch)
    assert ("wgmma" in text) == (arch == ARCH)
    found, expected = arrays(sizes, element, x, w)
    counts = run_ptx(text, found, apart=apart)
    np.testing.assert_allclose(found["y"], expected, rtol=1e-5, atol=1e-5 * np.sqrt(sizes[2]))
    return counts
