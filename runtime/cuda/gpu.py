"""An NVIDIA GPU: its memory, and the stream in which all copies and launches of a context are, in order."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.kernel.gpu import WARPGROUP_ARCH
from ocannl.dialects.records import dataclass
from ocannl.runtime import dlpack
from ocannl.runtime.cuda.driver import NO_GPU, CudaError, Driver
from ocannl.runtime.cuda.ptx import ARCHS, check_arch
from ocannl.runtime.foreign import Foreign, device_of, received
from ocannl.runtime.settings import is_on

# The pool keeps all memory that is freed, for what is allocated next.
KEPT_BYTES = 2**64 - 1
# Errors of kernels: the driver reports them at some later call, and fails all others from then on.
KERNEL_ERRORS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_LAUNCH_TIMEOUT",
}
SYNCHRONOUS = "OCANNL_CUDA_SYNC"


class Gpu:
    """The GPU of a number, in the order of the driver, with `arch` the architecture that PTX is written for.

    Launches and copies go to one stream. With `OCANNL_CUDA_SYNC=1` in the environment, each kernel is
    launched alone, and waited for. Raises `DeviceError` where there is no such GPU, or it is too old.
    """

    def __init__(self, number: int = 0) -> None:
        self.driver = driver = Driver()
        self.number = number
        self.is_synchronous = is_on("cuda_sync")
        self.running: dict[str, None] = {}
        """The names of the routines that were launched since the stream was last waited for."""
        self.before_waiting: Callable[[], None] = do_nothing
        """Waits for other ranks of a mesh, which may be lost: waits for the stream itself have no end."""
        self.handle = find_device(driver, number)
        self.name: str = self.ask("cuDeviceGetName", 128, self.handle).split(b"\0", 1)[0].decode()
        self.arch = arch_of(self.name, self.capability())
        self.context: Any = self.ask("cuDevicePrimaryCtxRetain", self.handle)
        self.enter()
        self.stream: Any = self.ask("cuStreamCreate", driver.api.CUstream_flags.CU_STREAM_NON_BLOCKING.value)
        weakref.finalize(self, close, driver, self.handle, self.context, self.stream)
        self.has_pools = self.keeps_freed_memory()

    def ask(self, function: str, *arguments: Any) -> Any:
        """The result of a function of the driver that should not fail."""
        return self.call(f"{function} failed", function, *arguments)

    def call(self, failure: str, function: str, *arguments: Any) -> Any:
        """The result of a function of the driver. Raises `DeviceError` that begins with `failure`; the reason
        may be an earlier kernel.
        """
        try:
            return self.driver.call(failure, function, *arguments)
        except CudaError as error:
            raise self.explained(error) from None

    def enter(self) -> None:
        """Makes the GPU that of this thread, as other libraries may have chosen another."""
        self.ask("cuCtxSetCurrent", self.context)

    def for_now(self) -> AbstractContextManager[Any]:
        """A context in which the GPU is that of this thread, for what runs whenever Python collects garbage:
        the code that is interrupted keeps its own. It gives the functions of the driver.
        """
        return current(self.driver, self.context)

    def capability(self) -> tuple[int, int]:
        """The compute capability."""
        attributes = self.driver.api.CUdevice_attribute
        major, minor = (
            self.ask("cuDeviceGetAttribute", attribute, self.handle)
            for attribute in (
                attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        return int(major), int(minor)

    def keeps_freed_memory(self) -> bool:
        """Whether the GPU has memory pools, as virtual ones have not. Its own then keeps what is freed."""
        api = self.driver.api
        pools = api.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
        if not self.ask("cuDeviceGetAttribute", pools, self.handle):
            return False
        pool = self.ask("cuDeviceGetDefaultMemPool", self.handle)
        threshold = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        self.ask("cuMemPoolSetAttribute", pool, threshold, api.cuuint64_t(KEPT_BYTES))
        return True

    def memory(self, shape: tuple[int, ...], dtype: DTypeLike) -> CudaMemory:
        """Zeroed memory of the GPU. Raises `DeviceError` where there is not enough."""
        return CudaMemory(self, shape, np.dtype(dtype))

    def received(self, values: object) -> CudaMemory | None:
        """A copy of an array of another library, if that is on this GPU; None for all others."""
        self.enter()
        found = self.found(values)
        if found is None:
            return None
        memory = CudaMemory(self, found.shape, found.dtype)
        memory.take(found.address)
        return memory

    def found(self, values: object) -> Foreign | Described | None:
        """An array of another library where it lies, if that is on this GPU, in row-major order; what the
        stream does from now on comes after what the library has been asked for.
        """
        place = device_of(values)
        if place is None:
            described = Described.of(values)
            if described is not None:
                # The other library may have written it in a stream of its own.
                self.ask("cuCtxSynchronize")
            return described
        if place not in ((dlpack.CUDA, self.number), (dlpack.CUDA_MANAGED, self.number)):
            return None
        try:
            return received(values, int(self.stream))
        except (BufferError, RuntimeError):
            return None  # It is read as others are, by way of the host, which says why where that fails.

    def free_bytes(self) -> tuple[int, int]:
        """The bytes of the GPU that are free, and all that it has. What its pool keeps is not free."""
        self.enter()
        free, whole = self.driver.results("cuMemGetInfo failed", "cuMemGetInfo")
        return int(free), int(whole)

    def allocate(self, size: int) -> int:
        """The address of new memory of `size` bytes, which are zero. Raises `DeviceError`."""
        self.enter()
        failure = f"{size} bytes cannot be had on {self.name}"
        function, where = ("cuMemAllocAsync", [self.stream]) if self.has_pools else ("cuMemAlloc", [])
        address = int(self.call(failure, function, max(size, 1), *where))
        self.ask("cuMemsetD8Async", address, 0, max(size, 1), self.stream)
        return address

    def free(self, address: int) -> None:
        """Frees memory after all earlier launches. Its errors are those of an earlier call, which has raised
        them.
        """
        with self.for_now() as api:
            if self.has_pools:
                api.cuMemFreeAsync(address, self.stream)
            else:
                api.cuStreamSynchronize(self.stream)
                api.cuMemFree(address)

    def read(self, address: int, array: NDArray[Any]) -> None:
        """Reads as many bytes as a C-contiguous array has, after all launches. Raises `DeviceError`."""
        self.before_waiting()
        self.enter()
        if array.nbytes:
            arguments = array.ctypes.data, address, array.nbytes, self.stream
            self.call("the GPU cannot be read", "cuMemcpyDtoHAsync", *arguments)
        self.synchronize()

    def synchronize(self, failure: str = "the GPU failed") -> None:
        """Waits for all launches. Raises `DeviceError` for errors since the last time."""
        self.before_waiting()
        self.enter()
        self.call(failure, "cuStreamSynchronize", self.stream)
        self.running.clear()

    def explained(self, error: CudaError) -> CudaError:
        """An error; where it is one of a kernel, with the routines that may have it."""
        if error.code not in KERNEL_ERRORS:
            return error
        ran = f"; routines that ran: {', '.join(map(repr, self.running))}" if self.running else ""
        how = "" if self.is_synchronous else f"; with {SYNCHRONOUS}=1 in the environment, it names its kernel"
        return CudaError(f"{error}{ran}{how}. This process cannot use the GPU any more", error.code)


class CudaMemory:
    """An array in the memory of a GPU. Reading and writing wait for all that was launched before."""

    def __init__(self, device: Gpu, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.device = device
        self.shape = shape
        self.dtype = dtype
        self.bytes = math.prod(shape) * dtype.itemsize
        self.address = device.allocate(self.bytes)
        weakref.finalize(self, device.free, self.address)

    def read(self) -> NDArray[Any]:
        found = np.empty(self.shape, self.dtype)
        self.read_into(found)
        return found

    def read_into(self, array: NDArray[Any]) -> None:
        """Reads as many bytes as a C-contiguous array has, from the start."""
        self.device.read(self.address, array)

    def write(self, values: ArrayLike) -> None:
        device = self.device
        device.before_waiting()
        device.enter()
        host = np.empty(self.shape, self.dtype)
        host[...] = values
        if host.nbytes:
            arguments = self.address, host.ctypes.data, host.nbytes, device.stream
            device.call("the GPU cannot be written", "cuMemcpyHtoDAsync", *arguments)
        device.synchronize()

    def copy(self, values: object) -> bool:
        """Copies an array of another library that is on this GPU, if it has the shape and the type of this
        one; returns whether it has.
        """
        self.device.enter()
        found = self.device.found(values)
        if found is None or (found.shape, found.dtype) != (self.shape, self.dtype):
            return False
        self.take(found.address)
        return True

    def take(self, address: int) -> None:
        """Copies as many bytes as it has from an address of this GPU, and waits: the memory there may go."""
        self.device.enter()
        self.device.before_waiting()
        if self.bytes:
            arguments = self.address, address, self.bytes, self.device.stream
            self.device.call("the GPU cannot be written", "cuMemcpyDtoDAsync", *arguments)
        self.device.synchronize()


def do_nothing() -> None:
    """Nothing, as a GPU that talks to no other waits for its own work alone."""


@dataclass(frozen=True)
class Described:
    """An array on a GPU whose library says only where it is (`__cuda_array_interface__`)."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @staticmethod
    def of(values: object) -> Described | None:
        """The array, if it is one in row-major order."""
        found = getattr(values, "__cuda_array_interface__", None)
        if found is None or found.get("strides") is not None or found.get("mask") is not None:
            return None
        return Described(found["data"][0], tuple(found["shape"]), np.dtype(found["typestr"]))


