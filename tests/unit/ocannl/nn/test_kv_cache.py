"""Attention with a cache of keys and values, against attention to all positions at once."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn
from ocannl.program.indexing.id_checks import least_wrong

LEAST = "ocannl.program.indexing.indexed_axes.least_wrong"
RNG = np.random.default_rng(5)
X = RNG.normal(size=(2, 9, 8)).astype(np.float32)


def attention(**how: Any):
    return nn.multi_head_attention(num_heads=4, num_kv_heads=2, d_k=4, d_v=6, out_dim=8, **how)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("rotate", [False, True])
@pytest.mark.parametrize("steps", [[1] * 9, [4, 1, 1, 3]])
def test_positions_in_turn_are_those_at_once(rotate: bool, steps: list[int]):
    ctx, cache = oc.Context.cpu(), nn.kv_cache(length=16)
    how = {"pos_embed": nn.rotary() if rotate else None, "init": oc.init.normal(std=0.5)}
    kept = attention(cache=cache, **how)
    plain = attention(**how)
    wanted = oc.function(lambda x: plain(x, nn.causal_mask()), ctx)(X)
    step = oc.function(lambda x: kept(x), ctx)
    for _ in range(2):
        ends = np.cumsum(steps)[:-1]
        found = np.concatenate([step(part) for part in np.split(X, ends, 1)], 1)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        ctx.compile(cache.reset())()


@pytest.mark.exhaustive
def test_a_cache_has_memory_for_each_size_of_batch_and_block():
    cache = nn.kv_cache(length=4, dtype=oc.bfloat16)
    first, second = attention(cache=cache), attention(cache=cache)
    step = oc.function(lambda x: second(first(x)))
    step(X[:, :1])
    step(X[:1, :1])
    assert len(cache.kept) == 4
    assert {kept.keys.dtype for kept in cache.kept.values()} == {np.dtype(oc.bfloat16)}
    assert {tuple(kept.values.shape) for kept in cache.kept.values()} == {(2, 4, 2, 6), (1, 4, 2, 6)}


def test_sequences_may_be_at_different_positions_with_a_window():
    cache, (count, window) = nn.kv_cache(length=8), (3, 2)
    keys = RNG.normal(size=(2, count, 2, 4)).astype(np.float32)

    def extended(k: oc.Tensor, start: oc.Tensor):
        return cache.at(start, 7).extended("block", k, k, window)

    step = oc.function(extended, oc.Context.cpu(), {"k": "bboo", "start": "b"})
    start = np.array([1, 4], np.int32)
    found, values, mask = step(keys, start)
    wanted = np.zeros((2, 7, 2, 4))
    for row, at in enumerate(start):
        wanted[row, at : at + count] = keys[row]
        for query in range(count):
            seen = [*range(max(0, at + query - window + 1), at + query + 1)]
            assert np.flatnonzero(mask[row, query]).tolist() == seen
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(values, wanted)


def test_blocks_at_the_same_positions_check_them_once():
    cache = nn.kv_cache(length=3).at(oc.node("start", output=[], init=3.0, dtype=np.int32))
    first, second = attention(cache=cache), attention(cache=cache)
    with oc.code("step") as code, patch(LEAST, wraps=least_wrong) as made:
        read = second(first(oc.data(X[:, :1], axes="bbo", label="x")))
    assert made.call_count == 1
    ctx = oc.Context.cpu(threads=1)
    code += oc.forward(read)
    step = ctx.compile(code)
    ctx.init_params(code)
    with pytest.raises(oc.OcannlError, match=r"in `cache`, the id 3 .* is outside of 0 to 2"):
        step()


def test_a_full_cache_raises():
    step = oc.function(attention(cache=nn.kv_cache(length=3)), oc.Context.cpu())
    step(X[:, :2])
    with pytest.raises(oc.OcannlError, match=r"the id 3 .* is outside of 0 to 2"):
        step(X[:, :2])
    with pytest.raises(oc.ArgumentError, match="9 positions do not fit into a cache of 3"):
        step(X)


def test_a_cache_has_a_length():
    with pytest.raises(oc.ArgumentError, match="the length of a cache"):
        nn.kv_cache(length=0)
    with pytest.raises(oc.ArgumentError, match="no 9 to look at"):
        nn.kv_cache(length=8).at(0, 9)


def test_a_cache_is_along_an_axis_of_batch():
    step = oc.function(attention(cache=nn.kv_cache(length=3)), oc.Context.cpu())
    with pytest.raises(oc.ArgumentError, match="a cache is along the last batch axis, found 8"):
        step(X[0, 0])


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.parametrize(("window", "at_once"), [(3, 2), (5, 4), (7, 2)])
@pytest.mark.parametrize("shorter", [None, 6])
@pytest.mark.parametrize("steps", [[1] * 6, [2, 1, 2, 1]])
def test_a_window_keeps_its_positions_in_turn(
    window: int, at_once: int, steps: list[int], shorter: int | None
):
    """After a prompt of 11, longer than there is room for, of which one in a batch is shorter: by less than
    there is room for, or, where it is said to end, by any number.
    """
    cache = nn.kv_cache(length=32, at_once=at_once)
    total, first, lengths = 17, 11, np.array([11, shorter or 11 - at_once + 1], np.int32)
    keys = RNG.normal(size=(2, total, 1, 4)).astype(np.float32)

    def attended(owner: nn.KVCache, k: oc.Tensor) -> oc.Tensor:
        return nn.dot_product_attention(k, *owner.extended("block", k, 2 * k, window))

    ctx = oc.Context.cpu(1)

    def first_ones(k: oc.Tensor, last: oc.Tensor) -> oc.Tensor:
        return attended(cache.at(0, last=None if shorter is None else last), k)

    begin = oc.function(first_ones, ctx, {"k": "bboo", "last": "b"})
    step = oc.function(lambda k, at: attended(cache.at(at), k), ctx, {"k": "bboo", "at": "b"})
    padded = keys[:, :first].copy()
    padded[1, lengths[1] :] = 100
    found = [[rows[: lengths[row]]] for row, rows in enumerate(begin(padded, lengths - 1))]
    at = lengths
    for count in steps:
        part = np.stack([keys[row, at[row] : at[row] + count] for row in range(2)])
        for row, new in enumerate(step(part, at)):
            found[row].append(new)
        at = at + np.int32(count)
    for row in range(2):
        k = keys[row, : at[row], 0].astype(np.float64)
        place = np.arange(at[row])
        seen = (place <= place[:, None]) & (place > place[:, None] - window)
        chances = np.where(seen, np.exp(k @ k.T / 2), 0)
        wanted = chances / chances.sum(-1, keepdims=True) @ (2 * k)
        np.testing.assert_allclose(np.concatenate(found[row])[:, 0], wanted, rtol=1e-4, atol=1e-5)
    assert {kept.keys.shape.array[1] for kept in cache.kept.values()} == {window + at_once}
