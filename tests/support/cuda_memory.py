"""The memory of the stand-in for CUDA: addresses of a GPU are none of the CPU."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray
from support.cuda_handles import Context, CUdeviceptr, CUmemPool_attribute, CUresult, Pool, Stream, cuuint64_t
from support.cuda_queues import OK, Answer, Queues

from ocannl.runtime.memory import aligned_array

# What is added to an address of the CPU to get that of the GPU: no such address can be reached.
FAR = 1 << 62


class DeviceMemory(Queues):
    """The functions of a driver for memory, which are work of streams.

    Attributes:
        most_bytes: the memory of a GPU.
    """

    def __init__(self) -> None:
        super().__init__()
        self.most_bytes = 1 << 40
        self.memory: dict[int, NDArray[np.uint8]] = {}
        self.homes: dict[int, Context] = {}
        self.leaving: set[int] = set()
        self.pool = Pool()

    def cuDeviceGetDefaultMemPool(self, dev: int) -> Answer:
        return CUresult.CUDA_SUCCESS, self.pool

    def cuMemPoolSetAttribute(self, pool: Pool, attr: CUmemPool_attribute, value: cuuint64_t) -> Answer:
        assert isinstance(value, cuuint64_t)
        assert attr == CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        pool.threshold = value
        return OK

    def cuMemAllocAsync(self, bytesize: int, hStream: Stream) -> Answer:
        return self.allocated(bytesize, hStream)

    def cuMemAlloc(self, bytesize: int) -> Answer:
        return self.allocated(bytesize)

    def allocated(self, bytesize: int, *streams: Stream) -> Answer:
        assert bytesize > 0, "a driver refuses to allocate nothing"
        if bytesize > 2**64 - 1:
            raise OverflowError("value too large to convert to size_t")
        self.check(*streams)
        if self.broken:
            return self.broken, None
        if bytesize + sum(map(len, self.memory.values())) > self.most_bytes:
            return CUresult.CUDA_ERROR_OUT_OF_MEMORY, None
        memory = aligned_array((bytesize,), np.uint8, 256).view(np.uint8)
        memory[:] = 0xA5  # new memory has any contents
        address = memory.ctypes.data + FAR
        self.memory[address], self.homes[address] = memory, self.here.context
        return CUresult.CUDA_SUCCESS, CUdeviceptr(address)

    def cuMemFree(self, dptr: int) -> Answer:
        self.check()
        assert not any(stream.waiting for stream in self.alive if isinstance(stream, Stream)), (
            "work may use it"
        )
        del self.memory[dptr]
        return (self.broken,)

    def cuMemFreeAsync(self, dptr: int, hStream: Stream) -> Answer:
        assert dptr in self.memory
        assert dptr not in self.leaving
        self.leaving.add(dptr)

        def free() -> CUresult:
            self.leaving.remove(dptr)
            del self.memory[dptr]
            return CUresult.CUDA_SUCCESS

        return self.enqueue(hStream, free)

    def host(self, address: int, size: int, is_running: bool = False) -> int:
        """The address for the CPU of so many bytes, which are part of one allocation of the current GPU. Its
        memory may be freed after what is running.
        """
        for start, memory in list(self.memory.items()):
            if start <= address and address + size <= start + len(memory):
                assert is_running or start not in self.leaving, "freed memory is used"
                assert is_running or self.homes[start] is self.here.context, "it is that of another GPU"
                return address - FAR
        raise AssertionError(f"{size} bytes at {address:#x} are not those of an allocation")

    def cuMemsetD8Async(self, dstDevice: int, uc: int, N: int, hStream: Stream) -> Answer:
        target = self.host(dstDevice, N)
        return self.enqueue(hStream, lambda: self.done(ctypes.memset(target, uc, N)))

    def cuMemcpyHtoDAsync(self, dstDevice: int, srcHost: int, ByteCount: int, hStream: Stream) -> Answer:
        target = self.host(dstDevice, ByteCount)
        assert not hStream.exchanges, "memory of hosts is not pinned: the copy would wait for other ranks"
        return self.enqueue(hStream, lambda: self.done(ctypes.memmove(target, srcHost, ByteCount)))

    def cuMemcpyDtoHAsync(self, dstHost: int, srcDevice: int, ByteCount: int, hStream: Stream) -> Answer:
        source = self.host(srcDevice, ByteCount)
        assert not hStream.exchanges, "memory of hosts is not pinned: the copy would wait for other ranks"
        return self.enqueue(hStream, lambda: self.done(ctypes.memmove(dstHost, source, ByteCount)))

    def cuMemcpyDtoDAsync(self, dstDevice: int, srcDevice: int, ByteCount: int, hStream: Stream) -> Answer:
        self.host(dstDevice, ByteCount)
        self.host(srcDevice, ByteCount)

        def copy() -> CUresult:
            """The memory must still be there."""
            target, source = (self.host(at, ByteCount, is_running=True) for at in (dstDevice, srcDevice))
            return self.done(ctypes.memmove(target, source, ByteCount))

        return self.enqueue(hStream, copy)

    def cuMemGetInfo(self) -> Answer:
        self.check()
        return *OK, self.most_bytes - sum(map(len, self.memory.values())), self.most_bytes

    def done(self, _: object) -> CUresult:
        return CUresult.CUDA_SUCCESS