@dataclass(frozen=True)
class SharedMemory:
    """Memory of a GPU in row-major order, as other libraries take it without a copy: they ask for DLPack
    (`torch.from_dlpack(a)`) or for `__cuda_array_interface__` (`cupy.asarray(a)`), and keep this object.
    """

    memory: CudaMemory

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.memory.device.number

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule of the memory, when all earlier launches have ended: any stream may use it. Raises
        `DeviceError` for their errors, `BufferError` where another device or a copy is asked for.
        """
        memory, device = self.memory, self.__dlpack_device__()
        dlpack.check_request(device, dl_device, copy)
        memory.device.synchronize()
        return dlpack.capsule(memory.address, memory.shape, memory.dtype, device, memory, max_version)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The description of the memory, when all earlier launches have ended. Raises `DeviceError` for their
        errors, `AttributeError` for numbers that the interface has not, such as bf16.
        """
        memory = self.memory
        if memory.dtype.kind not in "biuf":
            raise AttributeError(f"the CUDA array interface has no {memory.dtype}")
        memory.device.synchronize()
        address = memory.address if memory.bytes else 0
        return {"shape": memory.shape, "typestr": memory.dtype.str, "data": (address, False), "version": 3}


def find_device(driver: Driver, number: int) -> Any:
    """The GPU of a number. Raises `DeviceError`, with the numbers that there are."""
    count = count_devices(driver)
    if not count:
        raise DeviceError(NO_GPU)
    if not 0 <= number < count:
        found = "GPU 0 only" if count == 1 else f"GPUs 0 to {count - 1}"
        raise DeviceError(f"there is no GPU {number}: this machine has {found}")
    return driver.call(f"GPU {number} cannot be used", "cuDeviceGet", number)


