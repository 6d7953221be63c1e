"""Routines on a Mac, with a stand-in for pyobjc's module: the calls that it gets, and the values read."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from support.metal_on_cpu import COMPILER, FakeBuffer, FakeDevice, install_metal
from support.models import two_layers

import ocannl as oc
from ocannl.dialects.ir.errors import DeviceError, OcannlError
from ocannl.lowering.kernels.description import descriptions
from ocannl.runtime.metal import MetalDevice

NEEDS_COMPILER = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: install clang or g++")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    found = FakeDevice()
    install_metal(monkeypatch, found)
    return found


@NEEDS_COMPILER
def test_calls(device: FakeDevice):
    y = two_layers()
    ctx = oc.Context.metal()
    step = ctx.compile(y, name="step")
    ctx.init_params(y)
    for k in range(2):
        step(i=k)
    assert device.fast_math == [False]
    assert device.texts == [step.metal()]
    (routine,) = descriptions(step.metal())
    assert len(device.runs) == 2
    for k, run in enumerate(device.runs):
        for encoded, kernel in zip(run, routine.kernels, strict=True):
            assert encoded.threadgroups == (kernel.blocks, 1, 1)
            assert encoded.threads == (kernel.threads, 1, 1)
            assert len(encoded.arguments) == len(kernel.buffers) + len(kernel.indices)
            buffers = [encoded.arguments[n] for n in range(len(kernel.buffers))]
            for name, argument in zip(kernel.buffers, buffers, strict=True):
                (buffer,) = (b for b in routine.buffers if b.name == name)
                assert isinstance(argument, tuple)
                assert argument[1] == (buffer.offset or 0)
                assert len(argument[0].memory) >= argument[1] + buffer.bytes
            indices = [encoded.arguments[len(kernel.buffers) + n] for n in range(len(kernel.indices))]
            assert indices == [k.to_bytes(8, sys.byteorder)] * len(kernel.indices)
    assert any(kernel.indices for kernel in routine.kernels)
    assert any(buffer.offset is not None for buffer in routine.buffers)
    cpu = oc.Context.cpu()
    reference = cpu.compile(y, name="step")
    for p in oc.params(y).values():
        cpu[p] = ctx[p]
    reference(i=1)
    np.testing.assert_allclose(ctx[y], cpu[y], rtol=1e-4, atol=1e-5)


@NEEDS_COMPILER
def test_memory_is_shared(device: FakeDevice):
    """Setting and reading memory go to the buffers."""
    p = oc.node("p", output=3)
    ctx = oc.Context.metal()
    ctx[p] = np.array([1, 2, 3], np.float32)
    step = ctx.compile(oc.accumulate(p, "add", oc.constant(2.0), spec="=> o"), name="step")
    step()
    (encoded,) = device.runs[0]
    (argument,) = encoded.arguments.values()
    assert isinstance(argument, tuple)
    assert isinstance(argument[0], FakeBuffer)
    np.testing.assert_array_equal(argument[0].memory.view(np.float32), [3, 4, 5])
    np.testing.assert_array_equal(ctx[p], [3, 4, 5])


@NEEDS_COMPILER
def test_a_compiled_routine_comes_from_the_cache(
    device: FakeDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: object
):
    monkeypatch.setenv("OCANNL_CACHE", str(tmp_path))
    y = two_layers()
    first, again = (oc.Context.metal().compile(y, name="step") for _ in range(2))
    assert "lower-kernels-to-metal" in first.compile_seconds
    assert "lower-kernels-to-metal" not in again.compile_seconds
    assert device.texts == [first.metal()] * 2 == [again.metal()] * 2


@NEEDS_COMPILER
def test_what_goes_wrong_in_a_run(device: FakeDevice):
    i = oc.index("i", 3)
    x = oc.param("x", 1.0, output=3)
    ctx = oc.Context.metal()
    step = ctx.compile(x * i, name="step")
    ctx.init_params(x)
    device.error = "out of memory"
    with pytest.raises(DeviceError, match="Metal could not run the kernels: out of memory"):
        step()
    with pytest.raises(DeviceError, match="out of memory"):
        step.run_loop()
    device.error = None
    step(i=2)
    with pytest.raises(DeviceError, match="no times of single kernels on Metal"):
        step.profile()


@pytest.mark.exhaustive
@NEEDS_COMPILER
@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (FakeDevice(most_threads=1), r"kernel step_n1 has 3 threads, this GPU takes 1"),
        (FakeDevice(width=64), "this GPU has SIMD groups of 64 threads; kernels are for 32"),
    ],
    ids=["threads", "width"],
)
def test_a_gpu_that_is_too_small(limits: FakeDevice, message: str, monkeypatch: pytest.MonkeyPatch):
    install_metal(monkeypatch, limits)
    ctx = oc.Context.metal()
    with pytest.raises(DeviceError, match=message):
        ctx.compile(oc.data(np.ones(3, np.float32), axes="o") * 2, name="step")


def test_text_that_metal_rejects(device: FakeDevice, monkeypatch: pytest.MonkeyPatch):
    def reject(text: str, options: object, error: None) -> tuple[None, str]:
        return None, "no such function"

    monkeypatch.setattr(device, "newLibraryWithSource_options_error_", reject)
    with pytest.raises(DeviceError, match="Metal rejects the kernels: no such function"):
        oc.Context.metal().compile(oc.data(np.ones(3, np.float32), axes="o") * 2)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "Metal", None)
    with pytest.raises(DeviceError, match=r"pip install 'ocannl\[metal\]'.*no module `Metal`"):
        oc.Context.metal()
    monkeypatch.setenv("OCANNL_BACKEND", "metal")
    with pytest.raises(DeviceError, match="Metal runs on a Mac"):
        oc.Context.auto()


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch):
    install_metal(monkeypatch, None)
    with pytest.raises(DeviceError, match="this Mac has no GPU for Metal"):
        oc.Context.metal()


def test_text_from_other_contexts():
    """A routine for the CPU tells its Metal text; f64 is an error that says where."""
    x = oc.data(np.ones((3, 4), np.float32), axes="bo", label="x")
    for ctx in (oc.Context.cpu(), oc.Context.emulated_gpu()):
        step = ctx.compile(oc.exp(x), name="step")
        assert "\nvoid step_exp(\n" in step.metal()
        assert step.ir("metal") == step.metal()
    wide = oc.Context.cpu().compile(oc.exp(oc.data(np.ones(3), axes="o")), name="step")
    with pytest.raises(OcannlError, match=r"test_metal\.py:\d+: kernel 'exp': Metal has no .* f64"):
        wide.metal()


@NEEDS_COMPILER
def test_ids_that_are_no_positions(device: FakeDevice):
    ids = oc.data(np.array([0, 7]), axes="b", label="ids")
    x = oc.data(np.ones((5, 3), np.float32), axes="oo", label="x")
    found = oc.gather("v d; b | => b | d", x, ids, at="v")
    with pytest.raises(OcannlError, match="the id 7 in `ids` is outside of 0 to 4"):
        oc.Context.metal().compile(found)()
    assert device.runs


def test_buffers_live_as_long_as_their_arrays(device: FakeDevice):
    metal = MetalDevice()
    arrays = [metal.array(shape, np.float32) for shape in ((3, 4), (), (0, 2))]
    assert [a.shape for a in arrays] == [(3, 4), (), (0, 2)]
    assert not any(a.any() for a in arrays)
    assert len(metal.buffers) == 3
    part = arrays[0][1:]
    arrays.clear()
    assert list(metal.buffers) == [part.ctypes.data - 16]
