"""tinygrad's pointwise functions of tensors."""

from __future__ import annotations

import math
from typing import Any, Self

from support.peers.tinygrad.values import Values, raw

import ocannl as oc
from ocannl import nn


class Pointwise(Values):
    """Functions of each element."""

    def where(self, a: Any, b: Any) -> Self:
        return type(self)(oc.where(self.t, raw(a), raw(b)))

    def masked_fill(self, mask: Values, value: Any) -> Self:
        return mask.where(value, self)

    def isfinite(self) -> Self:
        return type(self)(oc.isfinite(self.t))

    def isinf(self, detect_positive: bool = True, detect_negative: bool = True) -> Self:
        above, below = type(self)(oc.eq(self.t, math.inf)), type(self)(oc.eq(self.t, -math.inf))
        return (
            type(self)(oc.isinf(self.t))
            if detect_positive == detect_negative
            else (above if detect_positive else below)
        )

    def div(self, other: Any, rounding_mode: str | None = None) -> Self:
        if rounding_mode not in (None, "trunc", "floor"):
            raise RuntimeError(rounding_mode)
        if rounding_mode == "floor":
            return self // other
        quotient = self / other
        return quotient if rounding_mode is None else (self - self.fmod(other)) // other

    def fmod(self, other: Any) -> Self:
        return type(self)(oc.fmod(self.t, raw(other)))

    def lerp(self, end: Any, weight: Any) -> Self:
        return self + (end - self) * weight

    def clip(self, low: Any = None, high: Any = None) -> Self:
        return type(self)(oc.clip(self.t, raw(low), raw(high)))

    clamp = clip

    def isclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Self:
        a, b = self.t, raw(other)
        near = oc.isfinite(a) & oc.isfinite(b) & (oc.abs(a - b) <= atol + rtol * oc.abs(b)) | oc.eq(a, b)
        return type(self)(near | oc.isnan(a) & oc.isnan(b) if equal_nan else near)

    def softplus(self, beta: float = 1.0) -> Self:
        return type(self)(nn.softplus(self.t * beta) / beta)

    def celu(self, alpha: float = 1.0) -> Self:
        return type(self)(nn.elu(self.t / alpha) * alpha)

    def quick_gelu(self) -> Self:
        return self * (self * 1.702).sigmoid()

    def logsigmoid(self) -> Self:
        return type(self)(-nn.softplus(-self.t))

    def softsign(self) -> Self:
        return self / (1 + self.abs())

    def hardtanh(self, low: float = -1, high: float = 1) -> Self:
        return self.clip(low, high)

    def hardsigmoid(self) -> Self:
        return type(self)(oc.clip(self.t / 6 + 0.5, 0.0, 1.0))
