"""Random programs in eager mode, of which many share operations and take others' data, are those of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from support.tensors import Array

import ocannl as oc

Step = Callable[[Any, Any], Any]
"""Makes another array or tensor of one, with the functions of `numpy` or `oc`."""


class OfNumPy:
    """NumPy's functions by the names of `oc`."""

    where, sort, clip, cumsum = np.where, np.sort, np.clip, np.cumsum

    @staticmethod
    def concat(spec: str, a: Array, b: Array) -> Array:
        return np.concatenate([a, b], axis=-1)


def step(random: Random, rows: int, columns: int) -> Step:
    """A step whose numbers and positions change each time."""
    i, j = random.randrange(rows), random.randrange(columns)
    low = round(random.uniform(-2, 2), 2)
    high = low + random.choice([0.5, 1.0])
    ids = [random.randrange(rows) for _ in range(2)]
    steps: list[Step] = [
        lambda x, of: x * low + high,
        lambda x, of: of.clip(x, low, high),
        lambda x, of: of.where(x > low, x, high),
        lambda x, of: x + x[i] * low,
        lambda x, of: x[ids],
        lambda x, of: x + x[ids, [j, columns - 1]].sum(),
        lambda x, of: x[i : i + 2],
        lambda x, of: x[:, j:],
        lambda x, of: x[::-1, j][:, None] - x,
        lambda x, of: x - x.mean(-1)[:, None],
        lambda x, of: of.sort(x),
        lambda x, of: of.cumsum(x, -1),
        lambda x, of: of.concat("... | i; ... | j => ... | i^j", x, x),
    ]
    return random.choice(steps)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_programs_that_share_operations(seed: int):
    random, rng = Random(seed), np.random.default_rng(seed)
    with oc.Context.cpu(threads=1), oc.eager():
        for number in range(60 if seed == 1 else 2000):
            array = rng.normal(size=random.choice([(4, 3), (4, 5)]))
            x, again = oc.data(array, label="x"), Random(number % 8)
            for _ in range(3):
                # Of a few programs, with positions and numbers of this one.
                apply = step(random if again.random() < 0.5 else again, *array.shape)
                array, x = apply(array, OfNumPy), apply(x, oc)
                if random.random() < 0.3:
                    np.testing.assert_allclose(x.numpy(), array, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(x.numpy(), array, rtol=1e-9, atol=1e-9)
