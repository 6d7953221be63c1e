"""Attention by products of warpgroups: weights are their left operand, in the registers of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.attention import numbers
from support.attention_kernel import KEYS, ROWS, SCALE, attention_text, operands
from support.cuda_on_cpu import FakeDriver, install
from support.nests import run_compiled
from support.ptx.memory import Counts
from support.ptx.run import run_ptx
from support.tensor_core_kernels import lowered
from xdsl.dialects.builtin import BFloat16Type

import ocannl as oc
from ocannl import nn
from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.kernel import CopyOp, LaunchOp
from ocannl.dialects.loops import StoreOp
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.lowering.pipelines import parse_text
from ocannl.passes.loops.online_softmax import online_softmax
from ocannl.runtime.cuda.ptx import ptx_text

Array = NDArray[Any]


def expected(arrays: dict[str, Array]) -> Array:
    q, k, v = (arrays[name].astype(np.float64) for name in "qkv")
    scores = np.where(np.tri(ROWS, KEYS) > 0, SCALE * (q @ k.T), -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ v / weights.sum(1, keepdims=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("arch", "features"), [("sm_90a", 64), ("sm_90", 64), ("sm_90a", 128)])
def test_as_ptx(arch: str, features: int):
    """Tiles come in bulk, swizzled, and sums go on from what was scaled; without bank conflicts."""
    module = lowered(attention_text(features), tf32=False, warpgroups=arch == "sm_90a")
    text, arrays = ptx_text(module, arch), operands(features)
    assert text.count("wgmma.mma_async") == (2 * (features // 16 + 1) if arch == "sm_90a" else 0)
    counts = run_ptx(text, arrays)
    assert not counts.conflicts(looped=True)
    np.testing.assert_allclose(arrays["y"], expected(arrays), rtol=0, atol=1e-2)


def test_tiles_are_copied_in_bulk():
    module = lowered(attention_text(), tf32=False, warpgroups=True)
    (launch,) = [op for op in module.walk() if isinstance(op, LaunchOp)]
    copies = [op for op in launch.walk() if isinstance(op, CopyOp)]
    assert len(copies) == 5
    assert all(op.is_bulk for op in copies)


@pytest.mark.exhaustive
def test_emulated():
    module = lowered(attention_text(), tf32=False, warpgroups=True)
    arrays = operands()
    run_compiled(module, arrays, {}, emulation=Emulation(shuffle=2, check=True))
    np.testing.assert_allclose(arrays["y"], expected(arrays), rtol=0, atol=1e-2)


@pytest.mark.exhaustive
@pytest.mark.parametrize("features", [64, 128])
def test_gradients_as_ptx(features: int, monkeypatch: pytest.MonkeyPatch):
    driver = FakeDriver()
    driver.capability, driver.counts = (9, 0), Counts()
    install(monkeypatch, driver)
    monkeypatch.setattr(online_softmax, "LEAST_WIDE_BLOCKS", 1)

    def found(ctx: oc.Context) -> tuple[oc.Routine, list[Array]]:
        arrays = [numbers(1, 256, 1, features, seed=seed) for seed in range(4)]
        q, k, v, g = (oc.data(array, axes="bboo", dtype=oc.bfloat16) for array in arrays)
        y = nn.dot_product_attention(q, k, v, nn.causal_mask())
        results = [y, *oc.vjp(y, [q, k, v], g)]
        step = ctx.compile(sum(map(oc.forward, results), oc.Code()), name="step")
        step()
        return step, [np.asarray(ctx[result]).astype(np.float32) for result in results]

    step, here = found(oc.Context.cuda())
    assert step.ptx().count("wgmma.mma_async") == 2 * (features // 16 * 5 + 4 * 4)
    for left, right in zip(here, found(oc.Context.cpu(threads=1))[1], strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-2 * np.abs(right).max())
    assert not driver.counts.conflicts(looped=True)


@pytest.mark.parametrize(("features", "warps"), [(64, 4), (128, 8)])
def test_wide_heads_have_more_rows(features: int, warps: int, monkeypatch: pytest.MonkeyPatch):
    """In the kernel of results, which divides them, too: what is left for gradients is a sum of each row."""
    monkeypatch.setattr(online_softmax, "LEAST_WIDE_BLOCKS", 1)
    shape = (1, 256, 1, features)
    q, k, v, g = (oc.data(np.zeros(shape, np.float32), axes="bboo", dtype=oc.bfloat16) for _ in range(4))
    y = nn.dot_product_attention(q, k, v)
    code = sum(map(oc.forward, [y, *oc.vjp(y, [q], g)]), oc.Code())
    step = oc.Context.cuda(arch="sm_90a").compile(code, name="step")
    first, sums, *_ = [op for op in parse_text(step.ir("kernels")).walk() if isinstance(op, LaunchOp)]
    assert dict(first.block.data)["warp"] == warps
    stored = [[op.node for op in launch.walk() if isinstance(op, StoreOp)] for launch in (first, sums)]
    whole = [[element_type(node) for node in nodes if memref_shape(node) == shape] for nodes in stored]
    assert whole == [[BFloat16Type()], []]