def count_devices(driver: Driver) -> int:
    """The number of GPUs that this process sees."""
    return int(driver.call(NO_GPU, "cuDeviceGetCount"))


def arch_of(name: str, capability: tuple[int, int]) -> str:
    """The newest architecture whose PTX a GPU takes. Raises `DeviceError` where it is too old for all."""
    taken = [arch for arch in ARCHS if runs(capability, arch)]
    if not taken:
        check_runs(name, capability, ARCHS[0])
    return taken[-1]


def runs(capability: tuple[int, int], arch: str) -> bool:
    """Whether a GPU runs code for an architecture: that of older ones, and of its own."""
    major, minor = capability
    number = 10 * major + minor
    if arch == WARPGROUP_ARCH:
        return arch == f"sm_{number}a"
    return int(arch.removeprefix("sm_")) <= number


def check_runs(name: str, capability: tuple[int, int], arch: str) -> None:
    """Raises `DeviceError` where a GPU does not run code for an architecture, or there is no such one."""
    check_arch(arch)
    if not runs(capability, arch):
        major, minor = capability
        number = int(arch.removeprefix("sm_").removesuffix("a"))
        needed = f"{number // 10}.{number % 10}{', and no other' if arch == WARPGROUP_ARCH else ''}"
        raise DeviceError(f"{name} has compute capability {major}.{minor}; kernels for {arch} need {needed}")


def close(driver: Driver, handle: Any, context: Any, stream: Any) -> None:
    """Releases a stream and the GPU, in whichever thread. Its errors are those of an earlier call, which has
    raised them.
    """
    with current(driver, context) as api:
        api.cuStreamDestroy(stream)
    api.cuDevicePrimaryCtxRelease(handle)


@contextmanager
def current(driver: Driver, context: Any) -> Generator[Any]:
    driver.api.cuCtxPushCurrent(context)
    try:
        yield driver.api
    finally:
        driver.api.cuCtxPopCurrent()
