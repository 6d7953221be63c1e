"""Scores that are kept before a power of two scales them: all results have the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from support.attention_kernel import ROWS, SCALE, attention_text, operands
from support.nests import run_compiled
from support.tensor_core_kernels import lowered
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from ocannl.dialects.kernel.mma import MmaOp
from ocannl.dialects.loops import NestOp, ReduceOp
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.lowering.loops_to_kernels import register_blocks

Array = NDArray[Any]
HIDDEN, INFINITE = "-1.000000e+09", "0xff800000"


def attention(scale: float, hidden: str) -> str:
    """Attention whose first row sees nothing, and the others what is before them."""
    text = attention_text().replace(str(SCALE), str(scale)).replace(HIDDEN, hidden)
    return text.replace("arith.cmpi sle", "arith.cmpi slt")


def scaled_products(text: str) -> int:
    """How many products of tensor cores a kernel scales, point by point."""
    ops = [op for op in lowered(text, tf32=False, warpgroups=True).walk() if isinstance(op, arith.MulfOp)]
    sums = [op.lhs.owner for op in ops if isinstance(op.lhs.owner, ReduceOp)]
    return sum(isinstance(op.yielded.owner, MmaOp) for op in sums)


def result(text: str, arrays: dict[str, Array]) -> Array:
    arrays = {name: array.copy() for name, array in arrays.items()}
    run_compiled(lowered(text, tf32=False, warpgroups=True), arrays, {}, emulation=Emulation())
    return arrays["y"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("hidden", [HIDDEN, "-1.000000e+30", INFINITE])
def test_bits(hidden: str, monkeypatch: pytest.MonkeyPatch):
    text, arrays = attention(0.125, hidden), operands()
    arrays["q"][ROWS // 2 :] *= ml_dtypes.bfloat16(2.0**30)
    assert scaled_products(text) == 0
    kept = result(text, arrays)

    def nothing(nests: Sequence[NestOp], node: SSAValue) -> None:
        del nests, node

    monkeypatch.setattr(register_blocks, "keep_raw", nothing)
    assert scaled_products(text) == 2
    np.testing.assert_array_equal(kept, result(text, arrays))
    # A row whose scores are all the same has the mean; one of infinities has no result, as elsewhere.
    mean = np.mean(arrays["v"].astype(np.float32), axis=0)
    np.testing.assert_allclose(
        kept[0], np.full_like(mean, np.nan) if "0x" in hidden else mean, rtol=0, atol=1e-2
    )
    assert np.isfinite(kept[1:]).all()


@pytest.mark.parametrize(
    ("scale", "hidden", "count"),
    [(0.125, HIDDEN, 0), (0.221, HIDDEN, 2), (2.0, HIDDEN, 2), (0.125, "-3.000000e+38", 2)],
)
def test_scores_that_are_scaled_first(scale: float, hidden: str, count: int):
    """Products with factors that are no powers of two are rounded, and those of such masks overflow."""
    assert scaled_products(attention(scale, hidden)) == count
