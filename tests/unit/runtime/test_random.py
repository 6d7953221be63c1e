"""The counter-based generator and its distributions."""

from collections.abc import Callable

import numpy as np
import pytest
from support.random_reference import KNOWN_ANSWERS, word_array

from ocannl.lowering.threefry_words import NAME, blocks_at_once, threefry_words
from ocannl.runtime.host.jit import emit_assembly
from ocannl.runtime.host.normal_numbers import PAIRS, compiled_normals
from ocannl.runtime.host.processor import chosen_target, host
from ocannl.runtime.host.random_words import compiled_words
from ocannl.runtime.random import (
    LEAST_COMPILED,
    PART,
    box_muller,
    normal,
    numpy_words,
    stream_key,
    threefry4x32,
    uniform,
    unit_32_bits,
    words,
)

Draw = Callable[..., np.ndarray]

KEY = stream_key(7, "w")


@pytest.mark.parametrize(("rounds", "counter", "key", "answer"), KNOWN_ANSWERS)
def test_known_answers(rounds: int, counter: str, key: str, answer: str):
    found = threefry4x32(word_array(counter), word_array(key), rounds)
    np.testing.assert_array_equal(found, word_array(answer))


def test_many_counters_at_once():
    counter = np.random.default_rng(1).integers(0, 2**32, (4, 3, 5), np.uint32)
    before = counter.copy()
    found = threefry4x32(counter, KEY)
    assert found.shape == (4, 3, 5)
    np.testing.assert_array_equal(found[:, 2, 1], threefry4x32(counter[:, 2, 1], KEY))
    np.testing.assert_array_equal(counter, before)


def test_the_word_stream_counts_from_zero():
    stream = words(KEY, 2 * PART + 6)
    for block in (0, 1, PART // 4, PART // 2):
        expected = threefry4x32(np.array([block, 0, 0, 0], np.uint32), KEY)
        np.testing.assert_array_equal(stream[4 * block : 4 * block + 4], expected)


@pytest.mark.parametrize("blocks", [0, 1, 2 * blocks_at_once(host()) + 3])
@pytest.mark.parametrize("first", [0, 5 * blocks_at_once(host()), 2**32 - blocks_at_once(host())])
def test_compiled_words_are_those_of_numpy(first: int, blocks: int):
    np.testing.assert_array_equal(compiled_words()(KEY, first, blocks), numpy_words(KEY, first, blocks))


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "apple-m2"])
def test_words_are_compiled_for_every_processor(target: str):
    described = chosen_target(target)
    assert NAME in emit_assembly(threefry_words(described), described)


