"""tinygrad's reductions of tensors."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from support.peers.tinygrad.values import Axes, Values

import ocannl as oc


class Reductions(Values):
    """Numbers for the elements along some axes, or all."""

    def sum(self, axis: Axes = None, keepdim: bool = False, dtype: Any = None) -> Self:
        summed = self.t if dtype is None else oc.cast(self.t, np.dtype(dtype))
        return type(self)(summed.sum(axis if self.ndim or axis not in (0, -1) else None, keepdim))

    def prod(self, axis: Axes = None, keepdim: bool = False, dtype: Any = None) -> Self:
        multiplied = self.t if dtype is None else oc.cast(self.t, np.dtype(dtype))
        return type(self)(multiplied.prod(axis if self.ndim or axis not in (0, -1) else None, keepdim))

    def mean(self, axis: Axes = None, keepdim: bool = False) -> Self:
        return type(self)(self.t.mean(axis, keepdim))

    def max(self, axis: Axes = None, keepdim: bool = False) -> Self:
        return type(self)(self.t.max(axis, keepdim))

    def min(self, axis: Axes = None, keepdim: bool = False) -> Self:
        return type(self)(self.t.min(axis, keepdim))

    def any(self, axis: Axes = None, keepdim: bool = False) -> Self:
        return type(self)(self.t.any(axis, keepdim))

    def all(self, axis: Axes = None, keepdim: bool = False) -> Self:
        return type(self)(self.t.all(axis, keepdim))

    def argmax(self, axis: Axes = None, keepdim: bool = False) -> Self:
        return type(self)(self.t.argmax(axis, keepdim))

    def argmin(self, axis: Axes = None, keepdim: bool = False) -> Self:
        return type(self)(self.t.argmin(axis, keepdim))

    def var(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Self:
        return type(self)(self.t.var(axis, keepdim, ddof=correction))

    def std(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Self:
        return type(self)(self.t.std(axis, keepdim, ddof=correction))

    def std_mean(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Any:
        return self.std(axis, keepdim, correction), self.mean(axis, keepdim)

    def logsumexp(self, axis: Axes = None, keepdim: bool = False) -> Self:
        if not self.ndim:
            return self
        return type(self)(oc.logsumexp(self.t, axis, keepdim))

    def log_softmax(self, axis: int = -1) -> Self:
        return self - self.logsumexp(axis, True)

    def softmax(self, axis: int = -1) -> Self:
        return self.log_softmax(axis).exp()

    def softmin(self, axis: int = -1) -> Self:
        return (-self).softmax(axis)

    def normalize(self, p: float = 2, dim: int = 1) -> Self:
        return self / type(self)(oc.norm(self.t, dim, ord=p, keep=True)).maximum(1e-12)
