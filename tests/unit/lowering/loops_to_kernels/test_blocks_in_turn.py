"""Attention and its gradients as kernels that go through blocks of keys, or of rows, in turn."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support import attention
from support.attention import CASES, HEADS, Array, numbers
from support.cuda_on_cpu import FakeDriver, install
from support.nests import parse_module, run_compiled
from support.ptx.memory import Counts
from support.ptx.run import run_ptx
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import ocannl as oc
from ocannl.dialects.kernel import LaunchOp
from ocannl.dialects.kernel.mma import MmaOp
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.lowering.loops_to_kernels.lower import LowerLoopsToKernelsPass
from ocannl.lowering.pipelines import parse_text
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import functions, nodes
from ocannl.passes.loops.expand_math import ExpandMathPass
from ocannl.passes.loops.online_softmax.online_softmax import OnlineSoftmaxPass
from ocannl.passes.loops.plan_memory import PlanMemoryPass
from ocannl.runtime.cuda.ptx import kernel_resources, ptx_text
from ocannl.runtime.cuda.ptxas import find_ptxas

NAMES = ("y", "q.grad", "k.grad", "v.grad")


def results(
    ctx: oc.Context, case: str, keys: int = attention.KEYS, rows: int = 48
) -> tuple[oc.Routine, list[Array]]:
    """The step, the value of attention, and the gradients of queries, keys and values."""
    attend, kv_heads = CASES[case]
    q = attention.leaf("q", numbers(2, rows, HEADS, attention.FEATURES, seed=1))
    k, v = (
        attention.leaf(label, numbers(2, keys, kv_heads, attention.FEATURES, seed=seed))
        for seed, label in enumerate("kv", 2)
    )
    y = attend(q, k, v).named("y")
    zeros = sum((oc.set(p.grad, 0) for p in (q, k, v)), oc.Code())
    step = ctx.compile(oc.forward(y) + zeros + y.backprop, name="step")
    ctx.init_params(y)
    ctx[y.grad] = numbers(2, rows, HEADS, attention.FEATURES, seed=4)
    step()
    return step, [np.asarray(ctx[node]) for node in (y, q.grad, k.grad, v.grad)]


def check_equal(found: list[Array], expected: list[Array]) -> None:
    for name, left, right in zip(NAMES, found, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5, err_msg=name)


def in_turn(step: oc.Routine) -> list[LaunchOp]:
    """The kernels that go through blocks."""
    launches = [op for op in parse_text(step.ir("kernels")).walk() if isinstance(op, LaunchOp)]
    return [launch for launch in launches if "row_warp" in launch.block.names]


def local_bytes(step: oc.Routine) -> list[int]:
    """The bytes of the nodes that a step has in memory for itself."""
    (func,) = functions(parse_text(step.ir("kernels")))
    return [byte_size(node) for node in nodes(func) if node.mode.data == "local"]


@pytest.mark.exhaustive
@pytest.mark.sampled(17)
@pytest.mark.parametrize("features", [16, 5, 24])
@pytest.mark.parametrize("case", CASES)
def test_as_on_a_cpu(case: str, features: int, monkeypatch: pytest.MonkeyPatch):
    """With checks for races, blocks and threads in any order; one kernel forward, two backward, no scores."""
    monkeypatch.setattr(attention, "FEATURES", features)
    step, found = results(oc.Context.emulated_gpu(check=True, shuffle=1), case)
    check_equal(found, results(oc.Context.cpu(threads=1), case)[1])
    assert len(in_turn(step)) == 3 or features < 8
    scores = 2 * 48 * HEADS * 192 * 4
    assert all(bytes < scores for bytes in local_bytes(step))


@pytest.mark.exhaustive
def test_as_ptx(monkeypatch: pytest.MonkeyPatch):
    """Without bank conflicts."""
    monkeypatch.setattr(attention, "FEATURES", 32)
    driver = FakeDriver()
    driver.counts = Counts()
    install(monkeypatch, driver)
    _, found = results(oc.Context.cuda(), "causal")
    check_equal(found, results(oc.Context.cpu(threads=1), "causal")[1])
    assert not driver.counts.conflicts(looped=True)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_nothing_is_spilled(arch: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attention, "FEATURES", 64)
    step, _ = results(oc.Context.emulated_gpu(arch=arch), "plain")
    rows = [line for line in step.assemble().splitlines() if "row_warp" in line]
    assert len(rows) == 3
    assert all(row.split()[-1] == "0" for row in rows)


def test_short_sequences_are_left_alone():
    """Scores of a few blocks of keys stay in the caches."""
    step, _ = results(oc.Context.emulated_gpu(), "plain", keys=64)
    assert not in_turn(step)


def in_bf16(length: int, features: int) -> str:
    """Causal attention of f32 scores, whose operands are in bf16, and weights, too."""
    return f"""
