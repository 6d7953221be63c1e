"""Batch normalization, and its references in NumPy and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.nn.check import Array, Case, arrays_of

import ocannl as oc
from ocannl import nn

X0, X1, X3 = (2 + 3 * x for x in arrays_of((4,), (6, 4), (3, 2, 5, 4)))


def in_training(norm: Any) -> Any:
    return lambda x: norm(x, train_step=oc.index("step_n"))


def batch_norm(x: Array, gain: Array, offset: Array, epsilon: float = 1e-5) -> Array:
    axes = tuple(range(x.ndim - 1))
    return (x - x.mean(axes)) / np.sqrt(x.var(axes) + epsilon) * gain + offset


def torch_batch_norm(x: Any, gain: Any, offset: Any, epsilon: float = 1e-5) -> Any:
    functional = pytest.importorskip("torch").nn.functional
    rows = functional.batch_norm(x.flatten(0, -2), None, None, gain, offset, training=True, eps=epsilon)
    return rows.reshape(x.shape)


CASES = {
    "1d": Case(
        in_training(nn.batch_norm1d(label="n")),
        [X1],
        lambda p, x: batch_norm(x, p["n.gain"], p["n.offset"]),
        lambda p, x: torch_batch_norm(x, p["n.gain"], p["n.offset"]),
    ),
    "2d, epsilon": Case(
        in_training(nn.batch_norm2d(epsilon=0.3, label="n")),
        [X3],
        lambda p, x: batch_norm(x, p["n.gain"], p["n.offset"], 0.3),
        lambda p, x: torch_batch_norm(x, p["n.gain"], p["n.offset"], 0.3),
    ),
    "after training": Case(
        nn.batch_norm1d(label="n"),
        [X1],
        lambda p, x: x / np.sqrt(1 + 1e-5) * p["n.gain"] + p["n.offset"],
        lambda p, x: x / (1 + 1e-5) ** 0.5 * p["n.gain"] + p["n.offset"],
    ),
    "without parameters": Case(
        in_training(nn.batch_norm1d(affine=False, label="n")),
        [X1],
        lambda p, x: batch_norm(x, np.ones(x.shape[-1]), np.zeros(x.shape[-1])),
        lambda p, x: torch_batch_norm(x, None, None),
    ),
    "no batch axes": Case(
        nn.batch_norm1d(label="n"),
        [X0],
        lambda p, x: x / np.sqrt(1 + 1e-5) * p["n.gain"] + p["n.offset"],
        lambda p, x: x / (1 + 1e-5) ** 0.5 * p["n.gain"] + p["n.offset"],
    ),
}
