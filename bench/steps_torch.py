"""The steps in PyTorch: eager, with the loss compiled by `torch.compile`, or in float64."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from peers import Missing
from steps import LEARNING_RATE, WEIGHT_DECAY, CharacterModel, Floats, Layers, Problem, moons_learning_rate
from torch import Tensor
from torch.nn import functional


class Model(Protocol):
    """Parameters, which require gradients, and the loss of a batch."""

    @property
    def parameters(self) -> Sequence[Tensor]: ...

    def loss(self, x: Tensor, target: Tensor) -> Tensor: ...


def hinge(scores: Tensor, target: Tensor) -> Tensor:
    return torch.relu(1 - target * scores).sum() / len(scores)


def in_torch_layout(array: Floats, dtype: torch.dtype) -> Tensor:
    """A copy in which channels stand before the image."""
    return torch.tensor(np.moveaxis(array, 3, 1) if array.ndim == 4 else array, dtype=dtype)


def adapted(problem: Layers) -> list[Floats]:
    """The weights, of which the first linear ones read the image in PyTorch's order."""
    found: list[Floats] = []
    for layer, weight in enumerate(problem.weights):
        before = problem.weights[layer - 1]
        if layer > 0 and weight.ndim == 2 and before.ndim > 2:
            channels = len(before)
            size = round((weight.shape[1] // channels) ** 0.5)
            image = weight.reshape(-1, size, size, channels)
            weight = np.ascontiguousarray(image.transpose(0, 3, 1, 2)).reshape(weight.shape)
        found.append(weight)
    return found


class Network:
    """Linear layers and convolutions."""

    def __init__(self, problem: Layers, dtype: torch.dtype) -> None:
        self.of_outputs = hinge if problem.name == "moons" else functional.cross_entropy
        self.weights = [in_torch_layout(w, dtype).requires_grad_() for w in adapted(problem)]
        self.biases = [
            None if bias is None else torch.tensor(bias, dtype=dtype, requires_grad=True)
            for bias in problem.biases
        ]
        self.parameters = [*self.weights, *(bias for bias in self.biases if bias is not None)]

    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        for weight, bias in zip(self.weights, self.biases, strict=True):
            if weight.ndim > 2:
                x = torch.relu(functional.conv2d(x, weight, bias, padding="same"))
                x = functional.max_pool2d(x, 2)
                continue
            x = functional.linear(x.flatten(1), weight, bias)
            if weight is not self.weights[-1]:
                x = torch.relu(x)
        return self.of_outputs(x, target)


class Parts:
    """Parameters by name, and the parts of networks that use them."""

    def __init__(self, parameters: Mapping[str, Floats], heads: int, dtype: torch.dtype) -> None:
        self.heads = heads
        self.named = {
            name: in_torch_layout(array.reshape(matrix_shape(name, array)), dtype).requires_grad_()
            for name, array in parameters.items()
        }
        self.parameters = list(self.named.values())

    def linear(self, name: str, x: Tensor) -> Tensor:
        return functional.linear(x, self.named[f"{name}.w"], self.named[f"{name}.b"])

    def norm(self, name: str, x: Tensor) -> Tensor:
        gain, offset = self.named[f"{name}.gain"], self.named[f"{name}.offset"]
        return functional.layer_norm(x, gain.shape, gain, offset)

    def attention(self, name: str, x: Tensor, is_causal: bool = True) -> Tensor:
        batch, length, _ = x.shape
        queries, keys, values = (
            functional.linear(x, self.named[f"{name}.{w}"])
            .view(batch, length, self.heads, -1)
            .transpose(1, 2)
            for w in ("w_q", "w_k", "w_v")
        )
        mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=is_causal)
        return functional.linear(mixed.transpose(1, 2).reshape(batch, length, -1), self.named[f"{name}.w_o"])

    def transformer(
        self,
        name: str,
        layers: int,
        x: Tensor,
        activation: Callable[[Tensor], Tensor] = torch.relu,
        is_causal: bool = True,
    ) -> Tensor:
        for layer in (f"{name}.layer{k}" for k in range(1, layers + 1)):
            x = x + self.attention(f"{layer}.attention", self.norm(f"{layer}.norm1", x), is_causal)
            hidden = self.linear(f"{layer}.feed_forward.into", self.norm(f"{layer}.norm2", x))
            x = x + self.linear(f"{layer}.feed_forward.out", activation(hidden))
        return self.norm(f"{name}.norm", x)


class Decoder(Parts):
    """The character model."""

    def __init__(self, problem: CharacterModel, dtype: torch.dtype) -> None:
        super().__init__(problem.parameters, problem.heads, dtype)
        self.layers = problem.layers

    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        x = functional.embedding(x, self.named["embedding.w"])
        logits = self.linear("linear", self.transformer("decoder", self.layers, x))
        return functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def matrix_shape(name: str, array: Floats) -> tuple[int, ...]:
    """The heads of attention are one axis."""
    if not name.endswith((".w_q", ".w_k", ".w_v", ".w_o")):
        return array.shape
    return (len(array), -1) if name.endswith(".w_o") else (-1, array.shape[-1])


def in_torch(batches: NDArray[Any], dtype: torch.dtype) -> Tensor:
    """Batches of ids, features or images."""
    if batches.dtype == np.int32:
        return torch.tensor(batches).long()
    return torch.stack([in_torch_layout(batch, dtype) for batch in batches])


def compile_anew(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """For the shapes at hand alone: other benchmarks of the same process do not make them dynamic."""
    torch.compiler.reset()
    return torch.compile(function, dynamic=False)


def usable(device: str) -> str:
    """The same device. Raises Missing where PyTorch has none."""
    if device == "cuda" and not torch.cuda.is_available():
        raise Missing("PyTorch finds no GPU")
    return device


def allow_tf32(is_allowed: bool) -> None:
    """Whether a GPU may round operands of products and convolutions; PyTorch rounds the latter by default."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = is_allowed


def wait(device: str) -> None:
    """Until a GPU has done all that it was asked for."""
    if device == "cuda":
        torch.cuda.synchronize()


class Runs:
    def __init__(self, problem: Problem, compiled: bool = False, double: bool = False, device: str = "cpu"):
        self.problem, self.device = problem, usable(device)
        allow_tf32(problem.precision == "tf32")
        self.is_moons = problem.name == "moons"
        self.dtype = torch.float64 if double else torch.float32
        with torch.device(self.device):
            self.inputs, self.targets = (
                in_torch(problem.inputs, self.dtype),
                in_torch(problem.targets, self.dtype),
            )
            self.reset()
        self.loss: Callable[[Tensor, Tensor], Tensor] = (
            compile_anew(self.eager_loss) if compiled else self.eager_loss
        )

    def reset(self) -> None:
        """Starts again with the initial parameters."""
        with torch.device(self.device):
            self.model = self.new_model()
        self.optimizer = self.new_optimizer()

    def new_model(self) -> Model:
        if isinstance(self.problem, CharacterModel):
            return Decoder(self.problem, self.dtype)
        assert isinstance(self.problem, Layers)
        return Network(self.problem, self.dtype)

    def new_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)

    def eager_loss(self, x: Tensor, target: Tensor) -> Tensor:
        return self.model.loss(x, target)

    def step(self, step_n: int) -> Tensor:
        batch = step_n % self.problem.batches
        if self.is_moons:
            self.optimizer.param_groups[0]["lr"] = moons_learning_rate(step_n)
        self.optimizer.zero_grad()
        loss = self.loss(self.inputs[batch], self.targets[batch])
        loss.backward()
        self.optimizer.step()
        return loss

    def first(self) -> float:
        return self.step(0).item()

    def values(self) -> dict[str, Any]:
        self.reset()
        return {"losses": [self.step(step_n).item() for step_n in range(self.problem.verified_steps)]}

    def call(self, count: int) -> None:
        for step_n in range(count):
            self.step(step_n)
        wait(self.device)
