"""Code for architectures of NVIDIA's GPUs: those that are here, older ones, and others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.cuda_handles import CUresult
from support.cuda_on_cpu import FakeDriver, install

import ocannl as oc
from ocannl import nn
from ocannl.dialects.ir.errors import DeviceError

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    found = FakeDriver()
    install(monkeypatch, found)
    return found


def two_layers() -> oc.Tensor:
    x = oc.data(ROWS, label="x")
    return nn.mlp(hid_dims=[4], out_dim=2)(x).named("y")


@pytest.mark.parametrize(
    ("capability", "arch"),
    [
        ((8, 0), "sm_80"),
        ((8, 7), "sm_86"),
        ((9, 0), "sm_90a"),
        ((9, 5), "sm_90"),
        ((12, 1), "sm_120"),
        ((20, 0), "sm_120"),
    ],
)
def test_architectures(driver: FakeDriver, capability: tuple[int, int], arch: str):
    driver.capability = capability
    step = oc.Context.cuda().compile(two_layers(), name="step")
    assert f".target {arch}\n" in step.ptx()


def test_a_gpu_that_is_too_old(driver: FakeDriver):
    driver.capability = 7, 0
    with pytest.raises(
        DeviceError, match=r"Fake GPU has compute capability 7\.0; kernels for sm_80 need 8\.0"
    ):
        oc.Context.cuda()


def test_a_driver_that_is_too_old(driver: FakeDriver):
    driver.version, driver.rejects = 11040, CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    with pytest.raises(DeviceError, match=r"driver is too old for kernels of sm_80: it is for CUDA 11\.4"):
        oc.Context.cuda().compile(two_layers())


def test_code_for_an_older_architecture(driver: FakeDriver):
    """Every GPU runs it, but for that of Hopper's own."""
    driver.capability = 9, 0
    for arch in ("sm_80", "sm_90", "sm_90a"):
        ctx = oc.Context.cuda(0, arch=arch)
        y = two_layers()
        step = ctx.compile(oc.forward(y), name="step")
        assert f".target {arch}\n" in step.ptx()
        ctx.init_params(y)
        step()
        assert ctx[y].shape == (2, 2)
    with pytest.raises(DeviceError, match=r"capability 9\.0; kernels for sm_100 need 10\.0$"):
        oc.Context.cuda(0, arch="sm_100")
    driver.capability = 10, 0
    with pytest.raises(DeviceError, match=r"10\.0; kernels for sm_90a need 9\.0, and no other$"):
        oc.Context.cuda(0, arch="sm_90a")
    with pytest.raises(DeviceError, match="there is no GPU architecture 'sm_9'"):
        oc.Context.cuda(arch="sm_9")


def test_the_setting(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    """It is for GPUs that are here."""
    driver.capability = 9, 0
    monkeypatch.setenv("OCANNL_CUDA_ARCH", "sm_80")
    assert oc.Context("cuda").arch == oc.Context.auto().arch == "sm_80"
    assert oc.Context.cuda(arch="sm_90").arch == "sm_90"
    driver.count = 0
    assert oc.Context.auto().backend == "cpu"
    with pytest.raises(DeviceError, match="finds no GPU"):
        oc.Context.cuda()
    driver.count = 1
    monkeypatch.setenv("OCANNL_CUDA_ARCH", "sm_81")
    with pytest.raises(DeviceError, match="there is no GPU architecture 'sm_81'"):
        oc.Context.cuda()


def test_a_gpu_that_is_not_here(monkeypatch: pytest.MonkeyPatch):
    """Code is compiled for it, and told why it does not run."""
    install(monkeypatch, None)
    ctx = oc.Context.cuda(arch="sm_90a")
    assert repr(ctx) == "<context cuda: no GPU>"
    y = two_layers()
    step = ctx.compile(oc.forward(y), name="step")
    assert ".target sm_90a\n" in step.ptx()
    ctx.init_params(y)
    assert ctx.memory().splitlines()[0].split() == ["node", "bytes"]
    ctx.synchronize()
    message = (
        "code for sm_90a is compiled, and does not run here: CUDA runs through the package cuda-bindings"
    )
    for run in (step, step.run_loop, step.profile):
        with pytest.raises(DeviceError, match=message):
            run()
    with pytest.raises(DeviceError, match="CUDA runs through the package"):
        oc.Context.cuda(0, arch="sm_90a")


def test_a_cache_for_several_architectures(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """It is made without GPUs that run its code; each finds its own in it."""
    monkeypatch.setenv("OCANNL_CACHE", str(tmp_path))
    driver.count = 0
    archs = {"sm_80": (8, 0), "sm_90": (9, 0), "sm_90a": (9, 0), "sm_100": (10, 0)}
    y = two_layers()
    for arch in archs:
        absent = oc.Context.cuda(arch=arch).compile(oc.forward(y), name="step")
        assert "lower-kernels-to-ptx" in absent.compile_seconds
    driver.count = 1
    for arch, driver.capability in archs.items():
        ctx = oc.Context.cuda(arch=None if arch == "sm_90a" else arch)
        step = ctx.compile(oc.forward(y), name="step")
        assert "lower-kernels-to-ptx" not in step.compile_seconds
        ctx.init_params(y)
        step()
        assert ctx[y].shape == (2, 2)
