"""Counter-based random numbers: element k of an array depends on the seed, the stream's name and k alone.

The output words of Threefry-4x32 (`ocannl.dialects.scalar.threefry`) of the counters (0, 0, 0, 0),
(1, 0, 0, 0), ... of a key, one after another, are its word stream; the first counter word is the low one.
Every target can compute them, at any k, in parallel.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ocannl.dialects.scalar import threefry
from ocannl.runtime.host.normal_numbers import PAIRS, compiled_normals
from ocannl.runtime.host.random_words import compiled_words
from ocannl.runtime.host.threads import default_threads

Words = NDArray[np.uint32]
Numbers = NDArray[Any]
Elementwise = Callable[[Numbers], Numbers]

# The numbers that are drawn at a time, which stay in the cache with what they are made of; a multiple of the
# numbers of a block.
PART = 2 * PAIRS
# For fewer words, and fewer normal numbers, it takes longer to load compiled code than NumPy takes for them.
LEAST_COMPILED = 1 << 15
LEAST_COMPILED_NORMAL = 1 << 20


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


def counters(start: int, count: int) -> Words:
    """The counters from `start` on: uint32, shape (4, count)."""
    index = np.arange(start, start + count, dtype=np.uint64)
    counter = np.zeros((4, count), np.uint32)
    counter[0] = index & np.uint64(0xFFFFFFFF)
    counter[1] = index >> np.uint64(32)
    return counter


def numpy_words(key: Words, first: int, blocks: int) -> Words:
    """The words of some blocks of the key's word stream, from block `first` on, by NumPy."""
    return np.ascontiguousarray(threefry4x32(counters(first, blocks), key).T).reshape(-1)


def same(numbers: Numbers) -> Numbers:
    return numbers


def words(key: Words, count: int) -> Words:
    """The first `count` words of the key's word stream: uint32, shape (count,)."""
    return drawn(key, (count,), np.dtype(np.uint32), 1, same, None)


def uniform(
    key: Words,
    shape: tuple[int, ...],
    dtype: DTypeLike = np.float32,
    then: Elementwise = same,
    out: Numbers | None = None,
) -> Numbers:
    """Random numbers uniform in [0, 1), and `then` a function of each: an array of `shape`, in contiguous
    memory `out` if that is given.

    Element k has, for float32, the upper 24 bits of word k; for float16, its upper 11 bits; for float64,
    53 bits of words 2k and 2k + 1.

    Raises:
        TypeError: `dtype` is another type.
    """
    of_type = float_type(dtype)
    if of_type == np.float64:
        return drawn(key, shape, of_type, 2, lambda words: then(unit_53_bits(words)), out)
    return drawn(key, shape, of_type, 1, lambda words: then(upper_bits(words, of_type)), out)


def float_type(dtype: DTypeLike) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(dtype)
    if found.type not in (np.float16, np.float32, np.float64):
        raise TypeError(f"no random numbers of type {found}: use float16, float32 or float64")
    return found


def upper_bits(stream: Words, dtype: np.dtype[Any]) -> Numbers:
    """Numbers in [0, 1): the upper bits of each word, as many as the float's fraction has and one."""
    bits = 1 + np.finfo(dtype).nmant
    return (stream >> np.uint32(32 - bits)).astype(dtype) * dtype.type(2.0**-bits)


def unit_32_bits(stream: Words) -> NDArray[np.float64]:
    """Numbers in [0, 1): all bits of each word."""
    return stream.astype(np.float64) * 2.0**-32


def unit_53_bits(stream: Words) -> NDArray[np.float64]:
    """Numbers in [0, 1): the upper 27 bits of each even word, then the upper 26 of the odd one."""
    high = (stream[0::2] >> np.uint32(5)).astype(np.float64)
    low = (stream[1::2] >> np.uint32(6)).astype(np.float64)
    return (high * 2.0**26 + low) * 2.0**-53


def normal(
    key: Words,
    shape: tuple[int, ...],
    dtype: DTypeLike = np.float32,
    then: Elementwise = same,
    out: Numbers | None = None,
) -> Numbers:
    """Random numbers of the standard normal distribution, and `then` a function of each: an array of `shape`,
    in contiguous memory `out` if that is given.

    Box-Muller: elements 2j and 2j + 1 are `sqrt(-2 ln(1 - u))` times the cosine and the sine of `2 pi v`.
    Here u and v in [0, 1) are words 2j and 2j + 1 over 2**32; for float64, 53 bits of words 4j to 4j + 3.
    The arithmetic is float64, rounded last, so that hardly a float32 depends on the functions: of many
    float32 they are compiled, and otherwise the platform's.

    Raises:
        TypeError: `dtype` is not float16, float32 or float64.
    """
    of_type = float_type(dtype)
    if of_type == np.float64:
        return drawn(key, shape, of_type, 2, lambda words: then(box_muller(unit_53_bits(words))), out)
    if of_type == np.float32 and math.prod(shape) >= LEAST_COMPILED_NORMAL:
        compiled = compiled_normals()
        return drawn(key, shape, of_type, 1, lambda words: then(compiled(words)), out)

    def numbers_of(words: Words) -> Numbers:
        return then(box_muller(unit_32_bits(words)).astype(of_type))

    return drawn(key, shape, of_type, 1, numbers_of, out)


def box_muller(unit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pairs of normal numbers from pairs of uniform ones: shape (2 n,), neighbours are a pair."""
    radius = np.sqrt(-2.0 * np.log1p(-unit[0::2]))
    angle = 2.0 * np.pi * unit[1::2]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1).reshape(-1)


def drawn(
    key: Words,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    words_each: int,
    numbers_of: Callable[[Words], Numbers],
    out: Numbers | None,
) -> Numbers:
    """An array of numbers that are made of `words_each` words each of the key's word stream, part by part, on
    all threads. `numbers_of` makes those of some whole blocks; it may take no lock that the caller holds.
    """
    result = np.empty(shape, dtype) if out is None else out
    flat = result.reshape(-1)
    words_of = compiled_words() if words_each * flat.size >= LEAST_COMPILED else numpy_words

    def draw(start: int) -> None:
        part = flat[start : start + PART]
        blocks = -(-part.size * words_each // 4)
        part[:] = numbers_of(words_of(key, start * words_each // 4, blocks))[: part.size]

    starts = range(0, flat.size, PART)
    threads = min(default_threads(), len(starts))
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(draw, starts))
    else:
        for start in starts:
            draw(start)
    return result
