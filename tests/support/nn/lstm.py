"""Long short-term memory, and its references in NumPy and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.nn.check import Array, Arrays, Case, arrays_of

from ocannl import nn


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def lstm(p: Arrays, x: Array) -> Array:
    """Over the last but one axis."""
    h = c = np.zeros((*x.shape[:-2], 3))
    states: list[Array] = []
    for t in range(x.shape[-2]):
        sums = np.einsum("...i,ghi->...gh", x[..., t, :], p["lstm.w_x"]) + p["lstm.b"]
        sums = sums + np.einsum("...i,ghi->...gh", h, p["lstm.w_h"])
        take_in, keep, new, give_out = np.moveaxis(sums, -2, 0)
        c = sigmoid(keep) * c + sigmoid(take_in) * np.tanh(new)
        h = sigmoid(give_out) * np.tanh(c)
        states.append(h)
    return np.stack(states, -2)


def torch_lstm(p: Any, x: Any) -> Any:
    """PyTorch's module has the same order of gates, and one more bias."""
    torch = pytest.importorskip("torch")
    module = torch.nn.LSTM(x.shape[-1], 3, batch_first=True, dtype=torch.float64)
    weights = {
        "weight_ih_l0": p["lstm.w_x"].flatten(0, 1),
        "weight_hh_l0": p["lstm.w_h"].flatten(0, 1),
        "bias_ih_l0": p["lstm.b"].flatten(),
        "bias_hh_l0": torch.zeros(12, dtype=torch.float64),
    }
    flat = x.reshape(-1, *x.shape[-2:])
    out, _ = torch.func.functional_call(module, weights, (flat,))
    return out.reshape(*x.shape[:-1], 3)


CASES = {
    f"{shape}": Case(nn.lstm(3), [x], lstm, torch_lstm)
    for shape in ((4, 2), (2, 5, 4), (2, 2, 3, 4))
    for x in arrays_of(shape)
}
