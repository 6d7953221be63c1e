"""A small model that optimizers train, with its gradients in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn

X, Y = (np.random.default_rng(seed).normal(size=(8, size)) for seed, size in ((0, 3), (1, 4)))
START = {"l.w": np.random.default_rng(2).normal(size=(4, 3)), "l.b": np.random.default_rng(3).normal(size=4)}


class Model:
    """`tanh(w @ x + b)`, and its mean squared error."""

    def __init__(self, dtype: Any = np.float64, bias: bool = True) -> None:
        with oc.scope("l"):
            self.w = oc.param("w", START["l.w"].astype(dtype), dtype=dtype)
            self.b = oc.param("b", START["l.b"].astype(dtype), dtype=dtype) if bias else oc.constant(0.0)
        self.loss = nn.mse(oc.tanh(self.w @ oc.data(X.astype(dtype)) + self.b), oc.data(Y.astype(dtype)))
        self.ctx = oc.Context.cpu(threads=1)
        self.ctx.init_params(self.loss)

    def train(self, code: oc.Code, runs: int) -> dict[str, NDArray[Any]]:
        step = self.ctx.compile(code)
        for _ in range(runs):
            step()
        return {name: np.array(self.ctx[p]) for name, p in oc.params(self.loss).items()}


def gradients(p: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Of the model's loss, in NumPy."""
    y = np.tanh(X @ p["l.w"].T + p.get("l.b", 0.0))
    inner = 2 / Y.size * (y - Y) * (1 - y * y)
    return {"l.w": inner.T @ X, "l.b": inner.sum(axis=0)}


def close(found: Mapping[str, NDArray[Any]], wanted: Mapping[str, NDArray[Any]], tolerance: float) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=tolerance, atol=tolerance, err_msg=name)
