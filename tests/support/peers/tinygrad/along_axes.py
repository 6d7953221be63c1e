"""tinygrad's functions along an axis: orders, running totals, shifts, triangles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from support.peers.tinygrad.arguments import as_list
from support.peers.tinygrad.values import Values

import ocannl as oc


class AlongAxes(Values):
    """Each element depends on others of its axis, or on its position."""

    def sort(self, dim: int = -1, descending: bool = False) -> Any:
        ids = self.argsort(dim, descending)
        return type(self)(oc.sort(self.t, dim, descending=descending)), ids

    def argsort(self, dim: int = -1, descending: bool = False) -> Self:
        return type(self)(oc.argsort(self.t, dim, descending=descending))

    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True) -> Any:
        if not largest:
            values, ids = self.sort(dim)
            part = (slice(None),) * (dim % self.ndim) + (slice(k),)
            return values[part], ids[part]
        return tuple(map(type(self), oc.topk(self.t, k, dim)))

    def cumsum(self, axis: int = 0) -> Self:
        return self._along(oc.cumsum, axis)

    def cumprod(self, axis: int = 0) -> Self:
        return self._along(oc.cumprod, axis)

    def logcumsumexp(self, axis: int = 0) -> Self:
        return self._along(oc.logcumsumexp, axis)

    def cummax(self, axis: int = 0) -> Any:
        return self._extremes(oc.cummax, axis)

    def cummin(self, axis: int = 0) -> Any:
        return self._extremes(oc.cummin, axis)

    def _extremes(self, function: Callable[..., Any], axis: int) -> Any:
        if not self.ndim and axis in (0, -1):
            return self, type(self)(0)
        values, ids = function(self.t, axis, return_indices=True)
        return type(self)(values), type(self)(ids).int()

    def unfold(self, dim: int, size: int, step: int) -> Self:
        return type(self)(oc.unfold(self.t, dim, size, step))

    def meshgrid(self, *others: Values, indexing: str = "ij") -> list[Self]:
        parts = [one.reshape(-1).t for one in (self, *others)]
        return [*map(type(self), oc.meshgrid(*parts, indexing=indexing))]

    def _along(self, function: Callable[..., oc.Tensor], axis: int) -> Self:
        """A number counts as an axis of one."""
        if not self.ndim and axis in (0, -1):
            return self
        return type(self)(function(self.t, axis))

    def flip(self, axis: Any) -> Self:
        axes = [axis] if isinstance(axis, int) else list(axis)
        if len({a % self.ndim for a in axes}) < len(axes):
            raise RuntimeError("an axis twice")
        found = self.t
        for each in axes:
            found = oc.flip(found, each)
        return type(self)(found)

    def roll(self, shifts: Any, dims: Any = None) -> Self:
        if dims is None:
            if not isinstance(shifts, int) and len(shifts) > 1:
                raise RuntimeError("shifts without axes")
            return self.flatten().roll(shifts, 0).reshape(self.shape)
        pairs = zip(as_list(shifts), as_list(dims), strict=True)
        found = self.t
        for shift, dim in pairs:
            found = oc.roll(found, shift, dim)
        return type(self)(found)

    def tril(self, diagonal: int = 0) -> Self:
        return type(self)(oc.tril(self.t, diagonal))

    def triu(self, diagonal: int = 0) -> Self:
        return type(self)(oc.triu(self.t, diagonal))
