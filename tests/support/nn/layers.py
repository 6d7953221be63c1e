"""Layers without a memory, and their references in NumPy and PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from support.nn.check import Array, Arrays, Case, arrays_of

import ocannl as oc
from ocannl import nn


def torch_functional() -> Any:
    return pytest.importorskip("torch").nn.functional


def erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x)


def softmax(x: Array, axis: int | tuple[int, ...] = -1) -> Array:
    exps = np.exp(x - x.max(axis=axis, keepdims=True))
    return exps / exps.sum(axis=axis, keepdims=True)


def linear(p: Arrays, x: Array) -> Array:
    return x @ p["linear.w"].T + p["linear.b"]


def perceptron(p: Mapping[str, Any], x: Any, relu: Callable[[Any], Any]) -> Any:
    """Of two hidden layers, over arrays of NumPy or PyTorch."""
    for layer in ("mlp.layer1", "mlp.layer2"):
        x = relu(x @ p[f"{layer}.w"].T + p[f"{layer}.b"])
    return x @ p["mlp.w_out"].T


def layer_norm(x: Array, axis: int | tuple[int, ...] = -1, epsilon: float = 1e-5) -> Array:
    centered = x - x.mean(axis, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis, keepdims=True) + epsilon)


def rms_norm(x: Array, axis: int | tuple[int, ...] = -1, epsilon: float = 1e-5) -> Array:
    return x / np.sqrt((x**2).mean(axis, keepdims=True) + epsilon)


def embedding(dim: oc.RowSizes) -> nn.Layer:
    """Its parameter is made where it is applied, with the precision that holds there."""
    return lambda ids: nn.embedding(num=4, dim=dim)(ids)


(X0, X1, X3, X22) = arrays_of((5,), (4, 5), (2, 3, 2, 5), (3, 4, 5))
IDS = np.array([[1, 2, 0], [3, 1, 1]])

LINEAR = {
    f"{x.ndim - 1} batch axes": Case(
        nn.linear(out_dim=3), [x], linear, lambda p, x: torch_functional().linear(x, *p.values())
    )
    for x in (X0, X1, X3)
} | {
    "no bias": Case(
        nn.linear(out_dim=3, bias=False),
        [X1],
        lambda p, x: x @ p["linear.w"].T,
        lambda p, x: torch_functional().linear(x, p["linear.w"]),
    ),
    "several axes": Case(
        nn.linear(out_dim=[2, 3]),
        [X22],
        lambda p, x: np.einsum("bij,opij->bop", x, p["linear.w"]) + p["linear.b"],
        lambda p, x: (p["linear.w"].flatten(2) @ x.flatten(1).T).permute(2, 0, 1) + p["linear.b"],
        ["boo"],
    ),
    "inferred": Case(
        lambda x, y: nn.linear(label="linear")(x) + y,
        [X1, X22[0]],
        lambda p, x, y: linear(p, x) + y,
        lambda p, x, y: torch_functional().linear(x, p["linear.w"], p["linear.b"]) + y,
    ),
}

MLP = {
    "two hidden layers": Case(
        nn.mlp(hid_dims=[3, 4], out_dim=2),
        [X3],
        lambda p, x: perceptron(p, x, lambda y: np.maximum(y, 0)),
        lambda p, x: perceptron(p, x, torch_functional().relu),
    ),
    "none": Case(
        nn.mlp(hid_dims=[], out_dim=2),
        [X1],
        lambda p, x: x @ p["mlp.w_out"].T,
        lambda p, x: torch_functional().linear(x, p["mlp.w_out"]),
    ),
}

ACTIVATIONS = {
    "sigmoid": Case(nn.sigmoid, [X1], lambda p, x: 1 / (1 + np.exp(-x)), lambda p, x: x.sigmoid()),
    "silu": Case(nn.silu, [X1], lambda p, x: x / (1 + np.exp(-x)), lambda p, x: torch_functional().silu(x)),
    "gelu": Case(
        nn.gelu, [X3], lambda p, x: x * (1 + erf(x / np.sqrt(2))) / 2, lambda p, x: torch_functional().gelu(x)
    ),
    "gelu, tanh": Case(
        lambda x: nn.gelu(x, approximate="tanh"),
        [X3],
        lambda p, x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
        lambda p, x: torch_functional().gelu(x, approximate="tanh"),
    ),
    "leaky relu": Case(
        lambda x: nn.leaky_relu(x, slope=0.2),
        [X1],
        lambda p, x: np.where(x > 0, x, 0.2 * x),
        lambda p, x: torch_functional().leaky_relu(x, 0.2),
    ),
    "relu6": Case(
        nn.relu6, [5 * X3], lambda p, x: np.clip(x, 0, 6), lambda p, x: torch_functional().relu6(x)
    ),
    "hardswish": Case(
        nn.hardswish,
        [3 * X3],
        lambda p, x: x * np.clip(x + 3, 0, 6) / 6,
        lambda p, x: torch_functional().hardswish(x),
    ),
    "elu": Case(
        lambda x: nn.elu(x, alpha=0.7),
        [X1],
        lambda p, x: np.where(x > 0, x, 0.7 * np.expm1(x)),
        lambda p, x: torch_functional().elu(x, 0.7),
    ),
    "selu": Case(
        nn.selu,
        [X1],
        lambda p, x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
        lambda p, x: torch_functional().selu(x),
    ),
    "mish": Case(
        nn.mish, [X1], lambda p, x: x * np.tanh(np.logaddexp(0, x)), lambda p, x: torch_functional().mish(x)
    ),
    "glu": Case(
        nn.glu,
        [X22[..., :4]],
        lambda p, x: x[..., :2] / (1 + np.exp(-x[..., 2:])),
        lambda p, x: torch_functional().glu(x),
    ),
    "swiglu": Case(
        nn.swiglu,
        [X22[..., :4]],
        lambda p, x: x[..., :2] / (1 + np.exp(-x[..., :2])) * x[..., 2:],
        lambda p, x: torch_functional().silu(x[..., :2]) * x[..., 2:],
        ["boo"],
    ),
    "softplus": Case(
        nn.softplus,
        [10 * X1],
        lambda p, x: np.logaddexp(0, x),
        lambda p, x: torch_functional().softplus(x, threshold=1000),
    ),
    "log_sigmoid": Case(
        nn.log_sigmoid,
        [10 * X1],
        lambda p, x: -np.logaddexp(0, -x),
        lambda p, x: torch_functional().logsigmoid(x),
    ),
}

SOFTMAX = {
    "one axis": Case(nn.softmax(), [X0], lambda p, x: softmax(x), lambda p, x: x.softmax(-1)),
    "batches": Case(nn.softmax(), [X3], lambda p, x: softmax(x), lambda p, x: x.softmax(-1)),
    "temperature": Case(
        nn.softmax(temperature=0.3), [X1], lambda p, x: softmax(x / 0.3), lambda p, x: (x / 0.3).softmax(-1)
    ),
    "large": Case(nn.softmax(), [300 * X1], lambda p, x: softmax(x), lambda p, x: x.softmax(-1)),
    "two axes": Case(
        nn.softmax(spec="... | c d"),
        [X22],
        lambda p, x: softmax(x, (1, 2)),
        lambda p, x: x.flatten(1).softmax(1).reshape(x.shape),
        ["boo"],
    ),
    "a batch axis by a long name": Case(
        nn.softmax(spec="row, ... | ..."), [X3], lambda p, x: softmax(x, 0), lambda p, x: x.softmax(0)
    ),
    "an input axis": Case(
        nn.softmax(spec="... | ... t -> ..."),
        [X22],
        lambda p, x: softmax(x),
        lambda p, x: x.softmax(-1),
        ["boi"],
    ),
    "log": Case(nn.log_softmax(), [X3], lambda p, x: np.log(softmax(x)), lambda p, x: x.log_softmax(-1)),
    "log of a row": Case(
        nn.log_softmax(spec="... | ..c.."),
        [X22],
        lambda p, x: np.log(softmax(x, (1, 2))),
        lambda p, x: x.flatten(1).log_softmax(1).reshape(x.shape),
        ["boo"],
    ),
}

NORMS = {
    f"{name}, {x.ndim - 1} batch axes": case
    for x in (X0, X1, X3)
    for name, case in {
        "layer": Case(
            nn.layer_norm(label="n"),
            [x],
            lambda p, x: layer_norm(x) * p["n.gain"] + p["n.offset"],
            lambda p, x: torch_functional().layer_norm(x, x.shape[-1:], p["n.gain"], p["n.offset"]),
        ),
        "rms": Case(
            nn.rms_norm(label="n"),
            [x],
            lambda p, x: rms_norm(x) * p["n.gain"],
            lambda p, x: torch_functional().rms_norm(x, x.shape[-1:], p["n.gain"], 1e-5),
        ),
    }.items()
} | {
    "layer, two output axes, epsilon": Case(
        nn.layer_norm(epsilon=0.5, label="n"),
        [X22],
        lambda p, x: layer_norm(x, (1, 2), 0.5) * p["n.gain"] + p["n.offset"],
        lambda p, x: torch_functional().layer_norm(x, x.shape[1:], p["n.gain"], p["n.offset"], 0.5),
        ["boo"],
    ),
    "rms, two output axes": Case(
        nn.rms_norm(label="n"),
        [X22],
        lambda p, x: rms_norm(x, (1, 2)) * p["n.gain"],
        lambda p, x: torch_functional().rms_norm(x, x.shape[1:], p["n.gain"], 1e-5),
        ["boo"],
    ),
}

EMBEDDING = {
    f"{ids.ndim} batch axes": Case(
        embedding(dim),
        [ids],
        lambda p, ids: p["embedding.w"][ids],
        lambda p, ids: p["embedding.w"][ids],
        ["b" * ids.ndim],
    )
    for ids, dim in ((IDS[0, 1], 5), (IDS[0], [2, 3]), (IDS, 5), (np.stack([IDS, IDS[::-1]]), 5))
}

CASES = {
    f"{group}: {name}": case
    for group, cases in {
        "linear": LINEAR,
        "mlp": MLP,
        "activation": ACTIVATIONS,
        "softmax": SOFTMAX,
        "norm": NORMS,
        "embedding": EMBEDDING,
    }.items()
    for name, case in cases.items()
}
