"""The kernels of the benchmarks as PTX, in an interpreter: what they compute, and what memory costs them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernels import Kernel, kernel
from kernels_ocannl import Runs
from support.cuda_on_cpu import FakeDriver, install
from support.ptx.memory import Counts

BLOCKS = (
    *("add", "softmax", "cross_entropy", "transpose", "layer_norm", "gelu", "tanh", "log_softmax"),
    *("rms_norm", "batch_norm"),
)
ROWS = [f"{block}_64x512{suffix}" for block in BLOCKS for suffix in ("", "_backward")]
PRODUCTS = ["gemm_64x96x32", "gemm_tn_128x256x64"]


def costs(found: Kernel, monkeypatch: pytest.MonkeyPatch) -> Counts:
    """Those of a run, whose results are close to those of the CPU."""
    driver = FakeDriver()
    driver.counts = Counts()
    install(monkeypatch, driver)
    gpu, cpu = Runs(found, "cuda"), Runs(found, "cpu")
    gpu.first()
    cpu.first()
    wanted, values = cpu.values(), gpu.values()
    close = 2**-7 if found.precision == "bf16" else 1e-5
    for name, array in wanted.items():
        np.testing.assert_allclose(values[name], array, rtol=close, atol=close * np.max(np.abs(array)))
    return driver.counts


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", [*ROWS, *PRODUCTS])
def test_memory_is_used_well(name: str, monkeypatch: pytest.MonkeyPatch):
    """Nothing waits for a bank of shared memory in a loop, and what moves fills whole sectors."""
    counts = costs(kernel(name), monkeypatch)
    assert not counts.conflicts(looped=True)
    assert not counts.partial()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["gemm_nt_64x96x32_bf16", "gemm_128x128x64_bf16"])
def test_results_of_16_bits(name: str, monkeypatch: pytest.MonkeyPatch):
    """A fragment has 8 columns: a store of them fills half a sector, and the next one the other half."""
    counts = costs(kernel(name), monkeypatch)
    assert not counts.conflicts(looped=True)
    for text, cost in counts.partial().items():
        assert "st.global" in text
        assert cost.taken == 2 * cost.least


@pytest.mark.exhaustive
@pytest.mark.parametrize("backward", [False, True])
def test_a_convolution(backward: bool, monkeypatch: pytest.MonkeyPatch):
    name = "convolution_backward" if backward else "convolution"
    small = replace(kernel(name), x=(3, 14, 14, 6), y=(3, 14, 14, 16))
    costs(small, monkeypatch)
