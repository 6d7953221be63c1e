"""The steps in PyTorch, eager or with the loss compiled by `torch.compile`."""

from collections.abc import Callable

import numpy as np
import torch
from problems import MLP_LEARNING_RATE, Floats, Problem, moons_learning_rate
from torch import Tensor
from torch.nn.functional import conv2d, linear, max_pool2d


def hinge(scores: Tensor, target: Tensor) -> Tensor:
    return torch.relu(1 - target * scores).sum() / len(scores)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits, target)


def in_torch_layout(array: Floats) -> Tensor:
    """A copy in which channels stand before the image."""
    return torch.tensor(np.moveaxis(array, 3, 1) if array.ndim == 4 else array)


def adapted(problem: Problem) -> list[Floats]:
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


class Steps:
    def __init__(self, problem: Problem, compiled: bool = False):
        self.problem = problem
        self.is_moons = problem.name == "moons"
        self.inputs = torch.stack([in_torch_layout(batch) for batch in problem.inputs])
        self.targets = torch.from_numpy(problem.targets)
        self.reset()
        self.loss: Callable[[Tensor, Tensor], Tensor] = (
            torch.compile(self.eager_loss) if compiled else self.eager_loss
        )

    def reset(self) -> None:
        self.weights = [in_torch_layout(w).requires_grad_() for w in adapted(self.problem)]
        self.biases = [
            None if bias is None else torch.tensor(bias, requires_grad=True) for bias in self.problem.biases
        ]
        parameters = [*self.weights, *(bias for bias in self.biases if bias is not None)]
        decay = self.problem.weight_decay
        self.optimizer = torch.optim.SGD(parameters, lr=MLP_LEARNING_RATE, weight_decay=decay)

    def eager_loss(self, x: Tensor, target: Tensor) -> Tensor:
        for weight, bias in zip(self.weights, self.biases, strict=True):
            if weight.ndim > 2:
                x = max_pool2d(torch.relu(conv2d(x, weight, bias, padding="same")), 2)
                continue
            x = linear(x.flatten(1), weight, bias)
            if weight is not self.weights[-1]:
                x = torch.relu(x)
        return (hinge if self.is_moons else cross_entropy)(x, target)

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

    def losses(self, steps: int) -> list[float]:
        self.reset()
        return [self.step(step_n).item() for step_n in range(steps)]

    def call(self, steps: int) -> None:
        for step_n in range(steps):
            self.step(step_n)


def version() -> str:
    return torch.__version__
