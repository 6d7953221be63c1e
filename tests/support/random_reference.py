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


PI = "243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0 082efa98 ec4e6c89"
ZEROS, ONES = " ".join(["00000000"] * 4), " ".join(["ffffffff"] * 4)

# The known answers that Random123, the implementation of the paper's authors, publishes.
KNOWN_ANSWERS = [
    (13, ZEROS, ZEROS, "531c7e4f 39491ee5 2c855a92 3d6abf9a"),
    (13, ONES, ONES, "c4189358 1c9cc83a d5881c67 6a0a89e0"),
    (13, *PI, "4aa71d8f 734738c2 431fc6a8 ae6debf1"),
    (20, ZEROS, ZEROS, "9c6ca96a e17eae66 fc10ecd4 5256a7d8"),
    (20, ONES, ONES, "2a881696 57012287 f6c7446e a16a6732"),
    (20, *PI, "59cd1dbb b8879579 86b5d00c ac8b6d84"),
    (72, ZEROS, ZEROS, "93171da6 9220326d b392b7b1 ff58a002"),
    (72, ONES, ONES, "60743f3d 9961e684 aab21c34 8c65fb7d"),
]


def word_array(text: str) -> np.ndarray:
    return np.array([int(word, 16) for word in text.split()], np.uint32)
