"""Random arithmetic of integers and truth values, memory written at computed positions, and gradients that a
program gives itself, with their values in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import ocannl as oc

from .random_features import Feature

Array = NDArray[Any]
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32)
Pair = tuple[Callable[..., oc.Tensor], Callable[..., Array]]
ARITHMETIC: tuple[Pair, ...] = (
    (lambda t, u: t + u, np.add),
    (lambda t, u: t - u, np.subtract),
    (lambda t, u: t * u, np.multiply),
    (lambda t, u: t // u, np.floor_divide),
    (lambda t, u: t % u, np.remainder),
    (lambda t, u: t & u, np.bitwise_and),
    (lambda t, u: t | u, np.bitwise_or),
    (lambda t, u: t ^ u, np.bitwise_xor),
    (oc.maximum, np.maximum),
    (oc.minimum, np.minimum),
    (lambda t, u: oc.where(t < u, t, u - t), lambda x, y: np.where(x < y, x, y - x)),
)
ALONE: tuple[Pair, ...] = (
    (lambda t: -t, np.negative),
    (lambda t: ~t, np.invert),
    (oc.abs, np.abs),
    (oc.sign, np.sign),
    (lambda t: t << 3, lambda x: x << 3),
    (lambda t: t >> 2, lambda x: x >> 2),
    (lambda t: 3 * t + 1, lambda x: 3 * x + 1),
    (lambda t: oc.cumsum(t, -1), lambda x: np.cumsum(x, -1, dtype=x.dtype)),
    (lambda t: oc.sort(t, 0), lambda x: np.sort(x, 0)),
    (lambda t: oc.cummax(t, 0), lambda x: np.maximum.accumulate(x, 0)),
    (lambda t: oc.flip(t, -1), lambda x: np.flip(x, -1)),
    (lambda t: oc.sum(t, 0, True), lambda x: np.sum(x, 0, keepdims=True, dtype=x.dtype)),
    (lambda t: oc.prod(t, -1, True), lambda x: np.prod(x, -1, keepdims=True, dtype=x.dtype)),
    (lambda t: oc.max(t, -1, True), lambda x: np.max(x, -1, keepdims=True)),
    (lambda t: t[::-1, ::2][:, :1], lambda x: x[::-1, ::2][:, :1]),
)


def number(chance: Generator, dtype: Any, shape: tuple[int, ...]) -> Array:
    """Small numbers, and now and then the least or greatest ones."""
    bounds = np.iinfo(dtype)
    array = chance.integers(-9 if bounds.min else 0, 10, shape).astype(dtype)
    ends = np.array([bounds.min, bounds.max], dtype)[chance.integers(0, 2, shape)]
    return np.where(chance.random(shape) < 0.2, ends, array)


def integers(chance: Generator) -> list[Feature]:
    """A few steps of whole numbers, each of all that came before it."""
    shape = int(chance.integers(1, 9)), int(chance.integers(1, 40))
    pool: list[tuple[oc.Tensor, Array]] = []
    for _ in range(int(chance.integers(2, 4))):
        array = number(chance, INTEGERS[chance.integers(len(INTEGERS))], shape)
        pool.append((oc.data(array, axes="oo"), array))
    with np.errstate(all="ignore"):
        for _ in range(int(chance.integers(1, 6))):
            (t, x), (u, y) = (pool[chance.integers(len(pool))] for _ in range(2))
            match int(chance.integers(4)):
                case 0:
                    ours, theirs = ALONE[chance.integers(len(ALONE))]
                    pool.append((ours(t), np.asarray(theirs(x))))
                case 1:
                    dtype = INTEGERS[chance.integers(len(INTEGERS))]
                    pool.append((oc.cast(t, dtype), x.astype(dtype)))
                case 2:
                    factor = int(chance.integers(2, 5))
                    pool.append((oc.where(t > u, t, factor), np.where(x > y, x, x.dtype.type(factor))))
                case _:
                    ours, theirs = ARITHMETIC[chance.integers(len(ARITHMETIC))]
                    pool.append((ours(t, u), np.asarray(theirs(x, y))))
    value, wanted = pool[-1]
    return [Exact("integers", value, wanted, 0.0), Exact("truth", value > 3, wanted > 3, 0.0)]


class Exact(Feature):
    """A value of which each bit is known, and the type."""

    def check(self, found: Array) -> None:
        assert found.dtype == self.wanted.dtype, (self.name, self.value, found.dtype, self.wanted.dtype)
        np.testing.assert_array_equal(found, self.wanted, f"{self.name}: {self.value!r}")


def written(chance: Generator) -> list[Feature]:
    """Memory of which parts are set, added to, or made larger, at positions that are computed."""
    shape = tuple(int(n) for n in chance.integers(1, 7, 3))
    contents = np.zeros(shape)
    memory = oc.node("memory", output=[*shape], init=0.0, dtype=np.float64)
    memory[...] = 0.0
    with np.errstate(all="ignore"):
        for _ in range(int(chance.integers(1, 4))):
            key, keys = [], []
            # Integers stand beside ids, or there are none.
            has_ids = bool(chance.integers(2))
            for size in shape[: chance.integers(1, 4)]:
                start = int(chance.integers(size))
                ids = chance.permutation(size)[: chance.integers(1, size + 1)]
                part = slice(start, size, int(chance.integers(1, 3)))
                is_first = not any(isinstance(k, np.ndarray) for k in keys)
                own: Any = (part, ids if has_ids and is_first else part if has_ids else start)[
                    chance.integers(2)
                ]
                keys.append(own)
                key.append(oc.data(own, axes="o") if isinstance(own, np.ndarray) else own)
            at = tuple(keys)
            values = chance.normal(size=contents[at].shape)
            tensor = oc.data(values, axes="o" * values.ndim)
            match int(chance.integers(3)):
                case 0:
                    memory[tuple(key)] = tensor
                    contents[at] = values
                case 1:
                    memory[tuple(key)] += tensor
                    contents[at] += values
                case _:
                    oc.accumulate(memory.at[tuple(key)], "max", tensor)
                    contents[at] = np.maximum(contents[at], values)
    return [Feature("written", memory, contents, 1e-12)]


@oc.custom_gradient
def rounded_through(x: oc.Tensor) -> tuple[oc.Tensor, Callable[[oc.Tensor], oc.Tensor]]:
    return oc.round(2 * x), lambda cotangent: 3 * cotangent


@oc.custom_gradient
def product_of(x: oc.Tensor, y: oc.Tensor) -> Any:
    return x * y, lambda cotangent: (cotangent * oc.tanh(y), None)


def custom(chance: Generator) -> list[Feature]:
    """Gradients through operations that say their own, of arguments that are broadcast."""
    rows, size = (int(n) for n in chance.integers(1, 20, 2))
    x = chance.normal(size=size)
    y = chance.normal(size=(rows, size))
    weights = chance.normal(size=(rows, size))
    xt, yt = oc.data(x), oc.data(y)
    factor = oc.data(weights)
    slope = oc.grad((product_of(oc.sin(xt), yt) * factor).sum(), xt)
    through = oc.grad((rounded_through(yt * xt) * factor).sum(), xt)
    return [
        Feature("custom gradient", slope, (weights * np.tanh(y)).sum(0) * np.cos(x), 1e-11, 10.0 * rows),
        Feature("straight through", through, (3 * weights * y).sum(0), 1e-11, 10.0 * rows),
    ]


def winograd(chance: Generator) -> list[Feature]:
    """Convolutions of 3 by 3, and their gradients, of sizes that transformed tiles are chosen for."""
    n, h, w = 2, int(chance.integers(4, 15)), int(chance.integers(4, 15))
    c, o = (int(chance.choice([1, 3, 8, 16, 31, 32])) for _ in range(2))
    x, f = chance.normal(size=(n, h, w, c)), chance.normal(size=(o, 3, 3, c))
    xt, ft = (oc.data(a.astype(np.float32), axes="oooo") for a in (x, f))
    padded = bool(chance.integers(2))
    value = oc.einsum("b, y + i, x + j, c; o, i, j, c => b, y, x, o", xt, ft, use_padding=padded)
    wide = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))) if padded else x
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))
    found = [Feature("3x3", value, np.einsum("byxcij,oijc->byxo", windows, f), 1e-4)]
    weights = chance.normal(size=found[0].wanted.shape)
    spread = np.zeros_like(wide)
    for i in range(3):
        for j in range(3):
            part = spread[:, i : i + weights.shape[1], j : j + weights.shape[2]]
            part += np.einsum("byxo,oc->byxc", weights, f[:, i, j])
    own = spread[:, 1:-1, 1:-1] if padded else spread
    kernels = np.einsum("byxcij,byxo->oijc", windows, weights)
    loss = (value * oc.data(weights.astype(np.float32), axes="oooo")).sum()
    found += [Feature("3x3 image", oc.grad(loss, xt), own, 1e-4)]
    return [*found, Feature("3x3 kernel", oc.grad(loss, ft), kernels, 1e-4)]


def features(chance: Generator) -> list[Feature]:
    return (integers, integers, written, custom, winograd)[chance.integers(5)](chance)
