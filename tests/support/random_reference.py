"""The numbers of `oc.uniform`, by NumPy."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.runtime.random import stream_key, threefry4x32, unit_53_bits


def block(key: str, place: NDArray[np.uint64], counter: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The four words, along the first axis, of each element at a place and a counter."""
    low, bits = np.uint64(2**32 - 1), np.uint64(32)
    halves = [place & low, place >> bits, counter & low, counter >> bits]
    words = np.stack(np.broadcast_arrays(*halves)).astype(np.uint32)
    return threefry4x32(words, stream_key(0, key))


def number(words: NDArray[np.uint32], dtype: Any, second: bool = False) -> NDArray[np.floating]:
    """The first or the second number of each block."""
    own = words[2:] if second else words[:2]
    if np.dtype(dtype) == np.float32:
        return (own[0] >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return unit_53_bits(np.moveaxis(own, 0, -1).reshape(-1)).reshape(own.shape[1:])


def uniform(
    key: str, counter: int, shape: tuple[int, ...], dtype: Any = np.float32, second: bool = False
) -> NDArray[np.floating]:
    place = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    return number(block(key, place, np.array(counter % 2**64, np.uint64)), dtype, second)
