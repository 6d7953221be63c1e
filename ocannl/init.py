"""Initializers of parameters. A random initial value depends on the seed, the parameter's name and the place
of the element, on nothing else.

The same seed gives the same numbers on every target (Threefry-4x32, `ocannl.runtime.random`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.shapes.shape import Shape
from ocannl.program.arguments.checks import number
from ocannl.program.mistakes.misuse import explain_all
from ocannl.program.mistakes.other_names import OF_INIT, missing
from ocannl.runtime import random

__all__ = [
    "Initializer",
    "constant",
    "fan_in",
    "fan_out",
    "kaiming",
    "normal",
    "scaled_uniform",
    "uniform",
    "xavier",
]

Sample: TypeAlias = Callable[[NDArray[np.uint32], Shape, np.dtype[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Initializer:
    """Makes the initial array of a parameter.

    `sample` takes a key (uint32 of shape (4,)), the final shape and the dtype of the parameter, and returns
    an array of the shape's batch, output and input axes, in this order.
    """

    description: str
    sample: Sample

    def __repr__(self) -> str:
        return f"oc.init.{self.description}"


class Draw(Protocol):
    """Random numbers, and a function of each, in an array that may be given."""

    def __call__(
        self,
        key: NDArray[np.uint32],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        then: random.Elementwise,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]: ...


@dataclass(frozen=True)
class RandomSample:
    """A `Sample` of random numbers, and `then` of each: a function for the final shape."""

    draw: Draw
    then: Callable[[Shape], random.Elementwise]

    def __call__(
        self, key: NDArray[np.uint32], shape: Shape, dtype: np.dtype[Any], out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """The array, in memory of its own or in `out`, whose dtype may be another one."""
        return self.draw(key, shape.memory_sizes, dtype, self.then(shape), out)


def fan_in(shape: Shape) -> int:
    """The number of inputs that each output sums over: the product of the input axes, at least 1."""
    return max(1, math.prod(shape.input.sizes))


def fan_out(shape: Shape) -> int:
    """The number of outputs that each input goes to: the product of the output axes, at least 1."""
    return max(1, math.prod(shape.output.sizes))


def uniform(low: float = 0.0, high: float = 1.0) -> Initializer:
    """Uniform in [low, high)."""
    number(low, "low", signed=True)
    number(high, "high", signed=True)

    def then(shape: Shape) -> random.Elementwise:
        return lambda unit: low + (high - low) * unit

    return Initializer(f"uniform({low}, {high})", RandomSample(random.uniform, then))


def normal(mean: float = 0.0, std: float = 1.0) -> Initializer:
    """Normal with mean `mean` and standard deviation `std`."""
    number(mean, "mean", signed=True)
    number(std, "std", below=math.inf)

    def then(shape: Shape) -> random.Elementwise:
        return lambda standard: mean + std * standard

    return Initializer(f"normal({mean}, {std})", RandomSample(random.normal, then))


def kaiming(gain: float = math.sqrt(2.0)) -> Initializer:
    """Normal with variance gain^2 / fan_in (He et al., 2015); the default gain is for relu."""
    number(gain, "gain", signed=True)

    def then(shape: Shape) -> random.Elementwise:
        std = gain / math.sqrt(fan_in(shape))
        return lambda standard: std * standard

    return Initializer(f"kaiming({gain})", RandomSample(random.normal, then))


def within(bound: float) -> random.Elementwise:
    """Numbers in [-bound, bound) of numbers in [0, 1)."""
    return lambda unit: bound * (2.0 * unit - 1.0)


def xavier(gain: float = 1.0) -> Initializer:
    """Uniform with bound gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    number(gain, "gain", signed=True)

    def then(shape: Shape) -> random.Elementwise:
        return within(gain * math.sqrt(6.0 / (fan_in(shape) + fan_out(shape))))

    return Initializer(f"xavier({gain})", RandomSample(random.uniform, then))


def constant(value: float) -> Initializer:
    """The same number everywhere."""
    if not isinstance(value, bool | np.bool_):
        number(value, "an initial value", signed=True)
    filled = float(value)

    def sample(key: NDArray[np.uint32], shape: Shape, dtype: np.dtype[Any]) -> NDArray[Any]:
        return np.broadcast_to(np.array(filled).astype(dtype), shape.memory_sizes)

    return Initializer(f"constant({value})", sample)


def scaled_uniform() -> Initializer:
    """Uniform in +-sqrt(3 / fan_in), with variance 1 / fan_in (LeCun et al., 1998), so that products keep the
    scale of their inputs.

    A parameter without input axes, such as a bias, counts its outputs instead. The default of `oc.param`.
    """

    def then(shape: Shape) -> random.Elementwise:
        return within(math.sqrt(3.0 / (fan_in(shape) if shape.input.axes else fan_out(shape))))

    return Initializer("scaled_uniform()", RandomSample(random.uniform, then))


explain_all(__all__, globals())


if not TYPE_CHECKING:  # for a type checker there is nothing else

    def __getattr__(name: str) -> object:
        raise missing("module 'ocannl.init'", name.removesuffix("_"), __all__, OF_INIT)
