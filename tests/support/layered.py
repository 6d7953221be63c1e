"""Training steps of models with equal layers."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

import ocannl as oc
from ocannl import nn, train

WIDTH, BATCH = 8, 4
Part = Callable[[oc.Tensor, str], oc.Tensor]


def product(x: oc.Tensor, name: str) -> oc.Tensor:
    return oc.param(f"{name}.w", input=[WIDTH], output=[WIDTH]) @ x


def bias(x: oc.Tensor, name: str) -> oc.Tensor:
    return x + oc.param(f"{name}.b", output=[WIDTH])


def scale(x: oc.Tensor, name: str) -> oc.Tensor:
    return x * oc.param(f"{name}.scale", output=[])


def gain(x: oc.Tensor, name: str) -> oc.Tensor:
    return x * oc.param(f"{name}.gain", output=[WIDTH])


def relu(x: oc.Tensor, name: str) -> oc.Tensor:
    return oc.relu(x)


def tanh(x: oc.Tensor, name: str) -> oc.Tensor:
    return oc.tanh(x)


def centered(x: oc.Tensor, name: str) -> oc.Tensor:
    return x - x.einsum("...|...d => ...|...0") / WIDTH


def convolution(x: oc.Tensor, name: str) -> oc.Tensor:
    w = oc.param(f"{name}.kernel", input=[3, WIDTH], output=[WIDTH])
    return oc.einsum("..., t + i | c; i, c -> o => ..., t | o", x, w, use_padding=True)


def residual(parts: Sequence[Part]) -> Part:
    def whole(x: oc.Tensor, name: str) -> oc.Tensor:
        return x + inside(x, name)

    inside = layer(parts)
    return whole


PARTS: Sequence[Part] = (product, bias, scale, gain, relu, tanh, centered)


def layer(parts: Sequence[Part]) -> Part:
    """Parts one after the other, with names of their own."""

    def whole(x: oc.Tensor, name: str) -> oc.Tensor:
        for number, part in enumerate(parts):
            x = part(x, f"{name}.{number}")
        return x

    return whole


def stack(part: Part) -> Callable[[oc.Tensor, int], oc.Tensor]:
    """So many layers of a kind."""

    def whole(x: oc.Tensor, layers: int) -> oc.Tensor:
        for number in range(layers):
            x = part(x, f"layer{number}")
        return x

    return whole


def decoder(x: oc.Tensor, layers: int) -> oc.Tensor:
    return nn.decoder_only(layers, 2, d_k=4, d_v=4, d_ff=16)(x)


def perceptron(x: oc.Tensor, layers: int) -> oc.Tensor:
    """Scopes and parameters of one label, which numbers tell apart."""
    for _ in range(layers):
        with oc.scope("layer"):
            w = oc.param("w", input=[WIDTH], output=[WIDTH])
            x = oc.relu(w @ x + oc.param("w", output=[WIDTH]))
    return x


MODELS: Mapping[str, Callable[[oc.Tensor, int], oc.Tensor]] = {
    "perceptron": perceptron,
    "convolutions": stack(layer([convolution, relu])),
    "decoder": decoder,
}


def step_of(model: Callable[[oc.Tensor, int], oc.Tensor], layers: int) -> tuple[oc.Tensor, oc.Code]:
    """The squared error of a model, and code for its gradients and a step of gradient descent."""
    rng = np.random.default_rng(1)
    x, target = (oc.data(rng.normal(size=(BATCH, 6, WIDTH)).astype(np.float32), axes="bbo") for _ in range(2))
    error = model(x, layers) - target
    loss = (error * error).einsum("...|... => 0")
    return loss, train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.01)
