"""Layers without a memory: linear, activations, softmax, norms, embedding."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.nn.check import Array, Case, check_all
from support.nn.layers import CASES, IDS, X1, X3

import ocannl as oc
from ocannl import nn


@pytest.mark.sampled(5)
@check_all(CASES)
def test_against_numpy(case: Case):
    case.check_numpy()


@check_all(CASES)
def test_against_torch(case: Case):
    case.check_torch()


def value(tensor: oc.Tensor) -> Array:
    return np.asarray(oc.Context.cpu()[tensor])


def test_parameters_get_their_shapes_from_use():
    x = oc.data(X3, label="x")
    hidden = nn.linear(out_dim=[4, 2], label="first")(x)
    y = nn.linear(out_dim=3, label="last")(nn.rms_norm()(nn.layer_norm()(hidden)))
    oc.infer(y)
    assert {name: str(p.shape) for name, p in oc.params(y).items()} == {
        "first.w": "5->4,2",
        "first.b": "4,2",
        "layer_norm.gain": "4,2",
        "layer_norm.offset": "4,2",
        "rms_norm.gain": "4,2",
        "last.w": "4,2->3",
        "last.b": "3",
    }
    assert str(y.shape) == "2,3,2|3"


def test_a_block_applied_twice_has_the_same_parameters():
    layer = nn.linear(out_dim=3)
    both = layer(oc.data(X1)) + layer(oc.data(X1))
    assert list(oc.params(both)) == ["linear.w", "linear.b"]


def test_activations_far_out():
    far = oc.data(np.array([-800.0, -40.0, 0.0, 40.0, 800.0]))
    np.testing.assert_allclose(value(nn.softplus(far)), [0, np.exp(-40), np.log(2), 40, 800], rtol=1e-15)
    np.testing.assert_allclose(value(nn.silu(far)), [0, -40 * np.exp(-40), 0, 40, 800], rtol=1e-14)
    np.testing.assert_allclose(value(nn.gelu(far)), [0, 0, 0, 40, 800], atol=1e-300)


def test_log_softmax_where_softmax_is_zero():
    logits = oc.data(np.array([0.0, -2000.0]))
    np.testing.assert_array_equal(value(nn.softmax()(logits)), [1, 0])
    np.testing.assert_array_equal(value(nn.log_softmax()(logits)), [0, -2000])


def test_one_hot():
    ids = oc.data(IDS, axes="bb")
    np.testing.assert_array_equal(value(oc.one_hot(ids, 4)), np.eye(4)[IDS])
    outside = oc.data(np.array([-1, 0, 7]), axes="b")
    np.testing.assert_array_equal(value(oc.one_hot(outside, 2)), [[0, 0], [1, 0], [0, 0]])


def test_one_hot_is_of_batches():
    with pytest.raises(oc.ShapeError, match=r"ids of oc.one_hot have batch axes only, found <data: 4, i64>"):
        oc.one_hot(oc.data(np.arange(4)), 4)
    np.testing.assert_array_equal(value(oc.one_hot(oc.data([[1], [0]]), 2)), [[0, 1], [1, 0]])
    hot = oc.function(lambda ids: oc.one_hot(ids, 4))
    np.testing.assert_array_equal(hot(np.arange(4)), np.eye(4))


def test_an_embedding_is_of_batches():
    """As of NumPy's arrays of one axis, which is an output axis unless axes say otherwise."""
    way = re.escape('oc.data(ids, axes="b") has such')
    with pytest.raises(oc.ShapeError, match=f"ids of an embedding have batch axes only, .*: {way}"):
        nn.embedding(num=5, dim=2)(oc.arange(4))


def test_one_hot_as_long_as_its_use():
    hot = oc.one_hot(oc.data(IDS, axes="bb"), oc.Dim("classes"))
    picked = oc.einsum("... | c; ... | c => ... |", oc.data(np.eye(6)[IDS]), hot)
    np.testing.assert_array_equal(value(picked), np.ones((2, 3)))
    assert hot.shape == "2,3|6"


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16])
def test_softmax_of_integers(dtype: type[np.integer[Any]]):
    """Differences of which their own type does not hold."""
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, info.max - 2], dtype)
    shifted = x.astype(np.float64) - float(info.max)
    logarithms = shifted - np.log(np.exp(shifted).sum())
    ctx = oc.Context.cpu()
    np.testing.assert_allclose(ctx[nn.log_softmax()(oc.data(x))], logarithms, rtol=1e-5, atol=1e-30)
    np.testing.assert_allclose(ctx[nn.softmax()(oc.data(x))], np.exp(logarithms), rtol=1e-5, atol=1e-30)
    colder = ctx[nn.softmax(temperature=2.0)(oc.data(x))]
    np.testing.assert_allclose(colder, np.exp(shifted / 2) / np.exp(shifted / 2).sum(), rtol=1e-5, atol=1e-30)


def test_a_temperature_of_a_tensor_may_be_negative():
    coldest = oc.function(lambda x, t: nn.softmax(temperature=t)(x))(
        np.array([0, 200, -100], np.float32), np.float32(-1)
    )
    np.testing.assert_allclose(coldest, [0, 0, 1], atol=1e-6)
