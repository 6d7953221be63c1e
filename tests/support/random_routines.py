"""Random routines, whose values are those of NumPy.

Beside each tensor stands its value in f64, and some more that are computed from numbers that differ by
roundings of the tensor's precision. Where these are far apart, such as behind a sine of a large number or
at a kink, a result may be as far from the first one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import ocannl as oc

Array = NDArray[Any]
COUNT = 5
COPIES = 4
SLACK = 40.0
"""How many times as far as the other values a result may be from the first one."""
WIDE = (np.float32, np.float64)
NARROW = (oc.bfloat16, np.float16)


@dataclass
class Known:
    """A tensor and its values, along the first axis: what it is, and what it may be with other roundings."""

    tensor: oc.Tensor
    values: Array

    def check(self, found: Array) -> None:
        wanted = self.values[0]
        bounds: Any = np.finfo(self.tensor.dtype) if self.tensor.dtype.itemsize > 2 else None
        share = 10 * float(bounds.eps) if bounds else 2e-2
        with np.errstate(all="ignore"):
            spread = np.abs(self.values - wanted).max(0)
            allowed = share * np.abs(wanted) + SLACK * spread + (float(bounds.tiny) if bounds else 1e-4)
            is_known = np.isfinite(self.values).all(0)
            wrong = is_known & ~(np.abs(found.astype(np.float64) - wanted) <= allowed)
        if not found.shape == wanted.shape:
            raise AssertionError(f"{self.tensor!r} has the shape {found.shape}, NumPy's is {wanted.shape}")
        if wrong.any():
            at = np.unravel_index(np.argmax(wrong), wrong.shape)
            raise AssertionError(
                f"{wrong.sum()} of {wrong.size} numbers of {self.tensor!r} are wrong, at {at}: "
                f"{found[at]} is not {wanted[at]} +- {allowed[at]:.2g}"
            )


@dataclass
class Derivative:
    """A gradient, and how the number changes along a direction."""

    slope: oc.Tensor
    change: oc.Tensor
    direction: Array

    def check(self, ctx: oc.Context) -> None:
        slope, change = ctx[self.slope].astype(np.float64), float(ctx[self.change])
        if not np.isfinite(change) or not np.isfinite(slope).all():
            return
        terms = slope * self.direction
        # Terms that cancel out inside of the two are not seen here.
        allowed = 1e-3 * (np.abs(terms).sum() + 1e-3)
        found = terms.sum()
        if not abs(found - change) <= allowed:
            raise AssertionError(f"reverse mode gives {found}, forward mode {change} +- {allowed}")


def rounded(values: Array, dtype: np.dtype[Any], chance: Generator) -> Array:
    """Values as a tensor keeps them, the other ones moved by about a rounding."""
    size = 1e-2 if dtype.itemsize == 2 else 2 * float(np.finfo(dtype).eps)
    with np.errstate(all="ignore"):
        by = chance.uniform(0.3, 1.0, values[1:].shape) * chance.choice([-size, size], values[1:].shape)
        others = values[1:] * (1 + by)
        kept = values[:1].astype(dtype).astype(np.float64)
        too_large = np.isinf(others.astype(dtype).astype(np.float64))
    return np.concatenate([kept, np.where(too_large, np.inf * np.sign(others), others)])


def larger_or_half(x: Array, y: Array) -> Array:
    """The first numbers where these are larger, else 0.5; not known where one of both is not."""
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x, 0.5))


Pair = tuple[Callable[..., oc.Tensor], Callable[..., Array]]
"""The same of tensors, and of arrays whose first axis is that of the values."""

POINTWISE: tuple[Pair, ...] = (
    (oc.relu, lambda x: np.maximum(x, 0.0)),
    (oc.exp2, np.exp2),
    (oc.sin, np.sin),
    (oc.cos, np.cos),
    (oc.tanh, np.tanh),
    (oc.sign, np.sign),
    (oc.floor, np.floor),
    (oc.abs, np.abs),
    (lambda t: 1 / (1 + t * t), lambda x: 1 / (1 + x * x)),
    (lambda t: oc.sqrt(oc.abs(t)), lambda x: np.sqrt(np.abs(x))),
    (lambda t: 0.5 * t - 2, lambda x: 0.5 * x - 2),
    (lambda t: oc.where(t < 0.25, -t, t * t), lambda x: np.where(x < 0.25, -x, x * x)),
)
PAIRS: tuple[Pair, ...] = (
    (lambda t, u: t + u, np.add),
    (lambda t, u: t * u, np.multiply),
    (lambda t, u: t - 0.5 * u, lambda x, y: x - 0.5 * y),
    (oc.maximum, np.maximum),
    (oc.minimum, np.minimum),
    (lambda t, u: oc.where(t > u, t, 0.5), larger_or_half),
    (lambda t, u: t / (2 + oc.cos(u)), lambda x, y: x / (2 + np.cos(y))),
)


def sorted_along(x: Array, axis: int) -> Array:
    """Sorted numbers, of which none is known where one was not: that may stand anywhere."""
    return np.where(np.isnan(x).any(axis, keepdims=True), np.nan, np.sort(x, axis))


ALONG: tuple[Pair, ...] = (
    (oc.cumsum, np.cumsum),
    (oc.cummax, np.maximum.accumulate),
    (oc.flip, np.flip),
    (oc.sort, sorted_along),
    (lambda t, axis: oc.roll(t, 2, axis), lambda x, axis: np.roll(x, 2, axis)),
)
REDUCERS: tuple[tuple[Callable[..., oc.Tensor], Callable[..., Array]], ...] = (
    (oc.sum, np.sum),
    (oc.max, np.max),
    (oc.min, np.min),
    (oc.mean, np.mean),
    (oc.prod, np.prod),
)


class Routine:
    """One routine by chance: tensors of which each may read those before it, and code. Data are split over
    the axis of a mesh, or are not, by chance, too.
    """

    def __init__(self, chance: Generator, split: str | None = None) -> None:
        self.chance, self.split = chance, split
        self.derivatives: list[Derivative] = []
        self.types = WIDE if chance.random() < 0.8 else WIDE + NARROW
        self.pool = [self.data() for _ in range(chance.integers(1, 4))]
        for _ in range(chance.integers(1, 6)):
            self.step(self.one())

    def data(self) -> Known:
        shape = self.chance.integers(self.chance.random() > 0.1, 9, self.chance.integers(1, 4))
        dtype = self.types[self.chance.integers(len(self.types))]
        array = self.chance.normal(size=shape).astype(dtype)
        return Known(
            oc.data(array, shard=self.placement(array)), np.repeat(array.astype(np.float64)[None], COPIES, 0)
        )

    def placement(self, array: Array) -> Any:
        if self.split is None or self.chance.random() < 0.3:
            return None
        axis = int(self.chance.integers(array.ndim))
        return {"output" if axis == array.ndim - 1 else ("batch", axis): self.split}

    def one(self) -> Known:
        return self.pool[self.chance.integers(len(self.pool))]

    def among(self, pairs: tuple[Pair, ...]) -> Pair:
        return pairs[self.chance.integers(len(pairs))]

    def axis(self, t: Known) -> int:
        return int(self.chance.integers(t.tensor.ndim))

    def loose(self, t: Known) -> Array:
        """The values of a tensor that is added up, which rounds each of its numbers again."""
        return rounded(t.values, t.tensor.dtype, self.chance)

    def step(self, t: Known) -> None:
        makers = (self.pointwise, self.pair, self.along, self.reduced, self.part, self.gathered, self.product)
        with np.errstate(all="ignore"):
            made = makers[self.chance.integers(len(makers))](t)
            if made is not None:
                tensor, values = made
                self.pool.append(Known(tensor, rounded(np.asarray(values), tensor.dtype, self.chance)))

    def pointwise(self, t: Known) -> tuple[oc.Tensor, Array]:
        ours, theirs = self.among(POINTWISE)
        return ours(t.tensor), theirs(t.values)

    def pair(self, t: Known) -> tuple[oc.Tensor, Array]:
        same = [other for other in self.pool if str(other.tensor.shape) == str(t.tensor.shape)]
        other = same[self.chance.integers(len(same))]
        ours, theirs = self.among(PAIRS)
        values = theirs(t.values, other.values)
        if other.tensor.dtype.itemsize < t.tensor.dtype.itemsize:
            # What is computed of the narrow operand alone is rounded where it is read twice.
            values = np.concatenate([values[:1], rounded(values, other.tensor.dtype, self.chance)[1:]])
        return ours(t.tensor, other.tensor), values

    def along(self, t: Known) -> tuple[oc.Tensor, Array] | None:
        if not t.tensor.ndim:
            return None
        (ours, theirs), axis = self.among(ALONG), self.axis(t)
        values = self.loose(t) if ours is oc.cumsum else t.values
        return ours(t.tensor, axis), theirs(values, axis + 1)

    def reduced(self, t: Known) -> tuple[oc.Tensor, Array] | None:
        if not t.tensor.ndim:
            return None
        axis, keep = self.axis(t), bool(self.chance.integers(2))
        ours, theirs = REDUCERS[0] if t.tensor.shape[axis] == 0 else self.among(REDUCERS)
        values = t.values if ours in (oc.max, oc.min) else self.loose(t)
        return ours(t.tensor, axis, keep), theirs(values, axis=axis + 1, keepdims=keep)

    def part(self, t: Known) -> tuple[oc.Tensor, Array] | None:
        if not t.tensor.ndim:
            return None
        axis = self.axis(t)
        size = t.tensor.shape[axis]
        at, to = sorted(self.chance.integers(0, size + 1, 2))
        step = int(self.chance.choice([-2, -1, 1, 3]))
        kept = slice(int(at), int(to) + 1, step) if step > 0 else slice(None, None, step)
        key: Any = int(self.chance.integers(-size, size)) if size and self.chance.random() < 0.3 else kept
        before = (slice(None),) * axis
        return t.tensor[(*before, key)], t.values[(slice(None), *before, key)]

    def gathered(self, t: Known) -> tuple[oc.Tensor, Array] | None:
        """Some ids are not positions; what they give is not known then."""
        size = len(t.tensor) if t.tensor.ndim else 0
        if not size:
            return None
        outside = int(self.chance.random() < 0.1)
        ids = self.chance.integers(-outside, size + outside, self.chance.integers(1, 6))
        values = t.values[:, ids.clip(0, size - 1)]
        values[:, (ids < 0) | (ids >= size)] = np.nan
        return t.tensor[oc.data(ids, axes="b") if outside else ids], values

    def product(self, t: Known) -> tuple[oc.Tensor, Array] | None:
        if t.tensor.ndim != 2:
            return None
        rows = oc.rearrange(t.tensor, "a b -> a b")
        values = np.einsum("vab,vcb->vac", self.loose(t), self.loose(t))
        return oc.einsum("a | b; c | b => a | c", rows, rows), values

    def slopes(self, total: oc.Tensor, leaf: Known) -> None:
        """A gradient, and now and then the change along a direction, by the other mode."""
        slope = oc.grad(total, leaf.tensor)
        oc.run(oc.forward(slope))
        if self.types is WIDE and self.chance.random() < 0.4:
            direction = self.chance.normal(size=leaf.values[0].shape)
            change = oc.jvp(total, leaf.tensor, oc.data(direction.astype(leaf.tensor.dtype)))
            oc.run(oc.forward(change))
            self.derivatives.append(Derivative(slope, change, direction))

    def statements(self, i: oc.Index) -> list[Known]:
        """The forward computation, a gradient, and memory that is written in parts along a static index.

        Gives what the memory holds after a run for `i` of 0 and a loop of two epochs, and what was computed.
        """
        last = self.pool[-1]
        total = oc.node("total", output=[COUNT, 7], init=0.0)
        rows = self.chance.normal(size=(COUNT, 7)).astype(np.float32)
        table = oc.data(rows, label="table")
        most, at = int(self.chance.integers(1, 6)), int(self.chance.integers(COUNT))
        total[i, 2:] += table[i][:most].sum() + last.tensor.sum()
        total[at, ::2] *= 0.5
        oc.run(oc.forward(last.tensor))
        if last.tensor.dtype.kind == "f" and self.chance.random() < 0.5:
            self.slopes(last.tensor.sum(), self.pool[0])
        with np.errstate(all="ignore"):
            sums = self.loose(last).reshape(COPIES, -1).sum(1)
            sums = rounded(sums, last.tensor.dtype, self.chance)
            parts = np.repeat(rows[None, :, :most].astype(np.float64), COPIES, 0)
            added = rounded(parts, rows.dtype, self.chance).sum(2)
            added = rounded(added, rows.dtype, self.chance)
            memory = np.zeros((COPIES, COUNT, 7))
            for index in (0, *range(COUNT), *range(COUNT)):
                memory[:, index, 2:] += (added[:, index] + sums)[:, None]
                memory[:, at, ::2] *= 0.5
        return [Known(total, memory), last]
