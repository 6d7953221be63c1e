"""The Tensor Puzzles of Sasha Rush (github.com/srush/Tensor-Puzzles), solved by einsum notation and indexing.

Vectors and matrices have output axes only.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ocannl as oc

Array = NDArray[np.float32]
Tensor = oc.Tensor


def size(a: Tensor, axis: int = 0) -> int:
    """An output axis whose size is known."""
    n = a.shape.output[axis]
    assert isinstance(n, int)
    return n


def ones(n: int) -> Tensor:
    return oc.einsum("=> i", 1, i=n)


def total(a: Tensor) -> Tensor:
    return a.einsum("i => 0")


def outer(a: Tensor, b: Tensor) -> Tensor:
    return oc.einsum("i; j => i j", a, b)


def diag(a: Tensor) -> Tensor:
    return a.einsum("i i => i")


def eye(n: int) -> Tensor:
    return oc.einsum("=> i i", 1, i=n)


def triu(n: int) -> Tensor:
    return rows(n, n) <= columns(n, n)


def rows(m: int, n: int) -> Tensor:
    """The number of its row at each place of an m x n matrix."""
    return oc.einsum("i => i j", oc.range(m), j=n)


def columns(m: int, n: int) -> Tensor:
    """The number of its column at each place of an m x n matrix."""
    return oc.einsum("j => i j", oc.range(n), i=m)


def cumsum(a: Tensor) -> Tensor:
    return oc.einsum("i; i j => j", a, triu(size(a)))


def diff(a: Tensor) -> Tensor:
    return a - a.einsum("i => 1^i").einsum("i^1 => i")


def vstack(a: Tensor, b: Tensor) -> Tensor:
    return oc.stack([a, b], axis="output")


def roll(a: Tensor) -> Tensor:
    return a.einsum("f^r => r^f", f=1)


def flip(a: Tensor) -> Tensor:
    n = size(a)
    return oc.gather("i; j => j", a, n - 1 - oc.range(n), at="i")


def compress(chosen: Tensor, a: Tensor) -> Tensor:
    """The chosen numbers, moved to the front: what is not chosen has no place."""
    place = oc.where(chosen, cumsum(chosen) - 1, -1)
    return oc.scatter("i; i => j", a, place, at="j", j=size(a), out_of_range="drop")


def pad_to(a: Tensor, n: int) -> Tensor:
    m = size(a)
    return a.einsum("i => i^k", k=n - m) if n >= m else a.einsum("i^k => i", i=n)


def sequence_mask(values: Tensor, length: Tensor) -> Tensor:
    m, n = size(values, 0), size(values, 1)
    return values * (columns(m, n) < oc.einsum("i => i j", length, j=n))


def bincount(a: Tensor, n: int) -> Tensor:
    return oc.scatter("; i => j", 1, a, at="j", j=n)


def scatter_add(values: Tensor, link: Tensor, n: int) -> Tensor:
    return oc.scatter("i; i => j", values, link, at="j", j=n)


def flatten(a: Tensor) -> Tensor:
    return a.einsum("i j => i&j")


def linspace(first: Tensor, last: Tensor, n: int) -> Tensor:
    return first + (last - first) * oc.range(n) / max(1, n - 1)


def heaviside(a: Tensor, b: Tensor) -> Tensor:
    return oc.where(oc.eq(a, 0), b, a > 0)


def repeat(a: Tensor, n: int) -> Tensor:
    return oc.einsum("i => d i", a, d=n)


def bucketize(v: Tensor, boundaries: Tensor) -> Tensor:
    below = oc.outer_sum("i; j => i j", v, -boundaries) >= 0
    return below.einsum("i j => i")


Argument = Array | int
Meaning = Callable[[Any], object] | Callable[[Any, Any], object] | Callable[[Any, Any, Any], object]


@dataclass
class Puzzle:
    """A solution, what it is to compute, and arguments for it: arrays (as tensors) and numbers."""

    solution: Callable[..., Tensor]
    meaning: Meaning
    arguments: Callable[[np.random.Generator, int, int], tuple[Argument, ...]]

    def is_solved(self, rng: np.random.Generator) -> bool:
        """Compares with NumPy for random sizes and numbers."""
        m, n = (int(size) for size in rng.integers(1, 6, 2))
        arguments = self.arguments(rng, m, n)
        tensors = [a if isinstance(a, int) else oc.data(a, axes="o" * a.ndim) for a in arguments]
        found = oc.Context.auto()[self.solution(*tensors)]
        meaning: Callable[..., object] = self.meaning
        wanted = np.asarray(meaning(*arguments), np.float32)
        return found.shape == wanted.shape and np.allclose(found, wanted, rtol=1e-6)


def numbers(rng: np.random.Generator, *sizes: int, low: int = -5, high: int = 6) -> Array:
    return rng.integers(low, high, sizes).astype(np.float32)


def rolled(a: Array) -> Array:
    return np.roll(a, -1)


def spaced(first: Array, last: Array, n: int) -> Array:
    return np.linspace(first[0], last[0], n)


def compressed(chosen: Array, a: Array) -> Array:
    found = a[chosen.astype(bool)]
    return np.pad(found, (0, len(a) - len(found)))


def padded(a: Array, n: int) -> Array:
    return np.pad(a, (0, max(0, n - len(a))))[:n]


def masked(values: Array, length: Array) -> Array:
    return values * (np.arange(values.shape[1]) < length[:, None])


def added(values: Array, link: Array, n: int) -> Array:
    found = np.zeros(n, np.float32)
    np.add.at(found, link.astype(int), values)
    return found


PUZZLES = {
    "ones": Puzzle(ones, np.ones, lambda rng, m, n: (n,)),
    "sum": Puzzle(total, lambda a: [a.sum()], lambda rng, m, n: (numbers(rng, n),)),
    "outer": Puzzle(outer, np.outer, lambda rng, m, n: (numbers(rng, m), numbers(rng, n))),
    "diag": Puzzle(diag, np.diag, lambda rng, m, n: (numbers(rng, n, n),)),
    "eye": Puzzle(eye, np.eye, lambda rng, m, n: (n,)),
    "triu": Puzzle(triu, lambda n: np.triu(np.ones((n, n))), lambda rng, m, n: (n,)),
    "cumsum": Puzzle(cumsum, np.cumsum, lambda rng, m, n: (numbers(rng, n),)),
    "diff": Puzzle(diff, lambda a: np.diff(a, prepend=0), lambda rng, m, n: (numbers(rng, n),)),
    "vstack": Puzzle(
        vstack, lambda a, b: np.stack([a, b]), lambda rng, m, n: (numbers(rng, n), numbers(rng, n))
    ),
    "roll": Puzzle(roll, rolled, lambda rng, m, n: (numbers(rng, n),)),
    "flip": Puzzle(flip, lambda a: a[::-1], lambda rng, m, n: (numbers(rng, n),)),
    "compress": Puzzle(
        compress, compressed, lambda rng, m, n: (numbers(rng, n, low=0, high=2), numbers(rng, n))
    ),
    "pad_to": Puzzle(pad_to, padded, lambda rng, m, n: (numbers(rng, m), n)),
    "sequence_mask": Puzzle(
        sequence_mask, masked, lambda rng, m, n: (numbers(rng, m, n), numbers(rng, m, low=0, high=n + 1))
    ),
    "bincount": Puzzle(
        bincount,
        lambda a, n: added(np.ones_like(a), a, n),
        lambda rng, m, n: (numbers(rng, m, low=0, high=n), n),
    ),
    "scatter_add": Puzzle(
        scatter_add, added, lambda rng, m, n: (numbers(rng, m), numbers(rng, m, low=0, high=n), n)
    ),
    "flatten": Puzzle(flatten, np.ravel, lambda rng, m, n: (numbers(rng, m, n),)),
    "linspace": Puzzle(linspace, spaced, lambda rng, m, n: (numbers(rng, 1), numbers(rng, 1), n)),
    "heaviside": Puzzle(heaviside, np.heaviside, lambda rng, m, n: (numbers(rng, n), numbers(rng, n))),
    "repeat": Puzzle(repeat, lambda a, n: np.tile(a, (n, 1)), lambda rng, m, n: (numbers(rng, m), n)),
    "bucketize": Puzzle(
        bucketize, np.digitize, lambda rng, m, n: (numbers(rng, m), np.sort(numbers(rng, n)))
    ),
}


def main(args: list[str] | None = None) -> dict[str, bool]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tries", type=int, default=5, help="how often each puzzle is tried")
    options = parser.parse_args(args)
    rng = np.random.default_rng(options.seed)
    solved: dict[str, bool] = {}
    for name, puzzle in PUZZLES.items():
        solved[name] = all(puzzle.is_solved(rng) for _ in range(options.tries))
        print(f"{name:13} {'solved' if solved[name] else 'NOT SOLVED'}")
    print(f"{sum(solved.values())} of {len(PUZZLES)} puzzles are solved")
    return solved


if __name__ == "__main__":
    main()
