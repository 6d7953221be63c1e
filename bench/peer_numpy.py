"""The steps in plain NumPy, with the gradients written by hand."""

import numpy as np
from problems import MLP_LEARNING_RATE, WEIGHT_DECAY, Floats, Problem, moons_learning_rate


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
    return float(loss), (exponentials / totals - targets) / np.float32(len(logits))


class Steps:
    def __init__(self, problem: Problem):
        self.problem = problem
        self.is_moons = problem.name == "moons"
        self.reset()

    def reset(self) -> None:
        self.weights = [weight.copy() for weight in self.problem.weights]
        self.biases = [None if bias is None else bias.copy() for bias in self.problem.biases]

    def forward(self, batch: int) -> list[Floats]:
        """The input of each layer, and the output of the last."""
        values = [self.problem.inputs[batch]]
        for weight, bias in zip(self.weights, self.biases, strict=True):
            value = values[-1] @ weight.T
            if bias is not None:
                value += bias
            values.append(value if weight is self.weights[-1] else np.maximum(value, 0))
        return values

    def update(self, parameter: Floats, gradient: Floats, step_n: int) -> None:
        if self.is_moons:
            parameter -= np.float32(moons_learning_rate(step_n)) * (
                gradient + np.float32(WEIGHT_DECAY) * parameter
            )
        else:
            parameter -= np.float32(MLP_LEARNING_RATE) * gradient

    def step(self, step_n: int) -> float:
        batch = step_n % self.problem.batches
        values = self.forward(batch)
        loss, gradient = (hinge if self.is_moons else cross_entropy)(values[-1], self.problem.targets[batch])
        for layer in reversed(range(len(self.weights))):
            weight, bias, value = self.weights[layer], self.biases[layer], values[layer]
            weight_gradient = gradient.T @ value
            bias_gradient = gradient.sum(axis=0)
            gradient = (gradient @ weight) * (value > 0) if layer else gradient
            self.update(weight, weight_gradient, step_n)
            if bias is not None:
                self.update(bias, bias_gradient, step_n)
        return loss

    def first(self) -> float:
        return self.step(0)

    def losses(self, steps: int) -> list[float]:
        self.reset()
        return [self.step(step_n) for step_n in range(steps)]

    def call(self, steps: int) -> None:
        for step_n in range(steps):
            self.step(step_n)


def version() -> str:
    return np.__version__
