"""tinygrad's ids and losses."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from support.peers.tinygrad.values import Values, raw

import ocannl as oc
from ocannl import nn


class Losses(Values):
    """Functions of classes that are given as ids."""

    def gather(self, dim: int, index: Values) -> Self:
        if index.ndim != self.ndim:
            raise RuntimeError("numbers of axes differ")
        dim %= self.ndim
        cut = tuple(slice(None) if k == dim else slice(n) for k, n in enumerate(index.shape))
        return type(self)(oc.take_along_axis(self.t[cut], index.t, dim))

    def scatter(self, dim: int, index: Values, src: Any, reduce: str | None = None) -> Self:
        if reduce is not None and isinstance(src, Values):
            raise TypeError("values that are a tensor are set")
        names = {None: "set", "add": "add", "multiply": "mul"}
        return self._put(dim, index, src, names[reduce], True)

    def scatter_reduce(
        self, dim: int, index: Values, src: Any, reduce: str, include_self: bool = True
    ) -> Self:
        names = {"sum": "add", "prod": "mul", "mean": "mean", "amax": "max", "amin": "min"}
        return self._put(dim, index, src, names.get(reduce, reduce), include_self)

    def _put(self, dim: int, index: Values, src: Any, accum: str, include_self: bool) -> Self:
        """In the other axes ids may have fewer positions, and values more than these."""
        dim %= self.ndim
        pairs = zip(self.shape, index.shape, strict=True)
        more = [(0, 0 if k == dim else own - n) for k, (own, n) in enumerate(pairs)]
        ids = oc.data(np.pad(index.numpy(), more, constant_values=-1))
        if isinstance(src, Values):
            if src.dtype != self.dtype:
                raise RuntimeError("dtypes differ")
            if any(n > most for n, most in zip(index.shape, src.shape, strict=True)):
                raise RuntimeError("there are fewer values than ids")
            src = self.__class__(src.t[tuple(map(slice, index.shape))]).pad(more).t
        settings: dict[str, Any] = {"accum": accum, "include_self": include_self, "out_of_range": "drop"}
        return type(self)(oc.put_along_axis(self.t, ids, src, dim, **settings))

    def one_hot(self, classes: int) -> Self:
        return type(self)(oc.one_hot(ids(self), classes)).cast(np.int32)

    def _classes_last(self) -> oc.Tensor:
        return self.t if self.ndim < 3 else self.permute(0, *range(2, self.ndim), 1).t

    def nll_loss(self, target: Values, weight: Values | None = None, **settings: Any) -> Self:
        return type(self)(nn.nll(self._classes_last(), ids(target), weight=raw(weight), **settings))

    def cross_entropy(self, target: Self, **settings: Any) -> Self:
        same = target.dtype.kind == "f"
        if same and target.shape != self.shape:
            raise RuntimeError("shapes differ")
        wanted = target._classes_last() if same else ids(target)
        return type(self)(nn.cross_entropy(self._classes_last(), wanted, **settings))

    def sparse_categorical_crossentropy(self, target: Values, **settings: Any) -> Self:
        return type(self)(nn.cross_entropy(self.t, ids(target), **settings))

    def binary_crossentropy(self, target: Values, reduction: str = "mean") -> Self:
        """By the scores of the probabilities."""
        scores = oc.log(self.t) - oc.log1p(-self.t)
        return type(self)(nn.bce_with_logits(scores, target.t, reduction=reduction))

    def binary_crossentropy_logits(
        self, target: Values, reduction: str = "mean", pos_weight: Values | None = None
    ) -> Self:
        settings = {"reduction": reduction, "pos_weight": raw(pos_weight)}
        return type(self)(nn.bce_with_logits(self.t, target.t, **settings))


def ids(target: Values) -> oc.Tensor:
    """Classes, which stand in the batch row."""
    return oc.rearrange(target.t, "... -> ...", axes="b" * target.ndim)
