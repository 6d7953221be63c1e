"""Routines on an NVIDIA GPU, with a stand-in for its driver: the calls that it gets, and the values read."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from support.cuda_handles import CUresult
from support.cuda_on_cpu import FakeDriver, install
from support.device_programs import counted
from support.models import two_layers

import ocannl as oc
from ocannl.dialects.ir.errors import DeviceError, OcannlError
from ocannl.lowering.kernels.description import descriptions
from ocannl.lowering.loops_to_kernels import tensor_cores
from ocannl.runtime import dlpack
from ocannl.runtime.cuda import record
from ocannl.runtime.cuda.gpu import SYNCHRONOUS, CudaMemory, SharedMemory

# What happens when objects go away is tested, too.
pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    found = FakeDriver()
    install(monkeypatch, found)
    return found


def shared_on_gpu(ctx: oc.Context, tensor: oc.Tensor) -> Any:
    """Memory of a GPU as other libraries take it."""
    return ctx.share(tensor)


def test_calls(driver: FakeDriver):
    y = two_layers()
    ctx = oc.Context.cuda()
    step = ctx.compile(y, name="step")
    ctx.init_params(y)
    driver.calls.clear()
    for k in range(2):
        step(i=k)
    assert driver.calls.count("cuGraphLaunch") == 2
    assert not any(name.startswith(("cuMem", "cuLaunch", "cuStream")) for name in driver.calls)
    found = ctx[y]
    (routine,) = descriptions(step.ptx())
    assert len(driver.launched) == 2 * len(routine.kernels)
    for run in range(2):
        for call, kernel in zip(driver.launched[run * len(routine.kernels) :], routine.kernels, strict=False):
            assert call.kernel.name == kernel.function
            assert call.arguments[len(kernel.buffers) :] == (run,) * len(kernel.indices)
    assert any(kernel.indices for kernel in routine.kernels)
    assert any(buffer.offset is not None for buffer in routine.buffers)
    cpu = oc.Context.cpu()
    reference = cpu.compile(y, name="step")
    for p in oc.params(y).values():
        cpu[p] = ctx[p]
    reference(i=1)
    np.testing.assert_allclose(found, cpu[y], rtol=1e-4, atol=1e-5)


def test_kernels_are_told_of_the_indices_that_change(driver: FakeDriver):
    total, n, ctx, step = counted()
    updates: list[int] = []
    for i, k in ((0, 0), (0, 0), (2, 0), (2, 7), (1, 8)):
        before = driver.calls.count("cuGraphExecKernelNodeSetParams")
        step(i=i, n=k)
        updates.append(driver.calls.count("cuGraphExecKernelNodeSetParams") - before)
    assert updates == [0, 0, 1, 1, 2]
    assert driver.calls.count("cuGraphInstantiate") == 1
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(ctx[total], 2 * x[0] + 2 * x[2] + x[1])
    assert step[n] == 8


def test_loops_keep_values_on_the_gpu(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    """As many as there is room for; all of them are those of the CPU."""
    monkeypatch.setattr(record, "KEPT_BYTES", 4 * 5 * 4)
    total, n, ctx, step = counted()
    step[n] = 5
    driver.calls.clear()
    found = step.run_loop(epochs=3, advance=[n], record=[total])[total]
    assert driver.calls.count("cuGraphLaunch") == driver.calls.count("cuMemcpyDtoDAsync") == 9
    assert driver.calls.count("cuMemcpyDtoHAsync") == 3
    assert step[n] == 14
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(found, np.cumsum(np.tile(x, (3, 1)), axis=0))
    np.testing.assert_array_equal(ctx[total], found[-1])


def test_more_shared_memory_than_a_kernel_declares(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tensor_cores, "TILES", tensor_cores.TILES[:1])
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    y = oc.data(w, axes="oi", label="w") @ oc.data(x, axes="bo", label="x")
    ctx = oc.Context.cuda(tf32=True)
    step = ctx.compile(y, name="step")
    step()
    np.testing.assert_allclose(ctx[y], x @ w.T, atol=0.05)
    (routine,) = descriptions(step.ptx())
    assert [kernel.given_shared_bytes for kernel in routine.kernels] == [92160]
    assert driver.calls.count("cuFuncSetAttribute") == 1


def test_values_are_copies(driver: FakeDriver):
    p = oc.node("p", output=3)
    ctx = oc.Context.cuda()
    given = np.array([1, 2, 3], np.float32)
    ctx[p] = given
    given[:] = 0
    step = ctx.compile(oc.accumulate(p, "add", oc.constant(2.0), spec="=> o"), name="step")
    first = ctx[p]
    step()
    np.testing.assert_array_equal(first, [1, 2, 3])
    np.testing.assert_array_equal(ctx[p], [3, 4, 5])
    ctx[p] = 7
    np.testing.assert_array_equal(ctx[p], [7, 7, 7])


def test_all_is_given_back(driver: FakeDriver):
    y = two_layers()
    ctx = oc.Context.cuda()
    assert driver.pool.threshold == 2**64 - 1
    step = ctx.compile(y, name="step")
    ctx.init_params(y)
    step()
    step.profile(runs=1)
    assert driver.memory
    del ctx, step
    gc.collect()
    assert not driver.alive
    assert not driver.memory
    assert not driver.context.retained


def test_a_gpu_without_memory_pools(driver: FakeDriver):
    """As virtual ones: memory is freed when all that may use it is done."""
    driver.has_pools = False
    total, _, ctx, step = counted()
    step(i=1)
    np.testing.assert_array_equal(ctx[total], np.arange(5, 10))
    step()
    del ctx, step
    gc.collect()
    assert not driver.memory
    assert not any("Async" in name for name in driver.calls if name.startswith(("cuMemAlloc", "cuMemFree")))


def test_what_another_thread_drops_is_given_back(driver: FakeDriver):
    """That thread has no current GPU of its own."""
    holder = [counted()]

    def drop() -> None:
        holder.clear()
        gc.collect()

    thread = threading.Thread(target=drop)
    thread.start()
    thread.join()
    assert not driver.alive
    assert not driver.context.retained


def test_what_python_collects_leaves_the_current_gpu(driver: FakeDriver):
    """It may interrupt another library, at any time."""
    driver.count = 2
    y = two_layers()
    ctx = oc.Context.cuda(1)
    step = ctx.compile(y, name="step")
    ctx.init_params(y)
    step()
    other = oc.Context.cuda(0)
    del ctx, step
    gc.collect()
    assert driver.here.context is driver.contexts[0]
    assert not driver.contexts[1].retained
    other.synchronize()


def test_memory_is_shared_where_it_lies(driver: FakeDriver):
    """Others get the address on the GPU, after all runs; nothing is copied."""
    x = oc.data(np.arange(6, dtype=np.float32).reshape(2, 3), axes="bo")
    ctx, y = oc.Context.cuda(), oc.node("y", batch=2, output=3)
    step = ctx.compile(oc.set(y, 2 * x), name="step")
    with pytest.raises(oc.UninitializedError):
        ctx.share(y)
    step()
    driver.calls.clear()
    found = shared_on_gpu(ctx, y).__cuda_array_interface__
    assert driver.calls == ["cuCtxSetCurrent", "cuStreamSynchronize"]
    assert (found["shape"], found["typestr"], found["version"]) == ((2, 3), "<f4", 3)
    address, is_read_only = found["data"]
    assert not is_read_only
    np.testing.assert_array_equal(driver.memory[address].view(np.float32), 2 * np.arange(6))


def test_dlpack_of_a_gpu(driver: FakeDriver):
    """The capsule says where the memory is, on which GPU, after all runs; and keeps it alive."""
    driver.count = 2
    ctx, y = oc.Context.cuda(1), oc.node("y", batch=2, output=3)
    ctx[y] = np.arange(6).reshape(2, 3)
    shared = shared_on_gpu(ctx, y)
    assert shared.__dlpack_device__() == (2, 1)
    driver.calls.clear()
    capsule = shared.__dlpack__()
    assert driver.calls == ["cuCtxSetCurrent", "cuStreamSynchronize"]
    (tensor,) = (found.tensor for found, *_, owner in dlpack._living.values() if owner is shared.memory)
    assert tensor.data == shared.__cuda_array_interface__["data"][0]
    assert tuple(tensor.device) == (2, 1)
    assert (tensor.code, tensor.bits, tensor.shape[:2], tensor.strides[:2]) == (2, 32, [2, 3], [3, 1])
    del capsule
    assert not any(owner is shared.memory for *_, owner in dlpack._living.values())


def test_arrays_on_the_gpu_are_copied_there(driver: FakeDriver):
    """An array of another library does not pass through the host, if nothing is converted."""
    ctx, y, z, w = oc.Context.cuda(), *(oc.node(label, output=3) for label in "yzw")
    ctx[y], ctx[w] = np.arange(3), np.zeros(3)
    driver.calls.clear()
    ctx[z] = shared_on_gpu(ctx, y)
    assert "cuMemcpyDtoDAsync" in driver.calls
    assert "cuMemcpyHtoDAsync" not in driver.calls
    assert "cuMemcpyDtoHAsync" not in driver.calls
    np.testing.assert_array_equal(ctx[z], np.arange(3))


def test_memory_of_a_gpu_is_told(driver: FakeDriver):
    driver.most_bytes = 1000
    ctx, y = oc.Context.cuda(), oc.node("y", output=30)
    ctx[y] = np.arange(30)
    head, row, total = ctx.memory().splitlines()
    assert head.split() == ["node", "bytes"]
    assert row.split() == ["y", "120"]
    assert total == "120 bytes; 880 of 1000 bytes of Fake GPU are free"


def test_what_is_not_shared(driver: FakeDriver):
    halves = oc.Context.cuda().device.memory((3,), oc.bfloat16)
    assert isinstance(halves, CudaMemory)
    with pytest.raises(AttributeError, match="has no bfloat16"):
        _ = SharedMemory(halves).__cuda_array_interface__


def test_arrays_without_elements(driver: FakeDriver):
    p = oc.node("p", output=3)
    ctx = oc.Context.cuda()
    memory = ctx.device.memory((0, 3), np.float32)
    memory.write(np.empty((0, 3)))
    assert memory.read().shape == (0, 3)
    ctx.compile(oc.Code(), name="nothing")()
    assert p not in ctx


def test_a_compiled_routine_comes_from_the_cache(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: object
):
    monkeypatch.setenv("OCANNL_CACHE", str(tmp_path))
    y = two_layers()
    first, again = (oc.Context.cuda().compile(y, name="step") for _ in range(2))
    assert "lower-kernels-to-ptx" in first.compile_seconds
    assert "lower-kernels-to-ptx" not in again.compile_seconds
    assert first.ptx() == again.ptx()
    driver.capability = 9, 0
    newer = oc.Context.cuda().compile(y, name="step")
    assert "lower-kernels-to-ptx" in newer.compile_seconds
    assert ".target sm_90a\n" in newer.ptx()


def test_other_threads(driver: FakeDriver):
    total, _, ctx, step = counted()
    found: list[float] = []

    def run() -> None:
        step(i=1)
        found.extend(ctx[total])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("event_time", [0.0, 0.0625])
def test_profile(driver: FakeDriver, event_time: float):
    """The time of events is none of kernels."""
    driver.event_time = event_time
    total, _, ctx, step = counted()
    step(i=1)
    head, *rows = step.profile(runs=3).splitlines()
    assert head.split()[-1] == "time"
    assert [row.split()[-2:] for row in rows] == [["250.00", "us"]] * len(rows)
    step(i=1)
    np.testing.assert_array_equal(ctx[total], 2 * np.arange(5, 10))


def test_ids_that_are_no_positions(driver: FakeDriver):
    ids = oc.data(np.array([0, 7]), axes="b", label="ids")
    x = oc.data(np.ones((5, 3), np.float32), axes="oo", label="x")
    found = oc.gather("v d; b | => b | d", x, ids, at="v")
    step = oc.Context.cuda().compile(found)
    with pytest.raises(OcannlError, match="the id 7 in `ids` is outside of 0 to 4"):
        step()
    with pytest.raises(OcannlError, match="the id 7 in `ids` is outside of 0 to 4"):
        step.run_loop()


# What goes wrong while kernels run.


def test_a_kernel_that_fails_is_told_later(driver: FakeDriver):
    total, _, ctx, step = counted()
    driver.fails = {"step_count": CUresult.CUDA_ERROR_ILLEGAL_ADDRESS}
    step()
    step()
    message = (
        r"the GPU failed: illegal address \(CUDA_ERROR_ILLEGAL_ADDRESS\); routines that ran: 'step'; "
        "with OCANNL_CUDA_SYNC=1 in the environment, it names its kernel. "
        "This process cannot use the GPU any more"
    )
    with pytest.raises(DeviceError, match=message):
        _ = ctx[total]
    with pytest.raises(DeviceError, match=r"cuGraphLaunch failed: illegal address"):
        step()
    with pytest.raises(DeviceError, match="illegal address"):
        ctx[total] = 0
    with pytest.raises(DeviceError, match="illegal address"):
        step.run_loop()
    with pytest.raises(DeviceError, match="cuStreamCreate failed: illegal address"):
        oc.Context.cuda()


def test_kernels_one_by_one(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(SYNCHRONOUS, "1")
    total, _, ctx, step = counted()
    step(i=1)
    np.testing.assert_array_equal(ctx[total], np.arange(5, 10))
    assert "cuGraphLaunch" not in driver.calls
    driver.fails = {"step_count": CUresult.CUDA_ERROR_ILLEGAL_ADDRESS}
    with pytest.raises(DeviceError, match="kernel step_count failed: illegal address") as raised:
        step()
    assert SYNCHRONOUS not in str(raised.value)


def test_a_launch_that_is_refused(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    def refuse(*arguments: object) -> tuple[CUresult, None]:
        return CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, None

    *_, step = counted()
    monkeypatch.setattr(driver, "cuGraphAddKernelNode", refuse)
    with pytest.raises(DeviceError, match=r"kernel step_\w+ cannot run: launch out of resources"):
        step()


def test_memory_that_cannot_be_had(driver: FakeDriver):
    driver.most_bytes = 1 << 20
    big, bigger = oc.node("big", output=2**19), oc.node("bigger", output=2**62)
    ctx = oc.Context.cuda()
    small = oc.node("small", output=2**16)
    ctx[small] = 0
    message = (
        r"2097152 bytes cannot be had on Fake GPU: out of memory \(.*\); they are for `big`; "
        "of this context's nodes these have the most bytes: `small` 262144$"
    )
    with pytest.raises(DeviceError, match=message):
        ctx[big] = 0
    driver.most_bytes = 262144 + 4
    with pytest.raises(DeviceError, match="they are for the arena of routine 'sum'"):
        ctx.compile(oc.forward(small.sum()), name="sum")
    driver.most_bytes = 1 << 20
    with pytest.raises(DeviceError, match="18446744073709551616 bytes cannot be had on Fake GPU"):
        ctx[bigger] = 0


# What is missing, or too old.


def test_without_the_package(monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, None)
    with pytest.raises(DeviceError, match=r"pip install 'ocannl\[cuda\]'.*no module `cuda.bindings`"):
        oc.Context.cuda()
    assert oc.Context.auto().backend == "cpu"
    monkeypatch.setenv("OCANNL_BACKEND", "cuda")
    with pytest.raises(DeviceError, match="CUDA runs through the package"):
        oc.Context.auto()


def test_without_a_driver(driver: FakeDriver):
    driver.starts = RuntimeError("Failed to dlopen libcuda.so.1")
    with pytest.raises(DeviceError, match="no NVIDIA driver here: install") as told:
        oc.Context.cuda()
    assert "Failed to dlopen libcuda" in str(told.value.__cause__)
    assert oc.Context.auto().backend == "cpu"


def test_a_driver_that_does_not_start(driver: FakeDriver):
    driver.starts = CUresult.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
    with pytest.raises(DeviceError, match="NVIDIA driver does not start: system driver mismatch"):
        oc.Context.cuda()
    driver.starts = ValueError("1234 is not a valid CUresult")
    with pytest.raises(DeviceError, match="NVIDIA driver does not start: 1234 is not a valid CUresult"):
        oc.Context.cuda()


@pytest.mark.parametrize("starts", [CUresult.CUDA_ERROR_NO_DEVICE, CUresult.CUDA_SUCCESS])
def test_without_a_gpu(driver: FakeDriver, starts: CUresult):
    driver.starts, driver.count = starts, 0
    with pytest.raises(DeviceError, match="finds no GPU; CUDA_VISIBLE_DEVICES may hide it"):
        oc.Context.cuda()
    assert oc.Context.auto().backend == "cpu"


def test_the_best_device(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OCANNL_BACKEND")
    ctx = oc.Context.auto()
    assert ctx.backend == "cuda"
    assert repr(ctx) == "<context cuda: Fake GPU>"


@pytest.mark.parametrize(("count", "what"), [(1, "GPU 0 only"), (3, "GPUs 0 to 2")])
def test_gpus_by_number(driver: FakeDriver, count: int, what: str):
    text: Any = "0"
    driver.count = count
    assert oc.Context.cuda(count - 1).backend == "cuda"
    with pytest.raises(DeviceError, match=f"there is no GPU {count}: this machine has {what}"):
        oc.Context.cuda(count)
    with pytest.raises(ValueError, match="the number of a GPU is at least 0"):
        oc.Context.cuda(-1)
    with pytest.raises(TypeError, match="the number of a GPU is an integer"):
        oc.Context.cuda(text)


def test_a_function_that_the_driver_has_not(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    def missing(*arguments: object) -> None:
        raise RuntimeError('Function "cuGraphInstantiate" not found')

    *_, step = counted()
    monkeypatch.setattr(driver, "cuGraphInstantiate", missing)
    message = (
        r"""Function "cuGraphInstantiate" not found; the driver is for CUDA 12\.8: pip install 'cuda-b"""
    )
    with pytest.raises(DeviceError, match=message):
        step()


def test_text_that_the_driver_rejects(driver: FakeDriver):
    driver.rejects, driver.log = CUresult.CUDA_ERROR_INVALID_PTX, b"ptxas fatal: no such instruction\0"
    with pytest.raises(DeviceError, match=r"rejects the kernels: invalid ptx \(.*\)\nptxas fatal: no such"):
        oc.Context.cuda().compile(two_layers())
