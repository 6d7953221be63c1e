"""Pointwise activations that are no single operator of the language, as `oc.relu` and `oc.tanh` are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import ocannl as oc
from ocannl.program.tensor_functions.remembered import remembered

Pullback: TypeAlias = Callable[[oc.Tensor], oc.Tensor]


def sigmoid(x: oc.Tensor) -> oc.Tensor:
    """`1 / (1 + exp(-x))`."""
    return oc.sigmoid(x)


@remembered
def silu(x: oc.Tensor) -> oc.Tensor:
    """`x * sigmoid(x)` (Elfwing et al., 2018)."""
    return x * oc.sigmoid(x)


@remembered
def gelu(x: oc.Tensor, *, approximate: str = "none") -> oc.Tensor:
    """`x` times the standard normal distribution function at `x`, by the error function (Hendrycks and
    Gimpel, 2016); with `approximate="tanh"` by their formula with tanh.
    """
    if approximate not in ("none", "tanh"):
        raise oc.ArgumentError(f"gelu is approximated by none or tanh, found {approximate!r}")
    if approximate == "tanh":
        return 0.5 * x * (1 + oc.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + oc.erf(math.sqrt(0.5) * x))


@remembered
def leaky_relu(x: oc.Tensor, *, slope: float = 0.01) -> oc.Tensor:
    """`x` where it is positive, else `slope * x` (Maas et al., 2013)."""
    return oc.where(x > 0, x, slope * x)


@remembered
def relu6(x: oc.Tensor) -> oc.Tensor:
    """`x`, at least 0 and at most 6, with slope 0 at both (Howard et al., 2017)."""
    return 6 * oc.sat01(x / 6)


@remembered
def hardswish(x: oc.Tensor) -> oc.Tensor:
    """`x * relu6(x + 3) / 6` (Howard et al., 2019)."""
    return x * oc.sat01(x / 6 + 0.5)


@remembered
def elu(x: oc.Tensor, *, alpha: float = 1.0) -> oc.Tensor:
    """`x` where it is positive, else `alpha * (exp(x) - 1)` (Clevert et al., 2015)."""
    return oc.where(x > 0, x, alpha * oc.expm1(oc.minimum(x, 0.0)))


@remembered
def selu(x: oc.Tensor) -> oc.Tensor:
    """`elu`, scaled so that layers keep mean 0 and variance 1 (Klambauer et al., 2017)."""
    return SELU_SCALE * elu(x, alpha=SELU_ALPHA)


SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805


@remembered
def mish(x: oc.Tensor) -> oc.Tensor:
    """`x * tanh(softplus(x))` (Misra, 2019)."""
    return x * oc.tanh(softplus(x))


@remembered
def glu(x: oc.Tensor) -> oc.Tensor:
    """The first half of the last output axis times `sigmoid` of the second (Dauphin et al., 2016)."""
    value, gate = halves(x)
    return value * oc.sigmoid(gate)


@remembered
def swiglu(x: oc.Tensor) -> oc.Tensor:
    """`silu` of the first half of the last output axis times the second (Shazeer, 2020)."""
    gate, value = halves(x)
    return silu(gate) * value


def halves(x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
    """The halves of the last output axis. Raises `ShapeError` where its size is odd."""
    halves = oc.einsum("... | ..., half&c => ... | half, ..., c", x, half=2)
    first, second = (oc.einsum(f"... | {k}, ..., c => ... | ..., c", halves) for k in range(2))
    return first, second


@remembered
@oc.custom_gradient
def softplus(x: oc.Tensor) -> tuple[oc.Tensor, Pullback]:
    """`log(1 + exp(x))`, without overflow for large `x`, and exact for small results.

    Its derivative is `sigmoid(x)`, also at 0, where the two parts of the formula have kinks.
    """
    return oc.relu(x) + softplus_below(x), lambda cotangent: cotangent * oc.sigmoid(x)


@remembered
def log_sigmoid(x: oc.Tensor) -> oc.Tensor:
    """`log(sigmoid(x))`, which stays finite for small `x`."""
    return -softplus(-x)


def softplus_below(x: oc.Tensor) -> oc.Tensor:
    """`softplus(x) - relu(x)`, which is at most `log(2)`, without a derivative at 0."""
    return oc.log1p(oc.exp(-oc.abs(x)))
