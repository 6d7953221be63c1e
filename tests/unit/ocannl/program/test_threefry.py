"""Random words of OCANNL in OCaml, and numbers made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc

Words = NDArray[np.uint32]
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def rotated(x: Words, by: int) -> Words:
    return (x << np.uint32(by)) | (x >> np.uint32(32 - by))


def words_of(key: list[int], counter: Words, rounds: int) -> Words:
    """The generator as upstream's C code has it; words are the first axis."""
    keys = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ 0x1BD11BDA]
    x = [c + np.uint32(k) for c, k in zip(counter, keys, strict=False)]
    added = 0
    for n in range(rounds):
        for first, second in (ROTATIONS[n % 2][:2], ROTATIONS[n % 2][2:]):
            x[0] = x[0] + x[1]
            x[1] = rotated(x[1], first) ^ x[0]
            x[2] = x[2] + x[3]
            x[3] = rotated(x[3], second) ^ x[2]
            x[1], x[3] = x[3], x[1]
        if n % 4 == 3 or n == rounds - 1:
            added += 1
            x = [w + np.uint32(keys[(added + i) % 5]) for i, w in enumerate(x)]
            x[3] = x[3] + np.uint32(added)
    return np.stack(x)


def value(t: oc.Tensor) -> NDArray[Any]:
    return np.asarray(oc.Context.cpu(threads=1)[t])


def test_upstreams_stream():
    """The numbers that upstream's tests have for the seed 42 and the counters from 0 on."""
    words = oc.threefry4x32(42, oc.to_uint4x32(oc.data(np.arange(5, dtype=np.int32), axes="b")))
    halves = [0.443, 0.464, 0.673, 0.732, 0.333, 0.561, 0.852, 0.507, 0.378, 0.502, 0.656, 0.966, 0.356]
    found = value(oc.uint4x32_to_prec_uniform(words, np.float16)).ravel()
    np.testing.assert_allclose(found[: len(halves)], halves, atol=6e-4)
    singles = value(oc.uint4x32_to_prec_uniform(words)).ravel()
    np.testing.assert_allclose(singles[:5], [0.4638, 0.7325, 0.5608, 0.5066, 0.5019], atol=5e-5)


@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.exhaustive)])
def test_words_of_any_key_and_counter(rounds: int):
    counter = np.random.default_rng(1).integers(0, 2**32, (4, 9), np.uint32)
    key = [2**32 - 1, 3, 2**31, 12345]
    found = value(oc.threefry4x32(oc.data(np.array(key, np.uint32)), oc.data(counter.T), rounds))
    np.testing.assert_array_equal(found, words_of(key, counter, rounds).T)


def test_the_words_of_a_python_integer():
    counter = np.zeros((4, 1), np.uint32)
    found = value(oc.threefry4x32(-5, oc.data(counter.T)))
    np.testing.assert_array_equal(found, words_of([2**32 - 5, 2**32 - 1, 0, 0], counter, 2).T)


def test_words_of_integers():
    number = 0x12345678
    mixed = [number, number ^ 0x9E3779B9, number ^ 0x6C078965, number ^ 0x56781234]
    for dtype in (np.int32, np.uint32):
        words = oc.to_uint4x32(oc.data(np.array([number], dtype), axes="b"))
        np.testing.assert_array_equal(value(words), [mixed])
    large = oc.to_uint4x32(oc.data(np.array([-2, 2**40 + 7]), axes="b"))
    np.testing.assert_array_equal(value(large), [[2**32 - 2, 2**32 - 1, 0, 0], [7, 256, 0, 0]])
    small = oc.to_uint4x32(oc.data(np.array([200], np.uint8), axes="b"))
    np.testing.assert_array_equal(value(small), [[200, 0, 0, 0]])


WORDS = np.array([[2**32 - 1, 2**31 + 5, 7, 65537]], np.uint32)
PAIRS = [2**63 + (5 << 32) + 2**32 - 1, (65537 << 32) + 7]
BYTES = [255, 255, 255, 255, 5, 0, 0, 128, 7, 0, 0, 0, 1, 0, 1, 0]
SHORTS = [65535, 65535, 5, 32768, 7, 0, 1, 1]
NUMBERS: dict[str, tuple[Any, Any]] = {
    "f32": (np.float32, (WORDS[0] >> 8) / 2**24),
    "f64": (np.float64, [n / 2**64 for n in PAIRS]),
    "f16": (np.float16, np.array(SHORTS, np.float32) / 2**16),
    "bf16": (oc.bfloat16, np.array(SHORTS, np.float32) / 2**16),
    "i32": (np.int32, WORDS[0].view(np.int32)),
    "u32": (np.uint32, WORDS[0]),
    "i64": (np.int64, np.array(PAIRS, np.uint64).view(np.int64)),
    "u16": (np.uint16, SHORTS),
    "u8": (np.uint8, BYTES),
    "i8": (np.int8, np.array(BYTES, np.uint8).view(np.int8)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, oc.bfloat16])
def test_the_greatest_floats(dtype: Any):
    """Only those of float32 stay below 1."""
    words = oc.data(np.full((1, 4), 2**32 - 1, np.uint32))
    greatest = 1 - 2.0**-24 if dtype == np.float32 else 1.0
    assert set(value(oc.uint4x32_to_prec_uniform(words, dtype)).ravel()) == {dtype(greatest)}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_words(name: str):
    dtype, wanted = NUMBERS[name]
    numbers = np.asarray(wanted).astype(dtype)
    words = oc.data(WORDS)
    found = value(oc.uint4x32_to_prec_uniform(words, dtype))
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found[0], numbers)
    np.testing.assert_array_equal(value(oc.uint4x32_to_prec_uniform1(words, dtype)), numbers[:1])


def test_what_are_no_words():
    floats = oc.data(np.zeros((2, 4)), label="x")
    with pytest.raises(oc.ArgumentError, match="2 or 20 rounds, found 13"):
        oc.threefry4x32(1, 1, 13)
    with pytest.raises(oc.ArgumentError, match=r"`x` has float64: oc\.to_uint4x32 makes"):
        oc.threefry4x32(1, floats)
    with pytest.raises(oc.ArgumentError, match="words are made of integers, and `x` has float64"):
        oc.to_uint4x32(floats)
    with pytest.raises(oc.ArgumentError, match="no numbers of float8_e5m2"):
        oc.uint4x32_to_prec_uniform(oc.data(WORDS), oc.float8_e5m2)
    for function in (oc.uint4x32_to_prec_uniform, oc.uint4x32_to_prec_uniform1):
        with pytest.raises(oc.PrecisionError, match="there is no dtype 'flot'"):
            function(oc.data(WORDS), "flot")
    for number in (2**64, -(2**63) - 1):
        with pytest.raises(oc.ArgumentError, match=f"an integer of 64 bits, found {number}"):
            oc.threefry4x32(number, 1)
    with pytest.raises(oc.ShapeError):
        oc.threefry4x32(1, oc.data(np.zeros((2, 3), np.uint32)))
