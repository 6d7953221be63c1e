"""Blocks of images whose spatial axes are output axes: the numbers of the other layout, in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train

RNG = np.random.default_rng(0)
BLOCKS: dict[str, Callable[..., Any]] = {
    "conv2d": lambda **s: nn.conv2d(out_channels=4, stride=2, **s),
    "without padding": lambda **s: nn.conv2d(out_channels=4, use_padding=False, bias=False, **s),
    "reflected": lambda **s: nn.conv2d(out_channels=4, padding=1, padding_mode="reflect", groups=2, **s),
    "depthwise": lambda **s: nn.depthwise_separable_conv2d(out_channels=4, **s),
    "transposed": lambda **s: nn.conv_transpose2d(out_channels=4, stride=2, **s),
    "max": lambda **s: nn.max_pool2d(padding=1, **s),
    "average": lambda **s: nn.avg_pool2d(ceil_mode=True, window_size=3, **s),
    "smooth": lambda **s: nn.smooth_max_pool2d(**s),
    "norm": lambda **s: nn.batch_norm2d(**s),
    "put back": lambda **s: (
        lambda x: nn.max_unpool(*nn.max_pool2d(return_indices=True, **s)(x), size=(6, 6), **s)
    ),
    "whole": lambda **s: lambda x: nn.global_avg_pool2d(x, **s),
}


def applied(block: Callable[..., Any], x: oc.Tensor) -> tuple[oc.Tensor, np.ndarray, np.ndarray]:
    """The result of a block, its value, and the gradient of the sum of its squares."""
    ctx = oc.Context.cpu(1)
    y = block(x)
    gradient = oc.grad(oc.sum(y * y), x)
    ctx.init_params(y, seed=3)
    return y, ctx[y], ctx[gradient]


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", BLOCKS)
def test_layouts_agree(kind: str):
    images = RNG.normal(size=(2, 6, 6, 2))
    _, value, gradient = applied(BLOCKS[kind](spatial="output"), oc.data(images, axes="booo"))
    _, expected, wanted = applied(BLOCKS[kind](), oc.data(images))
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("make", "axes"),
    [
        (lambda s: nn.conv1d(out_channels=3, spatial=s), 1),
        (lambda s: nn.conv3d(out_channels=3, spatial=s), 3),
        (lambda s: nn.conv_transpose1d(out_channels=3, spatial=s), 1),
        (lambda s: nn.conv_transpose3d(out_channels=3, spatial=s), 3),
        (lambda s: nn.max_pool1d(spatial=s), 1),
        (lambda s: nn.max_pool3d(spatial=s), 3),
        (lambda s: nn.avg_pool1d(spatial=s), 1),
        (lambda s: nn.avg_pool3d(spatial=s), 3),
    ],
)
def test_one_and_three_axes(make: Callable[[str], Any], axes: int):
    values = RNG.normal(size=(2, *[4] * axes, 2))
    _, value, _ = applied(make("output"), oc.data(values, axes="b" + "o" * (axes + 1)))
    _, expected, _ = applied(make("batch"), oc.data(values))
    np.testing.assert_allclose(value, expected, rtol=1e-12)


def test_an_mlp_follows_without_flattening():
    """Its input row is height, width and channels; parameters have the shapes of the other layout."""
    conv, pool = nn.conv2d(out_channels=4, spatial="output"), nn.max_pool2d(spatial="output")
    head = nn.mlp(hid_dims=[8], out_dim=3)
    x = oc.data(RNG.normal(size=(2, 6, 6, 1)).astype(np.float32), axes="booo")
    loss = nn.cross_entropy(head(pool(oc.relu(conv(x)))), oc.data([0, 2], axes="b"))
    assert {"conv.b", "conv.w"} <= oc.params(loss).keys()
    ctx = oc.Context.cpu(1)
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1))
    ctx.init_params(loss, seed=1)
    losses = [(step(), float(ctx[loss]))[1] for _ in range(20)]
    assert [str(conv.w.shape), str(conv.b.shape)] == ["3,3,1->4", "4"]
    assert losses[-1] < losses[0] / 2


def test_places_of_maxima():
    images = RNG.normal(size=(2, 4, 4, 3))
    found = nn.max_pool2d(return_indices=True, spatial="output")(oc.data(images, axes="booo"))
    expected = nn.max_pool2d(return_indices=True)(oc.data(images))
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(own.numpy(), other.numpy())


def test_there_are_two_layouts():
    with pytest.raises(oc.ArgumentError, match="batch or output"):
        nn.conv2d(spatial="input")
