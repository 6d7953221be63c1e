"""Initial values of weights through stacks of layers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn

IMAGE = oc.data(np.random.default_rng(0).normal(size=(1, 8, 8, 4)).astype(np.float32), axes="bbbo")
X = oc.data(np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32))
SIZES = (1, 2, 2, 2, 8)
STACKS: dict[str, Callable[[oc.init.Initializer], oc.Tensor]] = {
    "encoder": lambda init: nn.transformer_encoder(*SIZES, init=init)(X),
    "decoder": lambda init: nn.transformer_decoder(*SIZES, init=init)(X, X),
    "decoder only": lambda init: nn.decoder_only(*SIZES, init=init)(X),
    "whole": lambda init: nn.transformer(*SIZES, init=init)(X, X),
    "convolution": lambda init: nn.conv_bn_relu(out_channels=3, init=init)(IMAGE),
    "vgg": lambda init: nn.vgg_block(out_channels=3, init=init)(IMAGE),
    "resnet": lambda init: nn.resnet_block(stride=2, out_channels=3, init=init)(IMAGE),
    "lenet": lambda init: nn.lenet(init=init)(IMAGE),
    "mobile": lambda init: nn.mobile_cnn(width_mult=0.1, num_classes=3, init=init)(IMAGE),
    "mlp": lambda init: nn.mlp(hid_dims=[5], out_dim=2, init=init)(X),
}


@pytest.mark.parametrize("kind", STACKS)
def test_all_weights_get_the_value(kind: str):
    """Weights are those with an input row; biases and norms have values of their own."""
    y = STACKS[kind](oc.init.constant(0.25))
    ctx = oc.Context.cpu(1)
    ctx.init_params(oc.sum(y))
    weights = [p for p in oc.params(y).values() if p.shape.input]
    assert weights
    for weight in weights:
        np.testing.assert_array_equal(ctx[weight], np.full(weight.shape.array, 0.25))
