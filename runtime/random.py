"""Counter-based random numbers: element k of an array depends on the seed, the stream's name and k alone.

The output words of Threefry-4x32 (`ocannl.dialects.scalar.threefry`) of the counters (0, 0, 0, 0),
(1, 0, 0, 0), ... of a key, one after another, are its word stream; the first counter word is the low one.
Every target can compute them, at any k, in parallel.
"""

import math

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ocannl.dialects.scalar import threefry

Words = NDArray[np.uint32]

BLOCKS_AT_A_TIME = 1 << 14  # 256 KiB of state stays in the cache


class InPlace:
    """The arithmetic of NumPy's words, which overwrites them."""

    def add(self, word: Words, constant: int) -> Words:
        word += np.uint32(constant)
        return word

    def mix(self, a: Words, b: Words, rotation: int) -> tuple[Words, Words]:
        a += b
        high = b << np.uint32(rotation)
        b >>= np.uint32(32 - rotation)
        b |= high
        b ^= a
        return a, b


def threefry4x32(counter: Words, key: Words, rounds: int = threefry.ROUNDS) -> Words:
    """Threefry-4x32 of many counters.

    Args:
        counter: uint32, shape (4, ...): word i of every counter is `counter[i]`.
        key: uint32, shape (4,).
        rounds: how many; the word stream has 20.

    Returns:
        uint32, the shape of `counter`: the four output words of each counter.
    """
    state = counter.astype(np.uint32)
    state_words = [state[i : i + 1] for i in range(4)]
    threefry.threefry4x32(state_words, [int(word) for word in key], InPlace(), rounds)
    return state


def stream_key(seed: int, name: str) -> Words:
    """The key, uint32 of shape (4,), of the stream `name` under a seed, which counts modulo 2**64."""
    return np.array(threefry.key_words(seed, name), np.uint32)


def words(key: Words, count: int) -> Words:
    """The first `count` words of the key's word stream: uint32, shape (count,)."""
    blocks = -(-count // 4)
    stream = np.empty((blocks, 4), np.uint32)
    for start in range(0, blocks, BLOCKS_AT_A_TIME):
        part = stream[start : start + BLOCKS_AT_A_TIME]
        part[:] = threefry4x32(counters(start, len(part)), key).T
    return stream.reshape(-1)[:count]


def counters(start: int, count: int) -> Words:
    """The counters from `start` on: uint32, shape (4, count)."""
    index = np.arange(start, start + count, dtype=np.uint64)
    counter = np.zeros((4, count), np.uint32)
    counter[0] = index & np.uint64(0xFFFFFFFF)
    counter[1] = index >> np.uint64(32)
    return counter


def uniform(key: Words, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[np.floating]:
    """Random numbers uniform in [0, 1), an array of `shape`.

    Element k has, for float32, the upper 24 bits of word k; for float16, its upper 11 bits; for float64,
    53 bits of words 2k and 2k + 1.

    Raises:
        TypeError: `dtype` is another type.
    """
    count = math.prod(shape)
    match np.dtype(dtype):
        case np.float64:
            values = unit_53_bits(words(key, 2 * count))
        case np.float32:
            values = (words(key, count) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
        case np.float16:
            values = (words(key, count) >> np.uint32(21)).astype(np.float16) * np.float16(2.0**-11)
        case other:
            raise TypeError(f"no random numbers of type {other}: use float16, float32 or float64")
    return values.reshape(shape)


def unit_53_bits(stream: Words) -> NDArray[np.float64]:
    """Numbers in [0, 1): the upper 27 bits of each even word, then the upper 26 of the odd one."""
    high = (stream[0::2] >> np.uint32(5)).astype(np.float64)
    low = (stream[1::2] >> np.uint32(6)).astype(np.float64)
    return (high * 2.0**26 + low) * 2.0**-53


def normal(key: Words, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[np.floating]:
    """Random numbers of the standard normal distribution, an array of `shape`.

    Box-Muller: elements 2j and 2j + 1 are `sqrt(-2 ln(1 - u))` times the cosine and the sine of `2 pi v`.
    Here u and v in [0, 1) are words 2j and 2j + 1 over 2**32; for float64, 53 bits of words 4j to 4j + 3.
    The arithmetic is float64, rounded last, so that hardly a float32 depends on the platform's functions.

    Raises:
        TypeError: `dtype` is not float16, float32 or float64.
    """
    count = math.prod(shape)
    pairs = -(-count // 2)
    match np.dtype(dtype):
        case np.float64:
            unit = unit_53_bits(words(key, 4 * pairs))
        case np.float32 | np.float16:
            unit = words(key, 2 * pairs).astype(np.float64) * 2.0**-32
        case other:
            raise TypeError(f"no random numbers of type {other}: use float16, float32 or float64")
    return box_muller(unit).astype(dtype)[:count].reshape(shape)


def box_muller(unit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pairs of normal numbers from pairs of uniform ones: shape (2 n,), neighbours are a pair."""
    radius = np.sqrt(-2.0 * np.log1p(-unit[0::2]))
    angle = 2.0 * np.pi * unit[1::2]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1).reshape(-1)
