"""Attention, positions and transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.nn.attention import CASES, CAUSAL, D_K, D_V, HEADS, X1, encoder, self_attention, silu
from support.nn.check import Array, Case, arrays_of, check_all

import ocannl as oc
from ocannl import nn, train


@pytest.mark.sampled(15)
@check_all(CASES)
def test_against_numpy(case: Case):
    case.check_numpy()


@check_all(CASES)
def test_against_torch(case: Case):
    case.check_torch()


def value(tensor: oc.Tensor) -> Array:
    return np.asarray(oc.Context.cpu()[tensor])


def test_a_causal_mask():
    mask = nn.causal_mask(5)
    np.testing.assert_array_equal(value(mask), CAUSAL)
    oc.infer(mask)
    assert mask.shape == "5|5->"


@pytest.mark.exhaustive
def test_an_activation_of_ones_own():
    case = Case(
        nn.decoder_only(1, HEADS, D_K, D_V, 7, activation=nn.silu),
        [X1],
        lambda p, x: encoder(p, x, pre=True, layers=1, mask=CAUSAL, name="decoder", activation=silu),
        lambda p, x: x,
    )
    case.check_numpy()


def test_a_position_that_sees_nothing_is_a_number():
    nothing = oc.data(np.zeros((5, 5)), axes="bi")
    result = self_attention()(oc.data(X1), nothing)
    ctx = oc.Context.cpu()
    train.forward_once(ctx, result)
    assert np.isfinite(ctx[result]).all()


@pytest.mark.parametrize(("shape", "axes"), [((2, 5, 5), None), ((2, 5), None), ((2, 5), "bb")])
def test_a_mask_without_positions_that_are_seen(shape: tuple[int, ...], axes: str | None):
    """Arrays as PyTorch has them; the last, of padding, would hide nothing, since it would be broadcast."""
    mask = oc.data(np.ones(shape, bool), axes=axes)
    with pytest.raises(oc.ShapeError, match=r"test_attention.*positions that are seen\n  hint.*bbi"):
        self_attention()(oc.data(X1), mask)


def test_a_mask_by_other_names():
    x, array = oc.data(X1), np.ones((2, 5, 5), bool)
    untyped: Any = self_attention()
    with pytest.raises(oc.ArgumentError, match="no argument `key_padding_mask`; did you mean `mask`"):
        untyped(x, key_padding_mask=array)
    with pytest.raises(oc.ArgumentError, match=r"found an array \(ndarray\): write `oc.data"):
        untyped(x, array)


def test_rotary_products_depend_on_distances():
    q, k = (nn.rotary()(oc.data(np.tile(a, (9, 1, 1)), axes="boo")) for a in arrays_of((1, 6), (1, 6)))
    products = value(oc.einsum("s | hd; t | hd => s t |", q, k))
    for distance in range(-8, 9):
        np.testing.assert_allclose(np.ptp(np.diagonal(products, distance)), 0, atol=1e-12)


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("count", [1, 5])
def test_features_are_rotated_in_pairs(count: int, interleaved: bool):
    (x,) = arrays_of((2, 3, count))
    with pytest.raises(oc.ShapeError, match=f"features are rotated in pairs, and .* has {count}"):
        nn.rotary(interleaved=interleaved)(oc.data(x, axes="boo"))


def test_rotary_queries_and_keys():
    x = oc.data(X1)
    plain, turned = (self_attention(pos_embed=e)(x) for e in (None, nn.rotary()))
    ctx = oc.Context.cpu()
    train.forward_once(ctx, plain)
    train.forward_once(ctx, turned)
    np.testing.assert_allclose(ctx[plain][0].shape, ctx[turned][0].shape)
    assert not np.allclose(ctx[plain], ctx[turned])


def test_no_shape_but_the_sizes_of_layers_is_given():
    ids = oc.data(np.zeros((2, 5), np.int32), axes="bb")
    hidden = nn.learned_positions()(nn.embedding(num=11, dim=6)(ids))
    logits = nn.linear(out_dim=11)(nn.decoder_only(1, HEADS, D_K, D_V, 10)(hidden))
    oc.infer(nn.cross_entropy(logits, ids))
    shapes = {name.removeprefix("decoder."): str(p.shape) for name, p in oc.params(logits).items()}
    assert shapes == {
        "linear.w": "6->11",
        "norm.gain": "6",
        "norm.offset": "6",
        "embedding.w": "6->11",
        "positions.w": "5|6",
        "layer1.attention.w_q": "6->2,4",
        "layer1.attention.w_k": "6->2,4",
        "layer1.attention.w_v": "6->2,3",
        "layer1.attention.w_o": "2,3->6",
        "layer1.norm1.gain": "6",
        "layer1.norm1.offset": "6",
        "layer1.norm2.gain": "6",
        "layer1.norm2.offset": "6",
        "layer1.feed_forward.into.w": "6->10",
        "layer1.feed_forward.into.b": "10",
        "layer1.feed_forward.out.w": "10->6",
        "layer1.feed_forward.out.b": "6",
        "linear.b": "11",
    }


@pytest.mark.exhaustive
def test_a_decoder_learns_to_count():
    """The next number, from sequences of numbers that count up from anywhere."""
    starts = np.random.default_rng(0).integers(0, 8, (4, 8, 1))
    counting = (starts + np.arange(7)) % 8
    batch_n = oc.index("batch_n", 4)
    ids, targets = (oc.data(a, axes="bbb")[batch_n] for a in (counting[..., :-1], counting[..., 1:]))
    hidden = nn.sinusoidal_positions()(nn.embedding(num=8, dim=16)(ids))
    logits = nn.linear(out_dim=8)(nn.decoder_only(2, 2, 8, 8, 32)(hidden))
    loss = nn.cross_entropy(logits, targets).named("loss")
    ctx = oc.Context.cpu()
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1))
    ctx.init_params(loss, seed=1)
    losses = step.run_loop(epochs=15, record=[loss])[loss].reshape(15, 4).mean(1)
    assert losses[0] > 1
    assert losses[-1] < 0.1
