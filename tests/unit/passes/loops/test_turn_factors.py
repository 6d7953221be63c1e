"""Products of which no factor lies along the sum: one is copied, both of 8 bits, and warpgroups multiply."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.attention import numbers
from support.cuda_on_cpu import FakeDriver, install
from support.ptx.memory import Counts

import ocannl as oc
from ocannl.lowering.loops_to_kernels import tensor_cores
from ocannl.lowering.loops_to_kernels.tensor_cores import TILES, WARPGROUP_TILES
from ocannl.passes.loops import turn_factors

ROWS, COLUMNS = 64, 64
# The sum along one variable, which is split, and along two.
SUMS = {"b": (2048,), "bb": (2, 96)}


def run(ctx: oc.Context, axes: str, dtype: type[np.generic] = np.float32) -> oc.Routine:
    x, g = (
        oc.data(numbers(*SUMS[axes], size, seed=seed).astype(dtype), axes=f"{axes}o", label=label)
        for seed, (label, size) in enumerate((("x", COLUMNS), ("g", ROWS)))
    )
    batch = "ab"[: len(axes)]
    w = oc.einsum(f"{batch}|i; {batch}|o => o|i", *(oc.cast(t, np.float32) for t in (x, g)))
    step = ctx.compile(oc.forward(w), name="step")
    step()
    exact = np.einsum(f"{batch}i,{batch}o->oi", *(np.asarray(ctx[t]).astype(np.float32) for t in (x, g)))
    np.testing.assert_allclose(ctx[w], exact, rtol=0, atol=1e-3 * np.abs(exact).max())
    return step


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch):
    """Lets small factors be copied, and warpgroups multiply them."""
    monkeypatch.setattr(turn_factors, "OF_NONE", math.inf)
    monkeypatch.setattr(tensor_cores, "TILES", TILES[:1])
    monkeypatch.setattr(tensor_cores, "WARPGROUP_TILES", WARPGROUP_TILES[-1:])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("axes", SUMS)
def test_emulated(axes: str):
    step = run(oc.Context.emulated_gpu(arch="sm_90a", tf32=True, check=True), axes)
    text = step.ir("kernels")
    assert text.count("kernel.launch") == (3 if axes == "b" else 2)
    # Copies of what was turned round, those of the other factor are made by threads.
    assert "kernel.copy bulk" in text
    assert "wgmma.mma_async" in step.ptx()


@pytest.mark.exhaustive
def test_factors_of_8_bits():
    step = run(oc.Context.emulated_gpu(arch="sm_90a", check=True), "b", oc.float8_e4m3fn)
    assert step.ir("kernels").count(".turned") == 4
    assert ".e4m3.e4m3" in step.ptx()


@pytest.mark.exhaustive
@pytest.mark.parametrize("axes", SUMS)
def test_as_ptx(axes: str, monkeypatch: pytest.MonkeyPatch):
    driver = FakeDriver()
    driver.capability, driver.counts = (9, 0), Counts()
    install(monkeypatch, driver)
    run(oc.Context.cuda(tf32=True), axes)
    assert not driver.counts.conflicts(looped=True)
