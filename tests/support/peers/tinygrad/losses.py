"""tinygrad's ids and losses."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from support.peers.tinygrad.arguments import slot
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
        names = [f"a{k}" for k in range(self.ndim)]
        source = [*names[:dim], "v", *names[dim + 1 :]]
        spec = f"{slot(source)}; {slot(names)} => {slot(names)}"
        return type(self)(oc.gather(spec, self.t[cut], index.t, at="v"))

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


def ids(target: Values) -> oc.Tensor:
    """Classes, which stand in the batch row."""
    return oc.rearrange(target.t, "... -> ...", axes="b" * target.ndim)
