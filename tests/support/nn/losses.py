"""Losses, and their references in NumPy and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.nn.check import Array, Case, arrays_of

from ocannl import nn


def torch_functional() -> Any:
    return pytest.importorskip("torch").nn.functional


def log_softmax(x: Array) -> Array:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def picked(log_probs: Array, ids: Array) -> Array:
    return np.take_along_axis(log_probs, ids[..., None], -1)[..., 0]


def one_number(function: Any) -> Any:
    """Losses have one output axis of size 1."""
    return lambda p, *inputs: function(*inputs).reshape(1)


X0, X1, X3, Y3 = arrays_of((5,), (4, 5), (2, 3, 2, 5), (2, 3, 2, 5))
IDS = {x.ndim: np.asarray(np.random.default_rng(0).integers(0, 5, x.shape[:-1])) for x in (X0, X1, X3)}
PROBS = np.exp(log_softmax(Y3))

CASES = {
    **{
        f"cross entropy of ids, {x.ndim - 1} batch axes": Case(
            nn.cross_entropy,
            [x, IDS[x.ndim]],
            one_number(lambda x, ids: -picked(log_softmax(x), ids).mean()),
            one_number(lambda x, ids: torch_functional().cross_entropy(x.reshape(-1, 5), ids.reshape(-1))),
            [None, "b" * (x.ndim - 1)],
        )
        for x in (X0, X1, X3, 500 * X3)
    },
    "cross entropy of distributions": Case(
        nn.cross_entropy,
        [X3, PROBS],
        one_number(lambda x, y: -(log_softmax(x) * y).sum(-1).mean()),
        one_number(lambda x, y: torch_functional().cross_entropy(x.reshape(-1, 5), y.reshape(-1, 5))),
    ),
    "cross entropy over two output axes": Case(
        nn.cross_entropy,
        [X3, PROBS],
        one_number(lambda x, y: -(log_softmax(x.reshape(6, 10)) * y.reshape(6, 10)).sum(-1).mean()),
        one_number(lambda x, y: torch_functional().cross_entropy(x.reshape(6, 10), y.reshape(6, 10))),
        ["bboo", "bboo"],
    ),
    "nll": Case(
        nn.nll,
        [X1, IDS[2]],
        one_number(lambda x, ids: -picked(x, ids).mean()),
        one_number(lambda x, ids: torch_functional().nll_loss(x, ids)),
        [None, "b"],
    ),
    "binary cross entropy": Case(
        nn.bce_with_logits,
        [10 * X3, 1 / (1 + np.exp(-Y3))],
        one_number(lambda x, y: (np.logaddexp(0, x) - x * y).sum(-1).mean()),
        one_number(
            lambda x, y: (
                torch_functional().binary_cross_entropy_with_logits(x, y, reduction="none").sum(-1).mean()
            )
        ),
    ),
    "mse": Case(
        nn.mse,
        [X3, Y3],
        one_number(lambda a, b: ((a - b) ** 2).mean()),
        one_number(lambda a, b: torch_functional().mse_loss(a, b)),
    ),
    "mse of broadcast operands": Case(
        nn.mse,
        [X3, X0],
        one_number(lambda a, b: ((a - b) ** 2).mean()),
        one_number(lambda a, b: ((a - b) ** 2).mean()),
    ),
    "hinge": Case(
        nn.hinge,
        [X1],
        one_number(lambda x: np.maximum(0, 1 - x).mean()),
        one_number(lambda x: (1 - x).relu().mean()),
    ),
    "mean of all rows": Case(nn.mean, [X3], one_number(np.mean), one_number(lambda x: x.mean()), ["bboi"]),
}
