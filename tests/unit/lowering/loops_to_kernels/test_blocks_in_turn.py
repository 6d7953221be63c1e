"""Attention and its gradients as kernels that go through blocks of keys, or of rows, in turn."""

from __future__ import annotations

import numpy as np
import pytest
from support import attention
from support.attention import CASES, HEADS, Array, numbers
from support.cuda_on_cpu import FakeDriver, install
from support.ptx.memory import Counts

import ocannl as oc
from ocannl.dialects.kernel import LaunchOp
from ocannl.lowering.pipelines import parse_text
from ocannl.passes.analysis.memory import byte_size
from ocannl.passes.analysis.nests import functions, nodes
from ocannl.runtime.cuda.ptxas import find_ptxas

NAMES = ("y", "q.grad", "k.grad", "v.grad")


def results(ctx: oc.Context, case: str, keys: int = attention.KEYS) -> tuple[oc.Routine, list[Array]]:
    """The step, the value of attention, and the gradients of queries, keys and values."""
    attend, kv_heads = CASES[case]
    q = attention.leaf("q", numbers(2, 48, HEADS, attention.FEATURES, seed=1))
    k, v = (
        attention.leaf(label, numbers(2, keys, kv_heads, attention.FEATURES, seed=seed))
        for seed, label in enumerate("kv", 2)
    )
    y = attend(q, k, v).named("y")
    zeros = sum((oc.set(p.grad, 0) for p in (q, k, v)), oc.Code())
    step = ctx.compile(oc.forward(y) + zeros + y.backprop, name="step")
    ctx.init_params(y)
    ctx[y.grad] = numbers(2, 48, HEADS, attention.FEATURES, seed=4)
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


@pytest.mark.sampled(4)
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


def test_as_ptx(monkeypatch: pytest.MonkeyPatch):
    """Without bank conflicts."""
    monkeypatch.setattr(attention, "FEATURES", 32)
    driver = FakeDriver()
    driver.counts = Counts()
    install(monkeypatch, driver)
    _, found = results(oc.Context.cuda(), "causal")
    check_equal(found, results(oc.Context.cpu(threads=1), "causal")[1])
    assert not driver.counts.conflicts(looped=True)


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
