"""Random code that each run goes on with: scans that are trained and whose carry is kept, and parameters that
are kept in f32 and used in smaller floats. Their values after some runs, in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import ocannl as oc

from .random_features import Feature

Array = NDArray[np.float64]
RATE = 0.01


def trained_scan(chance: Generator, runs: int) -> list[Feature]:
    """A recurrent layer whose weights are trained and whose carry is where the next run begins."""
    length, size = int(chance.choice([1, 2, 5, 16])), int(chance.choice([1, 3, 17]))
    xs, weights = chance.normal(size=(length, size)), chance.normal(size=(length, size))
    begin, factor = chance.normal(size=size), 0.5 * chance.normal(size=size)
    reverse, blocks = bool(chance.random() < 0.3), int(chance.integers(1, length + 1))
    state, w = oc.data(begin, label="state"), oc.data(factor, label="factor")

    def cell(c: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        new = oc.tanh(c * w + x)
        return new, new * new

    every = blocks if chance.random() < 0.5 else None
    ys, last = oc.scan(cell, state, oc.data(xs), reverse=reverse, checkpoint_every=every)
    slope = oc.grad((ys * oc.data(weights)).sum(), w)
    new = oc.node("new", output=[size], dtype=np.float64)
    new[...] = last
    w[...] -= RATE * slope
    state[...] = new

    order = [*reversed(range(length))] if reverse else [*range(length)]
    for _ in range(runs):
        begin, change = _trained(order, xs, weights, begin, factor)
        factor = factor - RATE * change
    return [Feature("carry of a scan", state, begin, 1e-9), Feature("trained scan", w, factor, 1e-9)]


def _trained(order: list[int], xs: Array, weights: Array, begin: Array, factor: Array) -> tuple[Array, Array]:
    """The last carry, and the gradient of the factor by backpropagation through time."""
    carries = [begin]
    for t in order:
        carries.append(np.tanh(carries[-1] * factor + xs[t]))
    cotangent, change = np.zeros_like(begin), np.zeros_like(begin)
    for k in reversed(range(len(order))):
        before, after = carries[k], carries[k + 1]
        inner = (cotangent + 2 * after * weights[order[k]]) * (1 - after**2)
        change += inner * before
        cotangent = inner * factor
    return carries[-1], change


def narrow_parameters(chance: Generator, runs: int) -> list[Feature]:
    """A layer whose parameter is kept in f32 and multiplied in bf16 or f16, and trained."""
    dtype: Any = (oc.bfloat16, oc.float16)[chance.integers(2)]
    rows, inputs, outputs = (int(chance.choice([1, 2, 5, 16, 33])) for _ in range(3))
    x, weights = chance.normal(size=(rows, inputs)), chance.normal(size=(rows, outputs))
    kept = chance.normal(size=(outputs, inputs)) / inputs
    with oc.precision(oc.float32, compute=dtype):
        w = oc.param("narrow", kept.astype(np.float32))
    y = oc.tanh(w @ oc.data(x.astype(np.float32), axes="bo"))
    loss = (y * oc.data(weights.astype(np.float32), axes="bo")).sum()
    (memory,) = oc.params(w).values()
    oc.run(oc.forward(y))
    memory[...] -= RATE * oc.grad(loss, memory)

    kept, wanted = kept.astype(np.float32).astype(np.float64), np.zeros((rows, outputs))
    operand = x.astype(np.float32).astype(dtype).astype(np.float64)
    for _ in range(runs):
        wanted = np.tanh(operand @ kept.astype(dtype).astype(np.float64).T)
        kept = kept - RATE * ((1 - wanted**2) * weights).T @ operand
    return [
        Feature("narrow product", y, wanted, 2e-2, np.sqrt(inputs)),
        Feature("narrow parameter", memory, kept, 2e-2, 1.0),
    ]


def updates(chance: Generator, runs: int) -> list[Feature]:
    """Memory, with what it holds after so many runs of the code that is being built."""
    return (trained_scan, narrow_parameters)[chance.integers(2)](chance, runs)
