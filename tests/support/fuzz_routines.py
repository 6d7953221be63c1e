"""Runs random routines with each load and store checked to be inside of its array.

    OCANNL_CHECK=1 python -m support.fuzz_routines 100000 --seed 1      # in tests/

A routine has expressions, products, gathers, parts, updates of memory by static indices, and gradients; it is
called and looped over. An access outside of an array raises `oc.DeviceError`; ids that are no positions are
told, and go on. Some have `Features`, too, whose values are compared with NumPy's. Several are compiled
together, for one of several processors: where something fails, each is run alone.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.random import Generator

import ocannl as oc

from .random_features import Feature, Features

# The processors that code is for: what a machine lacks is not run there.
TARGETS = (None, None, "x86-64-v3")
COUNT = 5
FEATURES = 0.5
"""The share of routines with a feature."""
UNCHECKED = 0.3

POINTWISE: tuple[Callable[..., oc.Tensor], ...] = (*(oc.relu, oc.exp2, oc.sin, oc.sign, oc.floor, oc.abs),)
ALONG = (oc.cumsum, oc.cummax, oc.flip, oc.sort, lambda t, axis: oc.roll(t, 2, axis))


class Routine:
    """One routine by chance: tensors of which each may read those before it, and code."""

    def __init__(self, chance: Generator) -> None:
        self.chance = chance
        self.pool = [self.data() for _ in range(chance.integers(1, 4))]
        for _ in range(chance.integers(1, 6)):
            self.pool.append(self.step(self.one()))

    def data(self) -> oc.Tensor:
        shape = self.chance.integers(self.chance.random() > 0.1, 9, self.chance.integers(1, 4))
        dtype = (np.float32, np.float64)[self.chance.integers(2)]
        return oc.data(self.chance.normal(size=shape).astype(dtype))

    def one(self) -> oc.Tensor:
        return self.pool[self.chance.integers(len(self.pool))]

    def step(self, t: oc.Tensor) -> oc.Tensor:
        makers = (self.pointwise, self.pair, self.along, self.reduced, self.part, self.gathered, self.product)
        return makers[self.chance.integers(len(makers))](t)

    def pointwise(self, t: oc.Tensor) -> oc.Tensor:
        return POINTWISE[self.chance.integers(len(POINTWISE))](t)

    def pair(self, t: oc.Tensor) -> oc.Tensor:
        same = [other for other in self.pool if tuple(other.shape) == tuple(t.shape)]
        other = same[self.chance.integers(len(same))]
        return (t + other, t * other, oc.maximum(t, other), oc.where(t > other, t, 0.5))[
            self.chance.integers(4)
        ]

    def axis(self, t: oc.Tensor) -> int:
        return int(self.chance.integers(t.ndim))

    def along(self, t: oc.Tensor) -> oc.Tensor:
        return ALONG[self.chance.integers(len(ALONG))](t, self.axis(t)) if t.ndim else t

    def reduced(self, t: oc.Tensor) -> oc.Tensor:
        how = (oc.sum, oc.max, oc.mean, oc.prod)[self.chance.integers(4)]
        axis = self.axis(t) if t.ndim else 0
        if t.ndim and t.shape[axis] == 0:
            how = oc.sum
        return how(t, axis, bool(self.chance.integers(2))) if t.ndim else t

    def part(self, t: oc.Tensor) -> oc.Tensor:
        if not t.ndim:
            return t
        axis = self.axis(t)
        size = t.shape[axis]
        at, to = sorted(self.chance.integers(0, size + 1, 2))
        step = int(self.chance.choice([-2, -1, 1, 3]))
        kept = slice(int(at), int(to) + 1, step) if step > 0 else slice(None, None, step)
        key: Any = int(self.chance.integers(-size, size)) if size and self.chance.random() < 0.3 else kept
        return t[(slice(None),) * axis + (key,)]

    def gathered(self, t: oc.Tensor) -> oc.Tensor:
        size = len(t) if t.ndim else 0
        if not size:
            return t
        outside = int(self.chance.random() < 0.1)
        ids = self.chance.integers(-outside, size + outside, self.chance.integers(1, 6))
        return t[oc.data(ids, axes="b") if outside else ids]

    def product(self, t: oc.Tensor) -> oc.Tensor:
        if t.ndim != 2:
            return t
        rows = oc.rearrange(t, "a b -> a b")
        return oc.einsum("a | b; c | b => a | c", rows, rows)

    def statements(self, i: oc.Index) -> None:
        """The forward computation, a gradient, and memory that is written in parts along a static index."""
        last = self.pool[-1]
        total = oc.node("total", output=[COUNT, 7], init=0.0)
        table = oc.data(self.chance.normal(size=(COUNT, 7)).astype(np.float32), label="table")
        total[i, 2:] += table[i][: int(self.chance.integers(1, 6))].sum() + last.sum()
        total[self.chance.integers(COUNT), ::2] *= 0.5
        oc.run(oc.forward(last))
        if last.dtype.kind == "f" and self.chance.random() < 0.5:
            oc.run(oc.forward(oc.grad(last.sum(), self.pool[0])))


def tells_of_ids(seeds: Sequence[tuple[int, int]]) -> bool:
    """Runs routines together; whether they told of ids outside. Raises what else is raised."""
    chance = np.random.default_rng(seeds[0])
    target = TARGETS[chance.integers(len(TARGETS))]
    # Checked code adds up products in plain loops, so some routines are not checked.
    own = {"OCANNL_CHECK": "0"} if chance.random() < UNCHECKED else {}
    with patch.dict(os.environ, own):
        ctx = oc.Context.cpu(threads=int(chance.integers(1, 3)), target=target)
    i, features = oc.index("i", COUNT), list[Feature]()
    try:
        with oc.code("random") as code:
            for seed in seeds:
                own = np.random.default_rng(seed)
                Routine(own).statements(i)
                features += Features(own).some(int(own.random() < FEATURES))
            for feature in features:
                oc.run(oc.forward(feature.value))
        step = ctx.compile(code)
        step(i=0)
        step.run_loop(epochs=2)
    except oc.OcannlError as error:
        if "is outside of 0 to" not in str(error):
            raise
        told = True
    else:
        told = False
    for feature in features:
        feature.check(ctx[feature.value])
    return told


TOGETHER = 8


def run_cases(numbers: Sequence[int]) -> dict[str, int]:
    """Runs routines together; counts those that told of ids outside."""
    return {"told": tells_of_ids([(0, number) for number in numbers])}


def fuzz(count: int, seed: int, together: int = 8) -> int:
    """Runs so many routines, some in one; returns how often ids outside were told. What else they raise notes
    the seeds.
    """
    told = 0
    for first in range(0, count, together):
        seeds = [(seed, number) for number in range(first, min(first + together, count))]
        try:
            told += tells_of_ids(seeds)
        # Whatever it is, its seeds are noted, as few as do it.
        except Exception as error:
            for one in seeds if len(seeds) > 1 else ():
                try:
                    tells_of_ids([one])
                except Exception as alone:
                    alone.add_note(f"the seed is {one}")
                    raise
            error.add_note(f"the seeds are {seeds}")
            raise
        done = seeds[-1][1] + 1
        if done % 1000 < together:
            print(f"{done} routines, told of ids {told} times", flush=True)
    return told


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    fuzz(options.count, options.seed)
