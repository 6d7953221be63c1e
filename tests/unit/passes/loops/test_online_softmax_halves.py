"""Attention whose operands, scores and results are all floats of 16 bits is one kernel of tensor cores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.attention import Array, numbers
from support.cuda_on_cpu import FakeDriver, install
from support.nests import parse_module
from support.ptx.memory import Counts
from support.tensor_core_kernels import DTYPES

import ocannl as oc
from ocannl import nn
from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.kernel.launch import LaunchOp
from ocannl.dialects.kernel.mma import MmaOp
from ocannl.nn.transformers.attention import SEEN
from ocannl.passes.analysis.nests import functions, nodes
from ocannl.runtime.cuda.ptx import kernel_resources
from ocannl.runtime.cuda.ptxas import find_ptxas

LENGTH, HEADS, FEATURES = 128, 1, 64
# The relative rounding of each type; scores, weights and results are rounded to it.
ROUNDING = {"bf16": 2**-8, "f16": 2**-11}


def operands(element: str) -> list[Array]:
    return [numbers(1, LENGTH, HEADS, FEATURES, seed=seed).astype(DTYPES[element]) for seed in range(3)]


def causal(values: list[Array]) -> oc.Tensor:
    q, k, v = (oc.data(array, axes="bboo", label=label) for label, array in zip("qkv", values, strict=True))
    return nn.dot_product_attention(q, k, v, nn.causal_mask()).named("y")


def reference(values: list[Array]) -> Array:
    """Causal attention in f64."""
    q, k, v = (array.astype(np.float64)[0] for array in values)
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(FEATURES)
    scores[:, *np.triu_indices(LENGTH, 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("hij,jhd->ihd", weights / weights.sum(axis=-1, keepdims=True), v)


def check(ctx: oc.Context, element: str) -> oc.Routine:
    values = operands(element)
    y = causal(values)
    step = ctx.compile(oc.forward(y), name="attention")
    step()
    found = np.asarray(ctx[y])[0]
    assert found.dtype == DTYPES[element]
    bound = 8 * ROUNDING[element]
    np.testing.assert_allclose(found.astype(np.float64), reference(values), rtol=bound, atol=bound)
    return step


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.parametrize("element", ROUNDING)
def test_emulated(element: str):
    """Both products are on tensor cores, no kernel has the scores of all keys, and blocks that the mask hides
    are left out, though it is rounded.
    """
    step = check(oc.Context.emulated_gpu(check=True, shuffle=1), element)
    assert "where 32*key_block" in step.ir("loops")
    module = parse_module(step.ir("kernels"))
    first, *others = (op for op in module.walk() if isinstance(op, LaunchOp))
    # With the mask and without.
    assert sum(isinstance(op, MmaOp) for op in first.walk()) == 2 * 2
    assert not any(isinstance(op, MmaOp) for launch in others for op in launch.walk())
    (func,) = functions(module)
    stored = [memref_shape(node.result) for node in nodes(func) if node.mode.data == "local"]
    assert all(math.prod(shape) < HEADS * LENGTH * LENGTH for shape in stored)


@pytest.mark.exhaustive
def test_as_ptx(monkeypatch: pytest.MonkeyPatch):
    driver = FakeDriver()
    driver.capability, driver.counts = (9, 0), Counts()
    install(monkeypatch, driver)
    step = check(oc.Context.cuda(), "bf16")
    assert "wgmma.mma_async" in step.ptx()
    assert not driver.counts.conflicts(looped=True)


@pytest.mark.exhaustive
@pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas: install nvidia-cuda-nvcc")
def test_what_the_assembler_says():
    ctx = oc.Context.emulated_gpu()
    step = ctx.compile(oc.forward(causal(operands("bf16"))), name="attention")
    module = parse_module(step.ir("kernels"))
    for arch in ("sm_80", "sm_90a"):
        assert not any(found.spilled for found in kernel_resources(module, arch))


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_scores_that_no_cache_holds_are_kept_nowhere(element: str) -> None:
    """Readers of large exponentials compute these themselves, but for attention's."""
    dtype = DTYPES.get(element, np.dtype(np.float32))
    values = [np.broadcast_to(np.zeros((), dtype), (2, 4096, 4, 64)) for _ in range(3)]
    step = oc.Context.cuda(arch="sm_90a", tf32=True).compile(oc.forward(causal(values)), name="attention")
    assert len(step.schedule().splitlines()) == 2  # a title, and one kernel


@pytest.mark.sampled(2)
@pytest.mark.parametrize("added", [False, True], ids=["chosen", "added"])
def test_rows_that_have_seen_only_masked_scores(added: bool) -> None:
    """Masked scores are large, so that their products with a factor are rounded by much more than 1."""
    q, k, v = (
        oc.data(array, axes="bboo", label=label) for label, array in zip("qkv", operands("bf16"), strict=True)
    )
    at, other = np.indices((LENGTH, LENGTH))
    seen = (other > at - 60) & (other <= at) & (other >= 70)
    if added:
        mask = oc.data(
            np.where(seen, 0, np.finfo(np.float32).min).astype(np.float32), axes="bi", label="mask"
        )
        y = nn.dot_product_attention(q, k, v, weights_of=lambda scores: nn.softmax(spec=SEEN)(scores + mask))
    else:
        y = nn.dot_product_attention(q, k, v, oc.data(seen, axes="bi", label="seen"), scale=0.221)
    found = list[Array]()
    for ctx in (oc.Context.emulated_gpu(check=True, arch="sm_90a"), oc.Context.cpu(threads=1)):
        ctx.compile(oc.forward(y), name="attention")()
        found.append(np.asarray(ctx[y]).astype(np.float64))
    np.testing.assert_allclose(*found, rtol=0.02, atol=0.02)