loops.func @attention {{
  %q = assign.node "q" constant : memref<{length}x{features}xbf16>
  %k = assign.node "k" constant : memref<{length}x{features}xbf16>
  %v = assign.node "v" constant : memref<{length}x{features}xbf16>
  %s = assign.node "s" local because "intermediate value" : memref<{length}x{length}xf32>
  %m = assign.node "m" local because "intermediate value" : memref<{length}xf32>
  %e = assign.node "e" local because "intermediate value" : memref<{length}x{length}xbf16>
  %l = assign.node "l" local because "intermediate value" : memref<{length}xf32>
  %y = assign.node "y" on_device : memref<{length}x{features}xf32>
  loops.nest "s" (i = {length}, t = {length}) {{
    %key = loops.index t : i32
    %row = loops.index i : i32
    %seen = arith.cmpi sle, %key, %row : i32
    %sum = loops.reduce add (d = {features}) : f32 {{
      %a = loops.load %q[i, d]
      %b = loops.load %k[t, d]
      %aw = arith.extf %a : bf16 to f32
      %bw = arith.extf %b : bf16 to f32
      %p = arith.mulf %aw, %bw : f32
      loops.yield %p
    }}
    %hidden = arith.constant -1.0e+09 : f32
    %score = arith.select %seen, %sum, %hidden : f32
    loops.store %score, %s[i, t]
  }}
  loops.nest "m" (i = {length}) {{
    %most = loops.reduce max (t = {length}) : f32 {{
      %c = loops.load %s[i, t]
      loops.yield %c
    }}
    loops.store %most, %m[i]
  }}
  loops.nest "e" (i = {length}, t = {length}) {{
    %d = loops.load %s[i, t]
    %f = loops.load %m[i]
    %less = arith.subf %d, %f : f32
    %power = math.exp %less : f32
    %weight = arith.truncf %power : f32 to bf16
    loops.store %weight, %e[i, t]
  }}
  loops.nest "l" (i = {length}) {{
    %all = loops.reduce add (t = {length}) : f32 {{
      %g = loops.load %e[i, t]
      %gw = arith.extf %g : bf16 to f32
      loops.yield %gw
    }}
    loops.store %all, %l[i]
  }}
  loops.nest "y" (i = {length}, d = {features}) {{
    %whole = loops.load %l[i]
    %mean = loops.reduce add (t = {length}) : f32 {{
      %h = loops.load %e[i, t]
      %x = loops.load %v[t, d]
      %hw = arith.extf %h : bf16 to f32
      %xw = arith.extf %x : bf16 to f32
      %r = arith.mulf %hw, %xw : f32
      loops.yield %r
    }}
    %result = arith.divf %mean, %whole : f32
    loops.store %result, %y[i, d]
  }}
}}
"""


def lowered_bf16(length: int, features: int) -> ModuleOp:
    module = parse_module(in_bf16(length, features))
    for made in (
        OnlineSoftmaxPass(kernels=True),
        ExpandMathPass(),
        PlanMemoryPass(),
        LowerLoopsToKernelsPass(),
    ):
        made.apply(Context(), module)
    module.verify()
    return module


def attended(arrays: dict[str, Array]) -> Array:
    """The result of NumPy, in f64."""
    q, k, v = (arrays[name].astype(np.float64) for name in "qkv")
    scores = np.where(np.tri(len(q), dtype=bool), q @ k.T, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ v / weights.sum(axis=1, keepdims=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("features", [16, 64])
def test_both_products_are_on_tensor_cores(features: int):
    """In bf16: emulated with checks, and as PTX in the interpreter."""
    module, rng, length = lowered_bf16(128, features), np.random.default_rng(1), 128
    # With the mask and without.
    assert sum(isinstance(op, MmaOp) for op in module.walk()) == 2 * 2
    for run in ("emulated", "ptx"):
        shape = (length, features)
        arrays = {n: rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for n in "qkv"}
        expected = attended(arrays)
        arrays["y"] = np.zeros(shape, np.float32)
        if run == "ptx":
            run_ptx(ptx_text(module, "sm_80"), arrays)
        else:
            run_compiled(module, arrays, emulation=Emulation(shuffle=1, check=True))
        np.testing.assert_allclose(arrays["y"], expected, rtol=2e-2, atol=2e-2)


@pytest.mark.exhaustive
@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_tensor_cores_spill_nothing(arch: str):
    assert all(found.spilled == 0 for found in kernel_resources(lowered_bf16(256, 64), arch))


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.parametrize(("features", "products"), [(16, 12), (64, 14)])
def test_tf32(features: int, products: int, monkeypatch: pytest.MonkeyPatch):
    """Values and gradients with operands rounded to TF32. With few features, too few warps would multiply the
    gradients of keys and values. Turns are there with the mask and without.
    """
    monkeypatch.setattr(attention, "FEATURES", features)
    step, found = results(oc.Context.emulated_gpu(check=True, shuffle=1, tf32=True), "causal", rows=64)
    expected = results(oc.Context.cpu(threads=1), "causal", rows=64)[1]
    for name, left, right in zip(NAMES, found, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-2, atol=1e-2, err_msg=name)
    assert step.ir("kernels").count("kernel.mma") == products
