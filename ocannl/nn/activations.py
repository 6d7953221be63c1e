"""Activations, pointwise; those of one operator (`oc.relu`, `oc.tanh`) are used as they are."""

from __future__ import annotations

import math

import ocannl as oc


def sigmoid(x: oc.Tensor) -> oc.Tensor:
    """`1 / (1 + exp(-x))`."""
    return oc.sigmoid(x)


def silu(x: oc.Tensor) -> oc.Tensor:
    """`x * sigmoid(x)`."""
    return x * oc.sigmoid(x)


def gelu(x: oc.Tensor) -> oc.Tensor:
    """`x` times the probability that a normal variable is below it; exact, by the error function."""
    return 0.5 * x * (1 + oc.erf(x / math.sqrt(2)))


def softplus(x: oc.Tensor) -> oc.Tensor:
    """`log(1 + exp(x))`, without overflow and without loss of small values."""
    return oc.relu(x) + _log1p(oc.exp(-oc.abs(x)))


def _log1p(x: oc.Tensor) -> oc.Tensor:
    """`log(1 + x)`, exact for small `x` too: the rounding error of `1 + x` is added back."""
    y = 1 + x
    return oc.log(y) + oc.stop_gradient((x - (y - 1)) / y)
