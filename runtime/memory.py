"""Host memory of tensor nodes, and the argument blocks of compiled routines."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.records import dataclass
from ocannl.lowering.arena import ALIGNMENT, COPIED, PADDING, VERSION
from ocannl.runtime import dlpack

Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

UNCOUNTED = np.iinfo(np.int64).min
"""A number of writes that stays below 0 when more are counted."""
assert VERSION + np.dtype(np.int64).itemsize == COPIED


def aligned_array(
    shape: tuple[int, ...], dtype: DTypeLike, alignment: int = ALIGNMENT
) -> NDArray[np.generic]:
    """A zeroed C-contiguous array whose first element is at a multiple of `alignment` bytes.

    At least 64 bytes before its start and after its end belong to it, zeroed. Raises `DeviceError` where
    there is not enough memory.
    """
    element = np.dtype(dtype)
    size = math.prod(shape) * element.itemsize
    try:
        memory = np.zeros(size + alignment - VERSION + PADDING, np.uint8)
    except (MemoryError, ValueError, OverflowError):
        raise DeviceError(f"{size} bytes for an array of {shape} cannot be had") from None
    start = -VERSION + (VERSION - memory.ctypes.data) % alignment
    # A slice of no elements would begin at the start of `memory`.
    return np.ndarray(shape, element, memory, start)


@dataclass(frozen=True, eq=False)
class HostMemory:
    """The memory of an array that the CPU reaches."""

    array: NDArray[Any]
    versions: NDArray[np.int64] | None = None
    """The numbers before it that compiled code reads to know whether copies are stale: `versions[0]` counts
    writes; `versions[1]` is that of the source, if it is itself a copy.
    """

    @staticmethod
    def counted(shape: tuple[int, ...], dtype: DTypeLike) -> HostMemory:
        """Zeroed memory whose writes are counted. Raises `DeviceError`."""
        array = aligned_array(shape, dtype)
        place = (ctypes.c_int64 * 2).from_address(array.ctypes.data + VERSION)
        memory = HostMemory(array, np.ctypeslib.as_array(place))
        memory.changed()
        return memory

    def changed(self) -> None:
        """Notes that somebody has written the array."""
        if self.versions is not None:
            self.versions[0] += 1
            self.versions[1] = 0

    def written_by_others(self) -> None:
        """Notes that from now on somebody may write the array at any time."""
        if self.versions is not None:
            self.versions[0] = UNCOUNTED

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def address(self) -> int:
        return self.array.ctypes.data

    def read(self) -> NDArray[Any]:
        return self.array.copy()

    def write(self, values: ArrayLike) -> None:
        self.array[...] = values
        self.changed()


@dataclass(frozen=True)
class SharedHostMemory:
    """Memory that the CPU reaches, as other libraries take it without a copy: `torch.from_dlpack(a)`,
    `np.from_dlpack(a)`, `np.asarray(a)`.
    """

    memory: HostMemory

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.memory.array.__array_interface__

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU, 0

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule of the memory. Raises `BufferError` where another device or a copy is asked for."""
        memory, device = self.memory, self.__dlpack_device__()
        dlpack.check_request(device, dl_device, copy)
        return dlpack.capsule(memory.address, memory.shape, memory.dtype, device, memory, max_version)


class ArgBlock:
    """The arguments of a compiled routine: 8-byte slots that hold node addresses and static indices.

    The block keeps what its slots point to alive.
    """

    def __init__(self, slots: int):
        self.slots: NDArray[np.int64] = aligned_array((slots,), np.int64).view(np.int64)
        self.address: int = self.slots.ctypes.data
        self.values = self.slots.data
        """The slots as Python's numbers, which are read and written in less time."""
        self._owners: dict[int, object] = {}

    def set_pointer(self, slot: int, array: NDArray[np.generic]) -> None:
        """Makes a slot point to the array's first element."""
        self.set_address(slot, array.ctypes.data, array)

    def set_address(self, slot: int, address: int, owner: object) -> None:
        """Sets the address of memory, which is there as long as its owner."""
        self.slots[slot] = address
        self._owners[slot] = owner

    def owner(self, slot: int) -> object:
        """The owner of the memory of a slot."""
        return self._owners[slot]

    def index(self, slot: int) -> int:
        """The static index in a slot."""
        return self.values[slot]


def bind_call(function: int, args: ArgBlock) -> Callable[[], None]:
    """A callable that runs the compiled `void f(ptr args)` at the address `function` on a block.

    It releases the interpreter lock while the code runs. The caller keeps the code and the block alive.
    """
    return partial(Entry(function), args.address)
