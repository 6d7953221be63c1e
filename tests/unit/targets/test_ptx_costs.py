"""The kernels of the benchmarks as PTX, in an interpreter: what they compute, and what memory costs them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernels import Kernel, kernel, product
from kernels_ocannl import Runs
from support.cuda_on_cpu import FakeDriver, install
from support.ptx.memory import Counts

BLOCKS = (
    *("add", "softmax", "cross_entropy", "transpose", "layer_norm", "gelu", "tanh", "log_softmax"),
    *("rms_norm", "batch_norm"),
)
ROWS = [f"{block}_64x512{suffix}" for block in BLOCKS for suffix in ("", "_backward")]
PRODUCTS = ["gemm_64x96x32", "gemm_tn_128x256x64", "gemm_nt_64x96x32", "gemm_tt_64x96x64", "gemm_1x256x256"]
# Products of attention, and convolutions of few small images, all of whose pixels are rows of tiles.
HEADS = {"b": 2, "h": 2, "i": 32, "j": 32, "d": 32}
OTHERS = {
    "scores": product("bihd,bjhd->bhij", **HEADS),
    "mix": product("bhij,bjhd->bihd", **HEADS),
    "3x3": replace(kernel("conv_16x64x64_3x3"), x=(4, 6, 6, 32), other=(32, 3, 3, 32), y=(4, 6, 6, 32)),
    "1x1": replace(kernel("conv_32x64x256_1x1"), x=(4, 6, 6, 32), other=(64, 1, 1, 32), y=(4, 6, 6, 64)),
}


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
    check_costs(costs(kernel(name), monkeypatch))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", OTHERS)
def test_products_with_more_axes(name: str, monkeypatch: pytest.MonkeyPatch):
    check_costs(costs(OTHERS[name], monkeypatch))


def check_costs(counts: Counts) -> None:
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
