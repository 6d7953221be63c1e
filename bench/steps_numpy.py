"""The steps in plain NumPy, with the gradients written by hand."""

from typing import Any

import numpy as np
from numpy_images import convolution, convolution_gradients, pool, pool_gradient
from peers import Missing
from steps import LEARNING_RATE, WEIGHT_DECAY, Floats, Layers, Problem, moons_learning_rate


def hinge(scores: Floats, targets: Floats) -> tuple[float, Floats]:
    """The loss and its gradient with respect to the scores."""
    margin = 1 - targets * scores
    gradient = (margin > 0) * targets / np.float32(-len(scores))
    return float(np.maximum(margin, 0).sum() / len(scores)), gradient


def cross_entropy(logits: Floats, targets: Floats) -> tuple[float, Floats]:
    """The loss and its gradient with respect to the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    totals = exponentials.sum(axis=1, keepdims=True)
    loss = (np.log(totals[:, 0]) - (shifted * targets).sum(axis=1)).sum() / len(logits)
    return float(loss), np.divide(exponentials / totals - targets, np.float32(len(logits)))


class Runs:
    def __init__(self, problem: Problem):
        if not isinstance(problem, Layers):
            raise Missing
        self.problem = problem
        self.is_moons = problem.name == "moons"
        self.reset()

    def reset(self) -> None:
        self.weights = [weight.copy() for weight in self.problem.weights]
        self.biases = [None if bias is None else bias.copy() for bias in self.problem.biases]

    def forward(self, batch: int) -> list[tuple[Floats, Floats]]:
        """The input and the activation of each layer, which for a convolution is not pooled yet."""
        found: list[tuple[Floats, Floats]] = []
        x = self.problem.inputs[batch]
        for weight, bias in zip(self.weights, self.biases, strict=True):
            is_image = weight.ndim > 2
            x = x if is_image else x.reshape(len(x), -1)
            y = convolution(weight, x) if is_image else x @ weight.T
            if bias is not None:
                y += bias
            y = y if weight is self.weights[-1] else np.maximum(y, 0)
            found.append((x, y))
            x = pool(y) if is_image else y
        return found

    def update(self, parameter: Floats, gradient: Floats, step_n: int) -> None:
        rate = moons_learning_rate(step_n) if self.is_moons else LEARNING_RATE
        parameter -= np.float32(rate) * (gradient + np.float32(WEIGHT_DECAY) * parameter)

    def step(self, step_n: int) -> float:
        batch = step_n % self.problem.batches
        values = self.forward(batch)
        targets = self.problem.targets[batch]
        loss, gradient = (hinge if self.is_moons else cross_entropy)(values[-1][1], targets)
        for layer in reversed(range(len(self.weights))):
            weight, bias, (x, y) = self.weights[layer], self.biases[layer], values[layer]
            if layer < len(self.weights) - 1:
                if weight.ndim > 2:
                    gradient = pool_gradient(y, gradient.reshape(pool(y).shape))
                gradient = gradient * (y > 0)
            bias_gradient = gradient.reshape(-1, len(weight)).sum(axis=0)
            if weight.ndim > 2:
                weight_gradient, gradient = convolution_gradients(weight, x, gradient)
            else:
                weight_gradient, gradient = gradient.T @ x, gradient @ weight
            self.update(weight, weight_gradient, step_n)
            if bias is not None:
                self.update(bias, bias_gradient, step_n)
        return loss

    def first(self) -> float:
        return self.step(0)

    def values(self) -> dict[str, Any]:
        self.reset()
        return {"losses": [self.step(step_n) for step_n in range(self.problem.verified_steps)]}

    def call(self, count: int) -> None:
        for step_n in range(count):
            self.step(step_n)
