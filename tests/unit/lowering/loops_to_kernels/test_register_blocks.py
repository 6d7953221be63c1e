"""Attention on tensor cores as kernels whose scores stay in the registers of warps."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
import support.attention
from support.attention import CASES, KEYS, QUERIES, Array, leaf, numbers
from support.cuda_on_cpu import FakeDriver, install
from support.ptx.memory import Counts
from xdsl.context import Context
from xdsl.dialects import arith

import ocannl as oc
from ocannl import nn
from ocannl.dialects.kernel import BarrierOp, CopyOp, LaunchOp, WhereOp
from ocannl.dialects.kernel.launch import SharedOp
from ocannl.dialects.kernel.mma import MmaOp
from ocannl.lowering.loops_to_kernels.lower import LowerLoopsToKernelsPass
from ocannl.lowering.pipelines import parse_text
from ocannl.runtime.cuda.ptxas import find_ptxas

LENGTH, HEADS, FEATURES = 256, 2, 32
# How far results are from those of a CPU, relative to the greatest: rounded operands, and exact ones.
TOLERANCES = {"halves": 5e-5, "mixed": 2e-2, "tf32": 4e-3}
# Results of 16 bits may be neighbours.
NEIGHBOURS = {"halves": 2**-7}
# The kernels whose scores are in registers, forward and with gradients: products of two types have others.
KERNELS = {"mixed": (1, 3), "halves": (1, 1), "tf32": (1, 3)}


def layer(ctx: oc.Context) -> tuple[oc.Routine, list[oc.Tensor]]:
    """The gradients of the parameters of a layer whose products are in bf16, and its softmax in f32."""
    x = oc.data(numbers(1, LENGTH, HEADS * FEATURES, seed=1), label="x", axes="bbo")
    with oc.precision(oc.float32, compute=oc.bfloat16):
        y = nn.decoder_only(1, HEADS, FEATURES, FEATURES, 64)(x)
    loss = (oc.cast(y, oc.float32) ** 2).sum()
    results = oc.grad(loss, list(oc.params(loss).values()))
    step = ctx.compile(sum((oc.forward(result) for result in results), oc.Code()), name="step")
    ctx.init_params(loss, seed=1)
    return step, results


def attention(ctx: oc.Context, kind: str, gradients: bool) -> tuple[oc.Routine, list[oc.Tensor]]:
    """Causal attention, or the gradients of its squares: all in bf16 but for sums, with weights in f32, or
    with products of TF32.
    """
    dtype = np.float32 if kind == "tf32" else ml_dtypes.bfloat16
    arrays = [numbers(1, LENGTH, HEADS, FEATURES, seed=seed).astype(dtype) for seed in range(3)]
    if kind == "mixed":
        leaves = [oc.data(array, axes="bboo", label=n) for array, n in zip(arrays, "qkv", strict=True)]
    else:
        leaves = [oc.node(n, batch=(1, LENGTH), output=(HEADS, FEATURES), dtype=dtype) for n in "qkv"]
        for node, array in zip(leaves, arrays, strict=True):
            ctx[node] = array
    q, k, v = leaves
    y = nn.dot_product_attention(q, k, v, nn.causal_mask())
    y = oc.cast(y, oc.float32)
    results = oc.grad((y * y).sum(), leaves) if gradients else [y]
    return ctx.compile(sum((oc.forward(result) for result in results), oc.Code()), name="step"), results


def values(ctx: oc.Context, step: oc.Routine, results: list[oc.Tensor]) -> list[Array]:
    """Those of results, by a run."""
    step()
    return [np.asarray(ctx[result]).astype(np.float32) for result in results]


def check_near(found: list[Array], kind: str, gradients: bool) -> None:
    ctx = oc.Context.cpu(threads=1)
    expected = values(ctx, *attention(ctx, kind, gradients))
    for left, right in zip(found, expected, strict=True):
        most = TOLERANCES[kind] * np.abs(right).max()
        np.testing.assert_allclose(left, right, rtol=NEIGHBOURS.get(kind, 0), atol=most)


def in_registers(step: oc.Routine) -> list[LaunchOp]:
    launches = [op for op in parse_text(step.ir("kernels")).walk() if isinstance(op, LaunchOp)]
    return [launch for launch in launches if "quarter" in launch.block.names]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", TOLERANCES)
@pytest.mark.parametrize("gradients", [True, False])
def test_as_on_a_cpu(kind: str, gradients: bool):
    """With checks for races; one barrier a turn, and shared memory has only what is copied."""
    ctx = oc.Context.emulated_gpu(check=True, shuffle=1, tf32=kind == "tf32")
    step, results = attention(ctx, kind, gradients)
    check_near(values(ctx, step, results), kind, gradients)
    launches = in_registers(step)
    assert len(launches) == KERNELS[kind][gradients]
    # What is summed up is divided in the same kernel.
    assert gradients or step.ir("kernels").count("kernel.launch") == 1
    for launch in launches:
        assert sum(isinstance(op, BarrierOp) for op in launch.walk()) == 1
        assert sum(isinstance(op, MmaOp) for op in launch.walk()) >= 2
        # Blocks of keys that all rows see have no mask.
        bodies = [op.body.block for op in launch.walk() if isinstance(op, WhereOp)]
        versions = [body for body in bodies if any(isinstance(op, arith.MulfOp) for op in body.ops)]
        masks = [sum(isinstance(op, arith.CmpiOp) for op in body.ops) for body in versions]
        assert len(masks) == 2
        assert masks[0] == 0 < masks[1]
        written = {op.target for op in launch.walk() if isinstance(op, CopyOp)}
        assert all(op.result in written for op in launch.walk() if isinstance(op, SharedOp))


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["mixed", "tf32"])
def test_as_ptx(kind: str, monkeypatch: pytest.MonkeyPatch):
    """Without bank conflicts."""
    monkeypatch.setitem(globals(), "HEADS", 1)
    driver = FakeDriver()
    driver.counts = Counts()
    install(monkeypatch, driver)
    ctx = oc.Context.cuda(tf32=kind == "tf32")
    check_near(values(ctx, *attention(ctx, kind, True)), kind, True)
    assert not driver.counts.conflicts(looped=True)


@pytest.mark.exhaustive
@pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas: install nvidia-cuda-nvcc")
@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("kind", "arch", "features"),
    [(kind, arch, 64) for arch in ("sm_90a", "sm_90", "sm_80") for kind in ("mixed", "tf32", "layer")]
    + [pytest.param("layer", "sm_90a", 128, marks=pytest.mark.exhaustive)],
)
def test_nothing_is_spilled(kind: str, arch: str, features: int, monkeypatch: pytest.MonkeyPatch):
    """By few turns neither, as they are not written one after the other."""
    monkeypatch.setitem(globals(), "FEATURES", features)
    ctx = oc.Context.cuda(arch=arch, tf32=kind == "tf32")
    step, _ = layer(ctx) if kind == "layer" else attention(ctx, kind, True)
    assert arch != "sm_90a" or ("wgmma.mma_async" in step.ptx()) == (kind != "tf32")
    rows = [line for line in step.assemble().splitlines() if " quarter=4" in line]
    assert len(rows) == (2 if kind == "tf32" and arch != "sm_90a" else 3)
    assert all(row.split()[-1] == "0" for row in rows)


@pytest.mark.exhaustive
def test_layer():
    gpu, cpu = oc.Context.emulated_gpu(check=True, shuffle=1), oc.Context.cpu(threads=1)
    step, results = layer(gpu)
    assert len(in_registers(step)) == 3
    for left, right in zip(values(gpu, step, results), values(cpu, *layer(cpu)), strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=6e-2 * np.abs(right).max())


@pytest.mark.exhaustive
def test_scores_of_16_bits_are_not_rounded():
    """Large ones in bf16 would have errors of a sixteenth, which exponentials pass on."""
    q, k, v = (numbers(1, LENGTH, 1, FEATURES, seed=seed).astype(ml_dtypes.bfloat16) for seed in range(3))
    q = (8 * q.astype(np.float32)).astype(ml_dtypes.bfloat16)
    ctx = oc.Context.emulated_gpu()
    leaves = [oc.data(array, axes="bboo") for array in (q, k, v)]
    with oc.precision(oc.float32, compute=oc.bfloat16):
        y = nn.dot_product_attention(leaves[0], leaves[1], leaves[2], nn.causal_mask())
    step = ctx.compile(oc.forward(y), name="step")
    step()
    assert len(in_registers(step)) == 1
    # The factors of the second product, with the mask and without, and the results.
    assert step.ir("kernels").count("arith.truncf") == 3
    wide = [a[0, :, 0].astype(np.float64) for a in (q, k, v)]
    scores = np.where(np.tri(LENGTH) > 0, wide[0] @ wide[1].T / np.sqrt(FEATURES), -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    exact = weights @ wide[2] / weights.sum(1, keepdims=True)
    found = np.asarray(ctx[y]).astype(np.float64)[0, :, 0]
    assert np.abs(scores[np.isfinite(scores)]).max() > 8
    np.testing.assert_allclose(found, exact, rtol=0, atol=2**-8 * np.abs(exact).max())


@pytest.mark.exhaustive
def test_results_that_other_blocks_still_read_over():
    """A nest after the group is part of its kernel, unless it stores to what blocks read."""
    step, _ = attention(oc.Context.cuda(arch="sm_80", tf32=True), "tf32", gradients=False)
    text = step.ir("loops")
    result = re.findall(r"loops.store %\w+, (%\w+)\[", text)[-1]
    for target, launches in ((result, 1), ("%v", 2)):
        module = parse_text(re.sub(rf"(loops.store %\w+), {result}\[", rf"\1, {target}[", text))
        LowerLoopsToKernelsPass(tf32=True).apply(Context(), module)
        module.verify()
        assert sum(isinstance(op, LaunchOp) for op in module.walk()) == launches


@pytest.mark.exhaustive
def test_wide_heads_have_room_in_shared_memory(monkeypatch: pytest.MonkeyPatch):
    """Where tiles of 128 features are too large, blocks have scores in shared memory."""
    monkeypatch.setitem(globals(), "FEATURES", 128)
    step, _ = attention(oc.Context.cuda(arch="sm_80", tf32=True), "tf32", gradients=True)
    assert "sm_80" in step.ptx("sm_80")


@pytest.mark.exhaustive
@pytest.mark.sampled(13)
@pytest.mark.parametrize("case", CASES)
def test_masks_and_groups_of_heads(case: str):
    """Also dropout and caps; with checks for races."""

    def gradients(ctx: oc.Context) -> tuple[oc.Routine, list[Array]]:
        attend, heads = CASES[case]
        q = leaf("q", numbers(2, QUERIES, support.attention.HEADS, 16, seed=1))
        k, v = (leaf(n, numbers(2, KEYS, heads, 16, seed=seed)) for seed, n in enumerate("kv", 2))
        loss = (attend(q, k, v) ** 2).sum()
        results = oc.grad(loss, [q, k, v])
        step = ctx.compile(sum((oc.forward(result) for result in results), oc.Code()), name="step")
        ctx.init_params(loss)
        step()
        return step, [np.asarray(ctx[result]) for result in results]

    step, found = gradients(oc.Context.emulated_gpu(check=True, shuffle=1, tf32=True))
    assert len(in_registers(step)) >= 2
    for left, right in zip(found, gradients(oc.Context.cpu(threads=1))[1], strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=4e-3 * np.abs(right).max())
