"""Arrays of another library on the GPU of the stand-in for CUDA, which it gives by DLPack."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray
from support.cuda_handles import CUevent_flags, CUresult, CUstream_flags, Event, Stream
from support.cuda_memory import FAR
from support.cuda_on_cpu import FakeDriver

from ocannl.runtime.dlpack import (
    CUDA,
    KINDS,
    PLAIN,
    SMALL,
    VERSIONED,
    Deleter,
    PlainTensor,
    Tensor,
    VersionedTensor,
    new_capsule,
    row_major,
)


class Library:
    """Another library in the same process.

    Attributes:
        given: how many capsules it made, and `returned` the addresses of those that came back.
        knows_versions: whether it has heard of DLPack's.
    """

    def __init__(self, driver: FakeDriver, *, knows_versions: bool = True) -> None:
        self.driver, self.knows_versions = driver, knows_versions
        self.given = 0
        self.returned: list[int] = []
        self.living: dict[int, tuple[object, ...]] = {}
        self.delete = Deleter(self.take_back)

    def take_back(self, address: int) -> None:
        self.returned.append(address)
        self.living.pop(address)

    def array(self, values: NDArray[Any], number: int = 0) -> Any:
        """An array, typed as those of most libraries."""
        return LibraryArray(self, values, number)

    def capsule(
        self,
        address: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        device: tuple[int, int],
        owner: object = None,
        *,
        version: tuple[int, int] | None = None,
        strides: tuple[int, ...] | None = None,
        lanes: int = 1,
        offset: int = 0,
    ) -> Any:
        """A capsule, whose memory has its owner until it comes back."""
        code = SMALL.get(dtype.name, KINDS.get(dtype.kind, 5))
        sizes = (ctypes.c_int64 * len(shape))(*shape)
        steps = (ctypes.c_int64 * len(shape))(*(strides or row_major(shape)))
        tensor = Tensor(address, device, len(shape), code, 8 * dtype.itemsize, lanes, sizes, steps, offset)
        managed = (
            PlainTensor(tensor, None, self.delete)
            if version is None
            else VersionedTensor(version, None, self.delete, 0, tensor)
        )
        at = ctypes.addressof(managed)
        self.living[at] = managed, sizes, steps, owner
        self.given += 1
        return new_capsule(at, PLAIN if version is None else VERSIONED)


class LibraryArray:
    """An array, which a stream of its library writes when its turn has come."""

    def __init__(self, library: Library, values: NDArray[Any], number: int) -> None:
        self.library, self.number = library, number
        driver = library.driver
        self.shape, self.dtype = values.shape, values.dtype
        driver.cuCtxSetCurrent(driver.contexts[number])
        _, self.stream = driver.cuStreamCreate(CUstream_flags.CU_STREAM_NON_BLOCKING)
        _, self.address = driver.cuMemAlloc(max(values.nbytes, 1))
        weakref.finalize(self, driver.memory.pop, int(self.address))
        _, self.written = driver.cuEventCreate(CUevent_flags.CU_EVENT_DISABLE_TIMING)
        assert isinstance(self.written, Event)

        def write() -> CUresult:
            ctypes.memmove(self.address - FAR, values.ctypes.data, values.nbytes)
            return CUresult.CUDA_SUCCESS

        driver.enqueue(self.stream, write)
        driver.cuEventRecord(self.written, self.stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.number

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        if options and not self.library.knows_versions:
            raise TypeError("unexpected keyword argument")
        driver = self.library.driver
        (consumer,) = [s for s in driver.alive if isinstance(s, Stream) and int(s) == stream]
        driver.enqueue(consumer, lambda: CUresult.CUDA_SUCCESS if self.written.has_come else None)
        version = options.get("max_version")
        place = self.__dlpack_device__()
        return self.library.capsule(int(self.address), self.shape, self.dtype, place, self, version=version)

    def cpu(self) -> NDArray[Any]:
        """On the host, when all has been done."""
        driver = self.library.driver
        driver.cuCtxSetCurrent(driver.contexts[self.number])
        driver.cuStreamSynchronize(self.stream)
        return (
            driver.memory[int(self.address)]
            .view(self.dtype)[: np.prod(self.shape, dtype=int)]
            .reshape(self.shape)
        )
