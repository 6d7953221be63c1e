"""Other recurrent layers, and their references in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from support.nn.check import Array, Arrays, Case, arrays_of
from support.nn.lstm import sigmoid

from ocannl import nn


def scanned(step: Callable[[Array, Array], Array], x: Array) -> Array:
    """The states after each position of the last but one axis."""
    h, states = np.zeros((*x.shape[:-2], 3)), list[Array]()
    for t in range(x.shape[-2]):
        h = step(x[..., t, :], h)
        states.append(h)
    return np.stack(states, -2)


def rnn(p: Arrays, x: Array) -> Array:
    return scanned(lambda x, h: np.tanh(x @ p["rnn.w_x"].T + h @ p["rnn.w_h"].T + p["rnn.b"]), x)


def gru(p: Arrays, x: Array) -> Array:
    def step(x: Array, h: Array) -> Array:
        inputs = np.einsum("...i,ghi->g...h", x, p["gru.w_x"]) + p["gru.b"][:, None]
        own = np.einsum("...i,ghi->g...h", h, p["gru.w_h"])
        reset, keep = sigmoid(inputs[0] + own[0]), sigmoid(inputs[1] + own[1])
        new = np.tanh(inputs[2] + reset * (own[2] + p["gru.b_h"]))
        return (1 - keep) * new + keep * h

    return scanned(step, x)


def torch_layer(kind: str, p: Any, x: Any) -> Any:
    """PyTorch's module has one more bias, of which the new state of a GRU has a part."""
    torch = pytest.importorskip("torch")
    module = getattr(torch.nn, kind.upper())(x.shape[-1], 3, batch_first=True, dtype=torch.float64)
    w_x, w_h, b = (p[f"{kind}.{name}"] for name in ("w_x", "w_h", "b"))
    hidden = torch.zeros(b.numel(), dtype=torch.float64)
    if kind == "gru":
        hidden = torch.cat([hidden[:6], p["gru.b_h"]])
    weights = {
        "weight_ih_l0": w_x.reshape(-1, w_x.shape[-1]),
        "weight_hh_l0": w_h.reshape(-1, w_h.shape[-1]),
        "bias_ih_l0": b.flatten(),
        "bias_hh_l0": hidden,
    }
    return torch.func.functional_call(module, weights, (x,))[0]


def ssm(p: Arrays, x: Array) -> Array:
    """The recurrence of Mamba, position by position."""
    step = np.log1p(np.exp(x @ p["ssm.w_r"].T @ p["ssm.w_s"].T + p["ssm.b_s"]))
    h, found = np.zeros((*x.shape[:-2], *p["ssm.a"].shape)), list[Array]()
    for t in range(x.shape[-2]):
        now, size = x[..., t, :], step[..., t, :]
        new = np.einsum("...d,...n->...dn", size * now, now @ p["ssm.w_b"].T)
        h = np.exp(-np.exp(p["ssm.a"]) * size[..., None]) * h + new
        found.append(np.einsum("...dn,...n->...d", h, now @ p["ssm.w_c"].T) + p["ssm.d"] * now)
    return np.stack(found, -2)


def torch_ssm(p: Any, x: Any) -> Any:
    torch = pytest.importorskip("torch")
    step = torch.nn.functional.softplus(x @ p["ssm.w_r"].T @ p["ssm.w_s"].T + p["ssm.b_s"])
    h, found = 0.0, list[Any]()
    for now, size in zip(x.unbind(-2), step.unbind(-2), strict=True):
        new = torch.einsum("...d,...n->...dn", size * now, now @ p["ssm.w_b"].T)
        h = torch.exp(-torch.exp(p["ssm.a"]) * size[..., None]) * h + new
        found.append(torch.einsum("...dn,...n->...d", h, now @ p["ssm.w_c"].T) + p["ssm.d"] * now)
    return torch.stack(found, -2)


CASES = {
    "rnn": Case(nn.rnn(3), arrays_of((2, 4, 2)), rnn, partial(torch_layer, "rnn")),
    "gru": Case(nn.gru(3), arrays_of((2, 4, 2)), gru, partial(torch_layer, "gru")),
    "ssm": Case(nn.selective_ssm(2, states=3), arrays_of((2, 5, 2)), ssm, torch_ssm),
}
