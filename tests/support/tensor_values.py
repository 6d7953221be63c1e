"""Arrays with the axes of their rows, and what operations on them mean in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ocannl as oc

Array = NDArray[Any]
Axes = tuple[int, ...]
ROWS = ("batch", "output", "input")
"""In memory order."""
SIZES = (1, 1, 2, 2, 3, 3, 4, 5, 8, 9)
MOST_POINTS = 20_000
LIMIT = 1e3


@dataclass(frozen=True)
class Val:
    """An array, and its axes by row in memory order."""

    array: Array
    rows: tuple[Axes, Axes, Axes]

    @staticmethod
    def of(array: Array, batch: int, output: int) -> Val:
        shape = array.shape
        return Val(array, (shape[:batch], shape[batch : batch + output], shape[batch + output :]))

    def padded(self, ranks: Sequence[int]) -> Array:
        """The array with axes of size 1 in front of each row, up to these numbers of axes."""
        shape: list[int] = []
        for axes, rank in zip(self.rows, ranks, strict=True):
            shape += [1] * (rank - len(axes)) + list(axes)
        return self.array.reshape(shape)


class Unfit(Exception):
    """A step that these operands do not have, or that comes near a kink."""


def pointwise(function: Callable[..., Array], *vals: Val) -> Val:
    ranks = [max(len(v.rows[k]) for v in vals) for k in range(3)]
    try:
        result = np.asarray(function(*np.broadcast_arrays(*(v.padded(ranks) for v in vals))))
    except ValueError:
        raise Unfit from None
    return Val.of(result, ranks[0], ranks[1])


def transpose(val: Val) -> Val:
    batch, output, input = (len(axes) for axes in val.rows)
    order = [*range(batch), *range(batch + output, batch + output + input), *range(batch, batch + output)]
    return Val.of(val.array.transpose(order), batch, input)


def take(val: Val, position: int) -> Val:
    return Val.of(val.array[position], len(val.rows[0]) - 1, len(val.rows[1]))


Label = str | int
Slot = tuple[tuple[Label, ...], tuple[Label, ...], tuple[Label, ...]]
"""Names and fixed positions by row, in memory order."""

COMBINE: dict[str, Callable[[Array, Array], Array]] = {"mul": np.multiply, "add": np.add}
ACCUMULATE: dict[str, tuple[Callable[..., Array], float]] = {"add": (np.sum, 0.0), "max": (np.max, -np.inf)}


def spread(val: Val, labels: Sequence[Label], names: Sequence[str]) -> Array:
    """The operand over the whole iteration space, with axes of size 1 for names that it lacks."""
    array = val.array[tuple(label if isinstance(label, int) else slice(None) for label in labels)]
    own = [label for label in labels if isinstance(label, str)]
    unique = list(dict.fromkeys(own))
    number = {name: k for k, name in enumerate(unique)}
    array = np.einsum(array, [number[n] for n in own], list(range(len(unique))))
    order = sorted(unique, key=names.index)
    array = array.transpose([unique.index(n) for n in order])
    sizes = dict(zip(order, array.shape, strict=True))
    return array.reshape([sizes.get(n, 1) for n in names])


def contract(
    accum: str, combine: str, slots: Sequence[Slot], result: Slot, sizes: dict[str, int], vals: Sequence[Val]
) -> Val:
    """The meaning of an einsum spec, one array over the whole iteration space at a time."""
    names = list(sizes)
    flat = [[label for row in slot for label in row] for slot in slots]
    spread_out = [spread(v, labels, names) for v, labels in zip(vals, flat, strict=True)]
    whole = np.broadcast_to(reduce(COMBINE[combine], spread_out), [sizes[n] for n in names])
    written = [label for row in result for label in row]
    kept = [n for n in names if n in written]
    summed = tuple(k for k, n in enumerate(names) if n not in kept)
    function, neutral = ACCUMULATE[accum]
    if accum == "max" and summed:
        check_gap(whole, summed)
    total = function(whole, axis=summed) if summed else whole
    shape = [label + 1 if isinstance(label, int) else sizes[label] for label in written]
    array = np.full(shape, neutral)
    grid = np.meshgrid(*(np.arange(sizes[n]) for n in kept), indexing="ij")
    place = dict(zip(kept, grid, strict=True))
    array[tuple(label if isinstance(label, int) else place[label] for label in written)] = total
    return Val.of(array, len(result[0]), len(result[1]))


KINK = 1e-4
_kinks_matter = ContextVar("kinks_matter", default=False)


@contextmanager
def smooth_values(on: bool) -> Generator[None]:
    """A context in which values at kinks, where gradients have no meaning, are rejected."""
    token = _kinks_matter.set(on)
    try:
        yield
    finally:
        _kinks_matter.reset(token)


def check_gap(whole: Array, summed: tuple[int, ...]) -> None:
    """A maximum must be alone where gradients are compared."""
    if not _kinks_matter.get():
        return
    kept = [k for k in range(whole.ndim) if k not in summed]
    lines = whole.transpose([*kept, *summed]).reshape(math.prod(whole.shape[k] for k in kept), -1)
    if lines.shape[1] > 1:
        top = np.sort(lines, axis=1)[:, -2:]
        away(top[:, 1] - top[:, 0])


def away(distance: Array) -> None:
    """Rejects points near a kink, where gradients are compared."""
    if _kinks_matter.get() and np.any(np.abs(distance) < KINK):
        raise Unfit


def relu(x: Array) -> Array:
    away(x)
    return np.maximum(x, 0)


def absolute(x: Array) -> Array:
    away(x)
    return np.abs(x)


def maximum(x: Array, y: Array) -> Array:
    away(x - y)
    return np.maximum(x, y)


def minimum(x: Array, y: Array) -> Array:
    away(x - y)
    return np.minimum(x, y)


def choose(x: Array, y: Array, a: Array, b: Array) -> Array:
    away(x - y)
    if np.any(np.abs(x - y) < KINK):
        raise Unfit
    return np.where(x < y, a, b)


Meaning = Callable[..., Array]
POINTWISE: list[tuple[str, int, Callable[..., oc.Tensor], Meaning]] = [
    ("neg", 1, lambda x: -x, np.negative),
    ("relu", 1, lambda x: oc.relu(x), relu),
    ("tanh", 1, lambda x: oc.tanh(x), np.tanh),
    ("sigmoid", 1, lambda x: oc.sigmoid(x), lambda x: 1 / (1 + np.exp(-x))),
    ("abs", 1, lambda x: oc.abs(x), absolute),
    ("sin", 1, lambda x: oc.sin(x), np.sin),
    ("gauss", 1, lambda x: oc.exp(-x * x), lambda x: np.exp(-x * x)),
    ("square", 1, lambda x: x**2, np.square),
    ("half", 1, lambda x: 0.5 * x - 1, lambda x: 0.5 * x - 1),
    ("witch", 1, lambda x: 1 / (1 + x * x), lambda x: 1 / (1 + x * x)),
    ("root", 1, lambda x: oc.sqrt(1 + x * x), lambda x: np.sqrt(1 + x * x)),
    ("add", 2, lambda x, y: x + y, np.add),
    ("sub", 2, lambda x, y: x - y, np.subtract),
    ("mul", 2, lambda x, y: x * y, np.multiply),
    ("ratio", 2, lambda x, y: x / (2 + oc.cos(y)), lambda x, y: x / (2 + np.cos(y))),
    ("maximum", 2, lambda x, y: oc.maximum(x, y), maximum),
    ("minimum", 2, lambda x, y: oc.minimum(x, y), minimum),
    ("fma", 3, lambda x, y, z: oc.fma(x, y, z), lambda x, y, z: x * y + z),
    ("mul3", 3, lambda x, y, z: oc.mul3(x, y, z), lambda x, y, z: x * y * z),
    ("choose", 4, lambda x, y, a, b: oc.where(x < y, a, b), choose),
]
