"""Host memory of tensor nodes, and the argument blocks of compiled routines."""

import ctypes
import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ocannl.dialects.errors import DeviceError

ALIGNMENT = 64  # a cache line, and the widest vector
PADDING = 64  # a vector read at the last element stays inside the allocation

Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def aligned_array(
    shape: tuple[int, ...], dtype: DTypeLike, alignment: int = ALIGNMENT
) -> NDArray[np.generic]:
    """A zeroed C-contiguous array whose first element is at a multiple of `alignment` bytes.

    At least 64 bytes after its end belong to it. Raises `DeviceError` where there is not so much memory.
    """
    element = np.dtype(dtype)
    size = math.prod(shape) * element.itemsize
    try:
        memory = np.zeros(size + alignment + PADDING, np.uint8)
    except (MemoryError, ValueError, OverflowError):
        raise DeviceError(f"{size} bytes for an array of {shape} cannot be had") from None
    start = -memory.ctypes.data % alignment
    return memory[start : start + size].view(element).reshape(shape)


class ArgBlock:
    """The arguments of a compiled routine: 8-byte slots that hold node addresses and static indices.

    The block keeps the arrays that its slots point to alive.
    """

    def __init__(self, slots: int):
        self.slots: NDArray[np.int64] = aligned_array((slots,), np.int64).view(np.int64)
        self.address: int = self.slots.ctypes.data
        self._arrays: dict[int, NDArray[np.generic]] = {}

    def set_pointer(self, slot: int, array: NDArray[np.generic]) -> None:
        """Makes a slot point to the array's first element."""
        self.slots[slot] = array.ctypes.data
        self._arrays[slot] = array

    def set_index(self, slot: int, value: int) -> None:
        """Sets a static index."""
        self.slots[slot] = value

    def index(self, slot: int) -> int:
        """The static index in a slot."""
        return int(self.slots[slot])


def bind_call(function: int, args: ArgBlock) -> Callable[[], None]:
    """A callable that runs the compiled `void f(ptr args)` at the address `function` on a block.

    It releases the interpreter lock while the code runs. The caller keeps the code and the block alive.
    """
    return partial(Entry(function), args.address)
