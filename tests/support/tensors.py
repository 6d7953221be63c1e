"""Tensors for tests: arrays, parameters of f64, totals, and routines that have run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import ocannl as oc

Array = NDArray[Any]
TOTAL = "...|...->... => 0"


def arrays_of(*shapes: tuple[int, ...], seed: int = 3) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.uniform(-2, 2, shape)) for shape in shapes]


def param(name: str, array: Array) -> oc.Tensor:
    return oc.param(name, array, output=list(array.shape), input=[], dtype=np.float64)


def total(tensor: oc.Tensor) -> oc.Tensor:
    return tensor.einsum(TOTAL)


def run(ctx: oc.Context, code: oc.Code, name: str = "routine") -> oc.Routine:
    routine = ctx.compile(code, name=name)
    routine()
    return routine
