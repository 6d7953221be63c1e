"""The training steps that are measured, with their data and initial parameters. All have weight decay."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Data in batches; the first axis of `inputs` and `targets` counts batches, the second examples."""

    name: str
    inputs: NDArray[Any]
    targets: NDArray[Any]
    calls: int  # steps in one timing
    verified_steps: int
    precision: str = (
        "f32"  # of products: f32, tf32 or bf16, then of activations, too; parameters are kept in f32
    )

    @property
    def batches(self) -> int:
        return self.inputs.shape[0]

    @property
    def batch_size(self) -> int:
        return self.inputs.shape[1]


@dataclass(frozen=True, kw_only=True)
class Layers(Problem):
    """A network of layers with rectifiers between them.

    A layer is linear, or a convolution that keeps the image's size and is followed by a maximum over windows
    of 2 x 2. Inputs are features or images: height, width, channel. Targets are numbers for each output.
    """

    weights: list[Floats]  # output, input; or output, kernel height, kernel width, input
    biases: list[Floats | None]


@dataclass(frozen=True, kw_only=True)
class CharacterModel(Problem):
    """A decoder of `layers` layers with causal attention of `heads` heads; inputs and targets are ids.

    A layer adds attention to what it reads, then two linear layers with a rectifier between them; each after
    a norm. `parameters` go by name, weights as output rows, input rows.
    """

    layers: int
    heads: int
    parameters: dict[str, Floats]


MOONS_STEPS = 6400
WEIGHT_DECAY = 1e-4
LEARNING_RATE = 0.05


def moons_learning_rate(step_n: Any) -> Any:
    """It falls; `step_n` is what a framework counts with."""
    return 0.1 * (2 * MOONS_STEPS - step_n) / MOONS_STEPS


def layers(rng: np.random.Generator, sizes: list[int]) -> list[Floats]:
    pairs = zip(sizes[1:], sizes, strict=False)
    return [rng.normal(0, (2 / inner) ** 0.5, (outer, inner)).astype(np.float32) for outer, inner in pairs]


def windows(rng: np.random.Generator, size: int, channels: list[int]) -> list[Floats]:
    pairs = zip(channels[1:], channels, strict=False)
    return [
        rng.normal(0, (2 / (size * size * inner)) ** 0.5, (outer, size, size, inner)).astype(np.float32)
        for outer, inner in pairs
    ]


def moons() -> Layers:
    """2-16-16-1, hinge loss, weight decay, a falling learning rate; 80 batches of 10."""
    rng = np.random.default_rng(1)
    angle = np.arange(400) * np.pi / 400
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lower = np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)
    points = np.stack([upper, lower], axis=1) + rng.uniform(-0.1, 0.1, (400, 2, 2))
    return Layers(
        name="moons",
        inputs=points.reshape(80, 10, 2).astype(np.float32),
        targets=np.tile(np.array([1, -1], np.float32), 400).reshape(80, 10, 1),
        weights=layers(rng, [2, 16, 16, 1]),
        biases=[np.zeros(16, np.float32), np.zeros(16, np.float32), None],
        calls=MOONS_STEPS,
        verified_steps=80,
    )


def mlp() -> Layers:
    """784-512-512-10, cross-entropy; 8 batches of 128."""
    rng = np.random.default_rng(1)
    sizes, batches, batch_size = [784, 512, 512, 10], 8, 128
    labels = rng.integers(0, 10, (batches, batch_size))
    return Layers(
        name="mlp",
        inputs=rng.uniform(0, 1, (batches, batch_size, 784)).astype(np.float32),
        targets=np.eye(10, dtype=np.float32)[labels],
        weights=layers(rng, sizes),
        biases=[np.zeros(outer, np.float32) for outer in sizes[1:]],
        calls=8,
        verified_steps=4,
    )


def lenet() -> Layers:
    """28 x 28 images, 5 x 5 windows to 6 and 16 channels, 120-84-10, cross-entropy; 8 batches of 64."""
    rng = np.random.default_rng(1)
    batches, batch_size = 8, 64
    weights = [*windows(rng, 5, [1, 6, 16]), *layers(rng, [7 * 7 * 16, 120, 84, 10])]
    labels = rng.integers(0, 10, (batches, batch_size))
    return Layers(
        name="lenet",
        inputs=rng.uniform(0, 1, (batches, batch_size, 28, 28, 1)).astype(np.float32),
        targets=np.eye(10, dtype=np.float32)[labels],
        weights=weights,
        biases=[np.zeros(len(weight), np.float32) for weight in weights],
        calls=8,
        verified_steps=4,
    )


def transformer_shapes(
    label: str, layers: int, width: int, hidden: int, heads: int
) -> dict[str, tuple[int, ...]]:
    """The parameters of layers of attention and two linear layers, and of their norms."""
    each = width // heads
    shapes: dict[str, tuple[int, ...]] = norm_shapes(f"{label}.norm", width)
    for layer in (f"{label}.layer{k}" for k in range(1, layers + 1)):
        shapes |= norm_shapes(f"{layer}.norm1", width) | norm_shapes(f"{layer}.norm2", width)
        shapes |= {f"{layer}.attention.{w}": (heads, each, width) for w in ("w_q", "w_k", "w_v")}
        shapes |= {
            f"{layer}.attention.w_o": (width, heads, each),
            f"{layer}.feed_forward.into.w": (hidden, width),
            f"{layer}.feed_forward.into.b": (hidden,),
            f"{layer}.feed_forward.out.w": (width, hidden),
            f"{layer}.feed_forward.out.b": (width,),
        }
    return shapes


def norm_shapes(label: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{label}.gain": (width,), f"{label}.offset": (width,)}


def random_parameters(
    rng: np.random.Generator, shapes: dict[str, tuple[int, ...]], deviation: float
) -> dict[str, Floats]:
    """Normal numbers, for windows by what these sum over; ones for gains of norms, zeros for offsets."""
    parameters: dict[str, Floats] = {}
    for name, shape in sorted(shapes.items()):
        if name.endswith((".gain", ".offset")):
            parameters[name] = np.full(shape, name.endswith(".gain"), np.float32)
        else:
            scale = (2 / math.prod(shape[1:])) ** 0.5 if len(shape) == 4 else deviation
            parameters[name] = scale * rng.standard_normal(shape, np.float32)
    return parameters


def charlm() -> CharacterModel:
    """4 layers of width 128, 4 heads, 64 characters of 65, cross-entropy; 4 batches of 16."""
    rng = np.random.default_rng(1)
    layers, width, hidden, heads, vocabulary, batches = 4, 128, 512, 4, 65, 4
    shapes: dict[str, tuple[int, ...]] = {
        "embedding.w": (vocabulary, width),
        "linear.w": (vocabulary, width),
        "linear.b": (vocabulary,),
    }
    shapes |= transformer_shapes("decoder", layers, width, hidden, heads)
    parameters = random_parameters(rng, shapes, 0.05)
    text = rng.integers(0, vocabulary, (batches, 16, 65)).astype(np.int32)
    return CharacterModel(
        name="charlm",
        inputs=np.ascontiguousarray(text[..., :-1]),
        targets=np.ascontiguousarray(text[..., 1:]),
        layers=layers,
        heads=heads,
        parameters=parameters,
        calls=4,
        verified_steps=4,
    )


PROBLEMS = {"moons": moons, "mlp": mlp, "lenet": lenet, "charlm": charlm}
