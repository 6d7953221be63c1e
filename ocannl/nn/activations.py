"""Pointwise activations that are no single operator of the language, as `oc.relu` and `oc.tanh` are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import ocannl as oc

Pullback: TypeAlias = Callable[[oc.Tensor], oc.Tensor]


def sigmoid(x: oc.Tensor) -> oc.Tensor:
    """`1 / (1 + exp(-x))`."""
    return oc.sigmoid(x)


def silu(x: oc.Tensor) -> oc.Tensor:
    """`x * sigmoid(x)` (Elfwing et al., 2018)."""
    return x * oc.sigmoid(x)


def gelu(x: oc.Tensor) -> oc.Tensor:
    """`x` times the standard normal distribution function at `x`, by the error function (Hendrycks and
    Gimpel, 2016).
    """
    return 0.5 * x * (1 + oc.erf(x / math.sqrt(2)))


@oc.custom_gradient
def softplus(x: oc.Tensor) -> tuple[oc.Tensor, Pullback]:
    """`log(1 + exp(x))`, without overflow for large `x`, and exact for small results.

    Its derivative is `sigmoid(x)`, also at 0, where the two parts of the formula have kinks.
    """
    return oc.relu(x) + softplus_below(x), lambda cotangent: cotangent * oc.sigmoid(x)


def softplus_below(x: oc.Tensor) -> oc.Tensor:
    """`softplus(x) - relu(x)`, which is at most `log(2)`, without a derivative at 0."""
    return _log1p(oc.exp(-oc.abs(x)))


def _log1p(x: oc.Tensor) -> oc.Tensor:
    """`log(1 + x)`, exact for small `x` too: the rounding error of `1 + x` is added back."""
    y = 1 + x
    return oc.log(y) + oc.stop_gradient((x - (y - 1)) / y)
