"""Random second derivatives, through `oc.checkpoint` and without it, and gradients of what dropout has left
out, with their values in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn

from .random_features import Feature

Array = NDArray[np.float64]
SIZES = (1, 2, 5, 16, 33)

CURVES: tuple[
    tuple[Callable[[oc.Tensor], oc.Tensor], Callable[[Array], Array], Callable[[Array], Array]], ...
] = (
    (oc.sin, np.cos, lambda x: -np.sin(x)),
    (oc.exp, np.exp, np.exp),
    (oc.tanh, lambda x: 1 - np.tanh(x) ** 2, lambda x: -2 * np.tanh(x) * (1 - np.tanh(x) ** 2)),
    (lambda t: t**3 / 4, lambda x: 0.75 * x**2, lambda x: 1.5 * x),
    (
        lambda t: 1 / (1 + t * t),
        lambda x: -2 * x / (1 + x**2) ** 2,
        lambda x: (6 * x**2 - 2) / (1 + x**2) ** 3,
    ),
)
"""Functions, with their first and second derivatives."""


def perhaps(chance: Generator, function: Callable[..., Any]) -> Callable[..., Any]:
    return oc.checkpoint(function) if chance.random() < 0.6 else function


def curvature(chance: Generator) -> list[Feature]:
    """The second derivative of a function of a product, along a direction: by reverse mode over reverse mode,
    or by forward mode over it.
    """
    rows, inputs, outputs = (int(chance.choice(SIZES)) for _ in range(3))
    ours, slope, curve = CURVES[chance.integers(len(CURVES))]
    x, w, v = (chance.normal(size=shape) for shape in ((rows, inputs), (inputs, outputs), (rows, inputs)))
    w /= inputs
    xt, wt, vt = (oc.data(array, axes="oo") for array in (x, w, v))

    def layer(t: oc.Tensor) -> oc.Tensor:
        return perhaps(chance, ours)(oc.einsum("a, b; b, c => a, c", t, wt))

    first = oc.grad(perhaps(chance, layer)(xt).sum(), xt)
    second = oc.grad((first * vt).sum(), xt) if chance.random() < 0.5 else oc.jvp(first, xt, vt)
    pre = x @ w
    found = [Feature("gradient of a layer", first, slope(pre) @ w.T, 1e-9, 1.0)]
    return [*found, Feature("second derivative", second, (curve(pre) * (v @ w)) @ w.T, 1e-9, 1.0)]


def left_out(chance: Generator) -> list[Feature]:
    """Elements that dropout leaves out have no gradient: that is linear in what it keeps."""
    size, rate = int(chance.choice(SIZES)), float(chance.choice([0.1, 0.5, 0.9]))
    x, k = chance.uniform(0.5, 2.0, size), chance.normal(size=size)
    xt, kt = oc.data(x), oc.data(k)
    drop, step = nn.dropout(rate), int(chance.integers(1000))
    y = perhaps(chance, lambda t: drop(oc.exp(t), step))(xt)
    slope = oc.grad((y * kt).sum(), xt)
    kept = oc.where(oc.eq(y, 0.0), 1.0, y / oc.exp(xt) * (1 - rate))
    return [
        Feature("gradient of dropout", slope - y * kt, np.zeros(size), 1e-9, 1.0),
        Feature("what dropout keeps", kept, np.ones(size), 1e-9, 1.0),
    ]


def checkpoints(chance: Generator) -> list[Feature]:
    return (curvature, curvature, left_out)[chance.integers(3)](chance)
