"""Runs random routines with each load and store checked to be inside of its array.

    OCANNL_CHECK=1 python -m support.fuzz_routines 100000 --seed 1      # in tests/

A routine has expressions, products, gathers, parts, updates of memory by static indices, and gradients; it is
called and looped over. An access outside of an array raises `oc.DeviceError`; ids that are no positions are
told, and go on.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

import ocannl as oc

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
        return how(t, self.axis(t), bool(self.chance.integers(2))) if t.ndim else t

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

    def code(self) -> tuple[oc.Code, oc.Tensor]:
        """The forward computation, a gradient, and memory that is written in parts along a static index."""
        last = self.pool[-1]
        count = int(self.chance.integers(1, 6))
        i = oc.index("i", count)
        total = oc.node("total", output=[count, 7], init=0.0)
        table = oc.data(self.chance.normal(size=(count, 7)).astype(np.float32), label="table")
        with oc.code("random") as code:
            total[i, 2:] += table[i][: int(self.chance.integers(1, 6))].sum() + last.sum()
            total[self.chance.integers(count), ::2] *= 0.5
            oc.run(oc.forward(last))
            if last.dtype.kind == "f" and self.chance.random() < 0.5:
                oc.run(oc.forward(oc.grad(last.sum(), self.pool[0])))
        return code, total


def tells_of_ids(chance: Generator) -> bool:
    """Runs a routine; whether it told of ids outside. Raises what else it raises."""
    ctx = oc.Context.cpu(threads=int(chance.integers(1, 3)))
    try:
        code, _ = Routine(chance).code()
        step = ctx.compile(code)
        step(i=0)
        step.run_loop(epochs=2)
    except oc.OcannlError as error:
        if "is none" not in str(error):
            raise
        return True
    return False


def fuzz(count: int, seed: int) -> int:
    """Runs so many routines; returns how many told of ids outside. What else they raise notes the seed."""
    told = 0
    for number in range(count):
        try:
            told += tells_of_ids(np.random.default_rng((seed, number)))
        # Whatever it is, its seed is noted, and it goes on.
        except Exception as error:
            error.add_note(f"the seed is {(seed, number)}")
            raise
        if number % 1000 == 999:
            print(f"{number + 1} routines, {told} told of ids", flush=True)
    return told


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    fuzz(options.count, options.seed)
