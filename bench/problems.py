"""What is measured: three training steps, with their data and initial weights; and what a peer must offer."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Problem:
    """A network of layers with rectifiers between them, and its data in batches.

    A layer is linear, or a convolution that keeps the image's size and is followed by a maximum over windows
    of 2 x 2.
    """

    name: str
    inputs: Floats  # batch number, example, feature; or batch number, example, height, width, channel
    targets: Floats  # batch number, example, output
    weights: list[Floats]  # output, input; or output, kernel height, kernel width, input
    biases: list[Floats | None]
    calls: int  # steps in one timing through Python
    verified_steps: int

    @property
    def weight_decay(self) -> float:
        return 0.0 if self.name == "mlp" else WEIGHT_DECAY

    @property
    def batches(self) -> int:
        return self.inputs.shape[0]

    @property
    def batch_size(self) -> int:
        return self.inputs.shape[1]


MOONS_STEPS = 6400
WEIGHT_DECAY = 1e-4
MLP_LEARNING_RATE = 0.05


def moons_learning_rate(step_n: int) -> float:
    return 0.1 * (2 * MOONS_STEPS - step_n) / MOONS_STEPS


def layers(rng: np.random.Generator, sizes: list[int]) -> list[Floats]:
    pairs = zip(sizes[1:], sizes, strict=False)
    return [rng.normal(0, (2 / inner) ** 0.5, (outer, inner)).astype(np.float32) for outer, inner in pairs]


def kernels(rng: np.random.Generator, size: int, channels: list[int]) -> list[Floats]:
    pairs = zip(channels[1:], channels, strict=False)
    return [
        rng.normal(0, (2 / (size * size * inner)) ** 0.5, (outer, size, size, inner)).astype(np.float32)
        for outer, inner in pairs
    ]


def moons() -> Problem:
    """2-16-16-1, hinge loss, weight decay, a falling learning rate; 80 batches of 10."""
    rng = np.random.default_rng(1)
    angle = np.arange(400) * np.pi / 400
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lower = np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)
    points = np.stack([upper, lower], axis=1) + rng.uniform(-0.1, 0.1, (400, 2, 2))
    return Problem(
        name="moons",
        inputs=points.reshape(80, 10, 2).astype(np.float32),
        targets=np.tile(np.array([1, -1], np.float32), 400).reshape(80, 10, 1),
        weights=layers(rng, [2, 16, 16, 1]),
        biases=[np.zeros(16, np.float32), np.zeros(16, np.float32), None],
        calls=MOONS_STEPS,
        verified_steps=80,
    )


def mlp() -> Problem:
    """784-512-512-10, softmax cross-entropy; 8 batches of 128."""
    rng = np.random.default_rng(1)
    sizes, batches, batch_size = [784, 512, 512, 10], 8, 128
    labels = rng.integers(0, 10, (batches, batch_size))
    return Problem(
        name="mlp",
        inputs=rng.uniform(0, 1, (batches, batch_size, 784)).astype(np.float32),
        targets=np.eye(10, dtype=np.float32)[labels],
        weights=layers(rng, sizes),
        biases=[np.zeros(outer, np.float32) for outer in sizes[1:]],
        calls=24,
        verified_steps=8,
    )


def lenet() -> Problem:
    """28 x 28 images, 5 x 5 windows to 6 and 16 channels, 120-84-10, softmax cross-entropy, weight decay; 8
    batches of 64.
    """
    rng = np.random.default_rng(1)
    batches, batch_size = 8, 64
    weights = [*kernels(rng, 5, [1, 6, 16]), *layers(rng, [7 * 7 * 16, 120, 84, 10])]
    labels = rng.integers(0, 10, (batches, batch_size))
    return Problem(
        name="lenet",
        inputs=rng.uniform(0, 1, (batches, batch_size, 28, 28, 1)).astype(np.float32),
        targets=np.eye(10, dtype=np.float32)[labels],
        weights=weights,
        biases=[np.zeros(len(weight), np.float32) for weight in weights],
        calls=24,
        verified_steps=8,
    )


PROBLEMS = {"moons": moons, "mlp": mlp, "lenet": lenet}


class Stepper(Protocol):
    """One problem in one framework, built but not compiled.

    Steps take the batches in turn and count from 0; weights keep what earlier steps made of them.
    """

    def first(self) -> float:
        """Compiles, runs one step from the initial weights, and returns its loss."""
        ...

    def losses(self, steps: int) -> list[float]:
        """The loss of each step, from the initial weights."""
        ...

    def call(self, steps: int) -> None:
        """Runs steps one by one from Python, and waits for the last."""
        ...


class Looper(Protocol):
    """A stepper that can run steps without returning to Python."""

    def loop(self, steps: int) -> None: ...
