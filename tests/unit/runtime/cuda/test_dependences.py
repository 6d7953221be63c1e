"""Which kernels wait for which, and that no other order of kernels changes results."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cuda_on_cpu import FakeDriver, install
from support.models import two_layers

import ocannl as oc
from ocannl import nn, train
from ocannl.lowering.kernels.description import Dispatch
from ocannl.runtime.cuda import dependences as module
from ocannl.runtime.cuda.dependences import dependences
from ocannl.runtime.kernel_plan import KernelRun


def kernel(used: list[tuple[int, int, int, bool]]) -> KernelRun:
    """A kernel that uses parts of memory: slot, offset, bytes, and whether it writes."""
    names = [f"b{k}" for k in range(len(used))]
    written = [name for name, (*_, writes) in zip(names, used, strict=True) if writes]
    dispatch = Dispatch("k", 1, 1, 0, names, written, (), False)
    return KernelRun(0, dispatch, tuple((s, at) for s, at, *_ in used), tuple(n for *_, n, _ in used), ())


PARTS = st.tuples(st.integers(0, 1), st.integers(0, 6), st.integers(1, 4), st.booleans())


@given(st.lists(st.lists(PARTS, max_size=3).map(kernel), max_size=8))
def test_kernels_wait_for_all_whose_memory_they_need_and_no_others(runs: list[KernelRun]):
    """By what each waits for, and these in turn; no edge says what others say."""
    needed: list[set[int]] = []
    for number, run in enumerate(runs):
        needed.append({k for k in range(number) if conflict(runs[k], run)})
        needed[-1] |= {k for other in list(needed[-1]) for k in needed[other]}
    found = dependences(runs)
    for number, before in enumerate(found):
        assert set(before) | {k for other in before for k in needed[other]} == needed[number]
        assert not any(a in needed[b] for a in before for b in before)


def conflict(first: KernelRun, second: KernelRun) -> bool:
    return any(
        a[0] == b[0] and set(range(a[1], a[2])) & set(range(b[1], b[2])) and (a[3] or b[3])
        for a in module.uses(first)
        for b in module.uses(second)
    )


def test_many_kernels_run_in_turn(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST_KERNELS", 2)
    assert dependences([kernel([]) for _ in range(3)]) == [[], [0], [1]]


def trained(
    model: Callable[[oc.Tensor], oc.Tensor], driver: FakeDriver
) -> tuple[list[list[float]], list[list[int]]]:
    """The losses of three steps, for each order of kernels, and which of them wait for which."""
    ids = oc.data(np.random.default_rng(0).integers(0, 7, (2, 5)), axes="bb", label="ids")
    loss = nn.cross_entropy(nn.linear(out_dim=7)(model(nn.embedding(num=7, dim=8)(ids))), ids)
    ctx = oc.Context.cuda()
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1), name="step")
    found: list[list[float]] = []
    for driver.choose in (lambda ready: ready[0], lambda ready: ready[-1], random.Random(1).choice):
        ctx.init_params(loss, seed=1, reinit=True)
        found.append([(step(), float(ctx[loss]))[1] for _ in range(3)])
    (before,) = step._executable.program.dependences  # pyright: ignore[reportAttributeAccessIssue]
    return found, before


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    found = FakeDriver()
    install(monkeypatch, found)
    return found


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.parametrize("model", [nn.mlp(hid_dims=[8, 8], out_dim=8), nn.decoder_only(2, 2, 4, 8, 16)])
def test_no_order_that_the_graph_allows_changes_bits(
    model: Callable[[oc.Tensor], oc.Tensor], driver: FakeDriver
):
    found, before = trained(model, driver)
    assert found == found[:1] * 3
    longest: list[int] = []
    for kernels in before:
        longest.append(1 + max((longest[k] for k in kernels), default=0))
    assert max(longest) < 0.9 * len(longest)


def test_indices_and_loops_in_any_order(driver: FakeDriver):
    driver.choose = random.Random(2).choice
    y = two_layers()
    ctx, cpu = oc.Context.cuda(), oc.Context.cpu()
    step, reference = (c.compile(y, name="step") for c in (ctx, cpu))
    ctx.init_params(y)
    for p in oc.params(y).values():
        cpu[p] = ctx[p]
    for i in (1, 0):
        step(i=i)
        reference(i=i)
        np.testing.assert_allclose(ctx[y], cpu[y], rtol=1e-4, atol=1e-5)