@pytest.mark.parametrize("draw", [uniform, normal])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_many_numbers_are_the_same_numbers(
    draw: Draw, dtype: type[np.floating], threads: str, monkeypatch: pytest.MonkeyPatch
):
    """Of one part by NumPy, and of several by compiled code on some threads."""
    monkeypatch.setenv("OCANNL_THREADS", threads)
    few = draw(KEY, (LEAST_COMPILED // 4,), dtype)
    many = draw(KEY, (2 * PART + 5,), dtype)
    np.testing.assert_array_equal(many[: few.size], few)
    place = many.size - 7
    monkeypatch.setattr("ocannl.runtime.random.compiled_words", lambda: numpy_words)
    np.testing.assert_array_equal(draw(KEY, many.shape, dtype)[place:], many[place:])


@pytest.mark.parametrize("pairs", [0, 1, PAIRS])
def test_compiled_normal_numbers_are_those_of_numpy(pairs: int):
    stream = words(KEY, 2 * pairs)
    expected = box_muller(unit_32_bits(stream))
    # In double precision they are within 3 units in the last place, so that hardly one is rounded otherwise.
    off = compiled_normals()(stream) - expected.astype(np.float32)
    assert np.count_nonzero(off) <= 1
    np.testing.assert_allclose(off, 0, atol=5e-7)


def test_the_largest_normal_numbers_are_compiled_right():
    """The words that are nearest to the ends of both intervals."""
    most = 2**32 - 1
    stream = np.array([[u, v] for u in (0, 1, most) for v in (0, 1, 2**30, 2**31, most)], np.uint32)
    found = compiled_normals()(stream.reshape(-1))
    expected = box_muller(unit_32_bits(stream.reshape(-1)))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-15)


def test_many_normal_numbers_are_the_same_numbers(monkeypatch: pytest.MonkeyPatch):
    few = normal(KEY, (3, 5))
    monkeypatch.setattr("ocannl.runtime.random.LEAST_COMPILED_NORMAL", 1)
    many = normal(KEY, (PART + 5,), np.float32, lambda standard: 2.0 * standard)
    np.testing.assert_allclose(many[:15], 2 * few.reshape(-1), rtol=1e-6)
    np.testing.assert_array_equal(many, normal(KEY, many.shape) * np.float32(2.0))


def test_numbers_are_drawn_in_memory_that_is_given():
    out = np.zeros((3, 5), np.float16)
    found = uniform(KEY, (3, 5), np.float32, lambda unit: 2.0 * unit - 1.0, out)
    assert found is out
    np.testing.assert_array_equal(out, (2.0 * uniform(KEY, (3, 5)) - 1.0).astype(np.float16))


@pytest.mark.parametrize("draw", [uniform, normal])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_element_depends_on_its_index_alone(draw: Draw, dtype: type[np.floating]):
    large = draw(KEY, (5, 7), dtype)
    assert large.dtype == dtype
    assert large.shape == (5, 7)
    np.testing.assert_array_equal(draw(KEY, (11,), dtype), large.reshape(-1)[:11])
    assert draw(KEY, (), dtype) == large[0, 0]
    assert draw(KEY, (0, 3), dtype).shape == (0, 3)


def test_streams_differ_by_seed_and_name():
    keys = [stream_key(1, "w"), stream_key(2, "w"), stream_key(1, "b"), stream_key(2**32 + 1, "w")]
    firsts = [words(key, 8).tobytes() for key in keys]
    assert len(set(firsts)) == 4
    np.testing.assert_array_equal(stream_key(-1, "w"), stream_key(2**64 - 1, "w"))


def test_values_are_the_same_everywhere():
    """The values that other targets have to reproduce."""
    np.testing.assert_array_equal(stream_key(1, "w"), word_array("00000001 00000000 5d9cfa5b 87a766eb"))
    assert uniform(stream_key(1, "w"), (2,)).tolist() == [0.19035011529922485, 0.9709581136703491]
    np.testing.assert_allclose(normal(stream_key(1, "w"), (2,)), [0.63906229, -0.11792494], rtol=1e-7)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_uniform_is_uniform(dtype: type[np.floating]):
    values = uniform(KEY, (200_000,), dtype).astype(np.float64)
    assert values.min() >= 0.0
    assert values.max() < 1.0
    counts, _ = np.histogram(values, bins=64, range=(0.0, 1.0))
    chi_squared = ((counts - 3125.0) ** 2 / 3125.0).sum()
    assert 25 < chi_squared < 120  # 63 degrees of freedom: 5 standard deviations are 56


def test_uniform_has_every_bit_of_its_type():
    assert np.unique(uniform(KEY, (4096,), np.float32) * 2**24 % 2).tolist() == [0.0, 1.0]
    assert np.unique(uniform(KEY, (4096,), np.float64) * 2**53 % 2).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_normal_is_normal(dtype: type[np.floating]):
    values = normal(KEY, (200_001,), dtype).astype(np.float64)
    assert abs(values.mean()) < 0.01
    assert abs(values.var() - 1.0) < 0.02
    assert abs((values**3).mean()) < 0.05
    assert abs((values**4).mean() - 3.0) < 0.1
    inside = [(abs(values) < k).mean() for k in (1, 2, 3)]
    np.testing.assert_allclose(inside, [0.6827, 0.9545, 0.9973], atol=0.005)
    neighbours = np.corrcoef(values[:-1], values[1:])[0, 1]
    assert abs(neighbours) < 0.01


@pytest.mark.parametrize("draw", [uniform, normal])
def test_other_types_are_refused(draw: Draw):
    with pytest.raises(TypeError, match="int32"):
        draw(KEY, (2,), np.int32)
