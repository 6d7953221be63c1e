"""Training steps of models with equal layers."""

from collections.abc import Callable, Mapping

import numpy as np

import ocannl as oc
from ocannl import nn, train

WIDTH, BATCH = 8, 4


def perceptron(x: oc.Tensor, layers: int) -> oc.Tensor:
    for k in range(layers):
        x = oc.relu(oc.param(f"w{k}", input=[WIDTH], output=[WIDTH]) @ x + oc.param(f"b{k}", output=[WIDTH]))
    return x


def convolutions(x: oc.Tensor, layers: int) -> oc.Tensor:
    for k in range(layers):
        w = oc.param(f"w{k}", input=[3, WIDTH], output=[WIDTH])
        x = oc.relu(oc.einsum("..., t + i | c; i, c -> o => ..., t | o", x, w, use_padding=True))
    return x


def decoder(x: oc.Tensor, layers: int) -> oc.Tensor:
    return nn.decoder_only(layers, 2, d_k=4, d_v=4, d_ff=16)(x)


MODELS: Mapping[str, Callable[[oc.Tensor, int], oc.Tensor]] = {
    "perceptron": perceptron,
    "convolutions": convolutions,
    "decoder": decoder,
}


def code_of(model: str, layers: int) -> oc.Code:
    """Gradients of the squared output, and a step of gradient descent."""
    rng = np.random.default_rng(1)
    x = oc.data(rng.normal(size=(BATCH, 6, WIDTH)).astype(np.float32), axes="bbo", label="x")
    y = MODELS[model](x, layers)
    loss = (y * y).einsum("...|... => 0")
    return train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.01)
