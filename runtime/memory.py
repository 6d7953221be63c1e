"""Host memory of tensor nodes, and the argument blocks of compiled routines."""

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ocannl.dialects.ir.errors import DeviceError
from ocannl.lowering.arena import ALIGNMENT, PADDING

Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def aligned_array(
    shape: tuple[int, ...], dtype: DTypeLike, alignment: int = ALIGNMENT
) -> NDArray[np.generic]:
    """A zeroed C-contiguous array whose first element is at a multiple of `alignment` bytes.

    At least 64 bytes after its end belong to it. Raises `DeviceError` where there is not enough memory.
    """
    element = np.dtype(dtype)
    size = math.prod(shape) * element.itemsize
    try:
        memory = np.zeros(size + alignment + PADDING, np.uint8)
    except (MemoryError, ValueError, OverflowError):
        raise DeviceError(f"{size} bytes for an array of {shape} cannot be had") from None
    start = -memory.ctypes.data % alignment
    return memory[start : start + size].view(element).reshape(shape)


@dataclass(frozen=True, eq=False)
class HostMemory:
    """The memory of an array that the CPU reaches."""

    array: NDArray[Any]

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

    def index(self, slot: int) -> int:
        """The static index in a slot."""
        return self.values[slot]


def bind_call(function: int, args: ArgBlock) -> Callable[[], None]:
    """A callable that runs the compiled `void f(ptr args)` at the address `function` on a block.

    It releases the interpreter lock while the code runs. The caller keeps the code and the block alive.
    """
    return partial(Entry(function), args.address)
