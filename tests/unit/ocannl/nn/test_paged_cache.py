"""Attention with a cache in pages, against one that has room for each sequence."""

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn

RNG = np.random.default_rng(5)
X = RNG.normal(size=(2, 9, 8)).astype(np.float32)


def attention(**how: Any):
    return nn.multi_head_attention(num_heads=4, num_kv_heads=2, d_k=4, d_v=6, out_dim=8, **how)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("page_size", [1, 3, 4])
def test_positions_in_turn_are_those_at_once(page_size: int):
    ctx, cache = oc.Context.cpu(), nn.paged_cache(length=12, pages=24, page_size=page_size)
    how = {"pos_embed": nn.rotary(), "init": oc.init.normal(std=0.5)}
    kept, plain = attention(cache=cache, **how), attention(**how)
    wanted = oc.function(lambda x: plain(x, nn.causal_mask()), ctx)(X)
    step = oc.function(lambda x: kept(x), ctx)
    # Pages in any order.
    needed = -(-9 // page_size)
    cache.set_tables(ctx, [cache.take(needed)[::-1], cache.take(needed)])
    found = np.concatenate([step(part) for part in np.split(X, [4, 5], 1)], 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_sequences_may_be_at_different_positions_and_share_pages():
    ctx, cache = oc.Context.cpu(), nn.paged_cache(length=6, pages=5, page_size=2)
    shared, first, second = cache.take(1), cache.take(1), cache.take(1)
    cache.set_tables(ctx, [shared + first, shared + second])
    keys = RNG.normal(size=(2, 1, 2, 4)).astype(np.float32)
    step = oc.function(
        lambda k, start: cache.at(start, 4).extended("block", k, -k), ctx, {"k": "bboo", "start": "b"}
    )
    step(keys[[0, 0]], np.array([0, 0], np.int32))
    found, values, mask = step(keys, np.array([1, 3], np.int32))
    wanted = np.zeros((2, 4, 2, 4))
    wanted[:, 0], wanted[:, 1], wanted[1, 3] = keys[0, 0], keys[0, 0], keys[1, 0]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(values, -wanted)
    np.testing.assert_array_equal(mask[:, 0], [[1, 1, 0, 0], [1, 1, 1, 1]])


def test_memory_is_that_of_pages():
    cache = nn.paged_cache(length=512, pages=3, page_size=2, dtype=oc.bfloat16)
    step = oc.function(attention(cache=cache), oc.Context.cpu())
    step(X[:, :1])
    step(X[:1, :1])
    (kept,) = cache.kept.values()
    assert tuple(kept.keys.shape) == (4, 2, 2, 4)
    assert kept.keys.dtype == np.dtype(oc.bfloat16)


def test_pages_are_taken_and_given_back():
    cache = nn.paged_cache(length=8, pages=3)
    taken = cache.take(2)
    with pytest.raises(oc.ArgumentError, match="2 pages of a cache are needed, of which 1 are free"):
        cache.take(2)
    cache.give_back(taken)
    assert sorted(cache.take(3)) == [1, 2, 3]


def test_what_does_not_fit_is_refused():
    cache = nn.paged_cache(length=3, pages=3)
    step = oc.function(attention(cache=cache), oc.Context.cpu())
    with pytest.raises(oc.ArgumentError, match="9 positions do not fit into a cache of 3"):
        step(X)
    with pytest.raises(oc.ArgumentError, match="sequences in one batch axis, found 2"):
        step(X[None, :, :1])
    with pytest.raises(oc.ArgumentError, match="the number of pages"):
        nn.paged_cache(length=3, pages=0)
