"""tinygrad's reshapes, joins and parts of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from support.peers.tinygrad.arguments import sizes, slot
from support.peers.tinygrad.values import Values, raw

import ocannl as oc
from ocannl import nn


class Shapes(Values):
    """The same elements in another shape."""

    def reshape(self, *shape: Any) -> Self:
        return type(self)(
            self.t.reshape([self.shape[k] if n is None else n for k, n in enumerate(sizes(shape))])
        )

    view = reshape

    def permute(self, *order: Any) -> Self:
        names = [f"a{k}" for k in range(self.ndim)]
        right = [names[k] for k in sizes(order)]
        return type(self)(oc.rearrange(self.t, f"{' '.join(names)} -> {' '.join(right)}"))

    def transpose(self, a: int = 1, b: int = 0) -> Self:
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.permute(order)

    @property
    def T(self) -> Self:
        return self.transpose()

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        shape, end = self.shape, end_dim % max(self.ndim, 1) + 1
        start = start_dim % max(self.ndim, 1)
        return self.reshape(*shape[:start], math.prod(shape[start:end]), *shape[end:])

    def unflatten(self, dim: int, lengths: Sequence[int]) -> Self:
        dim %= self.ndim
        return self.reshape(*self.shape[:dim], *lengths, *self.shape[dim + 1 :])

    def squeeze(self, dim: int | None = None) -> Self:
        if dim is not None and not -max(self.ndim, 1) <= dim < max(self.ndim, 1):
            raise IndexError(dim)
        gone = range(self.ndim) if dim is None else [dim % max(self.ndim, 1)]
        return self.reshape([n for k, n in enumerate(self.shape) if k not in gone or n != 1])

    def unsqueeze(self, dim: int) -> Self:
        at = dim % (self.ndim + 1)
        return self.reshape(*self.shape[:at], 1, *self.shape[at:])

    def expand(self, *shape: Any) -> Self:
        wanted = sizes(shape)
        own = (1,) * (len(wanted) - self.ndim) + self.shape
        names = [f"a{k}" for k in range(len(wanted))]
        left = [n for n, size in zip(names, own, strict=True) if size != 1]
        kept = {n: w for n, w, size in zip(names, wanted, own, strict=True) if size == 1}
        if any(w not in (-1, size) for w, size in zip(wanted, own, strict=True) if size != 1):
            raise RuntimeError("no such expansion")
        return type(self)(
            oc.repeat(self.squeeze().t, f"{' '.join(left)} -> {' '.join(names)}", axes=None, **kept)
        )

    def repeat(self, *repeats: Any) -> Self:
        times = sizes(repeats)
        if len(times) < self.ndim:
            raise ValueError("a number of repeats for each axis")
        x = self.reshape(*(1,) * (len(times) - self.ndim), *self.shape)
        names = [f"a{k}" for k in range(x.ndim)]
        right = [f"(r{k} a{k})" for k in range(x.ndim)]
        given = {f"r{k}": n for k, n in enumerate([1] * (x.ndim - len(times)) + times)}
        return type(self)(oc.repeat(x.t, f"{' '.join(names)} -> {' '.join(right)}", axes=None, **given))

    def repeat_interleave(self, times: int, dim: int | None = None) -> Self:
        x = self.flatten() if dim is None else self
        names = [f"a{k}" for k in range(x.ndim)]
        right = [*names]
        right[dim or 0] = f"({right[dim or 0]} r)"
        return type(self)(oc.repeat(x.t, f"{' '.join(names)} -> {' '.join(right)}", r=times))

    def cat(self, *others: Any, dim: int = 0) -> Self:
        parts = [self, *others]
        names = [f"a{k}" for k in range(self.ndim)]
        dim = range(self.ndim)[dim]
        each = [[f"p{n}" if k == dim else name for k, name in enumerate(names)] for n in range(len(parts))]
        names[dim] = "^".join(f"p{n}" for n in range(len(parts)))
        spec = f"{'; '.join(map(slot, each))} => {slot(names)}"
        return type(self)(oc.concat(spec, *map(raw, parts)))

    @staticmethod
    def stack(*parts: Any, dim: int = 0) -> Any:
        if isinstance(parts[0], tuple | list):
            (parts,) = parts
        each = [part.unsqueeze(range(part.ndim + 1)[dim]) for part in parts]
        return each[0].cat(*each[1:], dim=dim)

    def split(self, lengths: Any, dim: int = 0) -> list[Self]:
        size = self.shape[dim]
        if isinstance(lengths, int):
            lengths = [min(lengths, size - at) for at in range(0, size, lengths)]
        ends = np.cumsum(lengths)
        at = (slice(None),) * (dim % self.ndim)
        return [self[(*at, slice(e - n, e))] for e, n in zip(ends.tolist(), lengths, strict=True)]

    def chunk(self, count: int, dim: int = 0) -> list[Self]:
        return self.split(math.ceil(self.shape[dim] / count), dim)

    def __getitem__(self, key: Any) -> Self:
        return type(self)(self.t[self._from_the_front(key)])

    def _from_the_front(self, key: Any) -> Any:
        """OCANNL's ids that are tensors count from the front alone."""
        items = key if isinstance(key, tuple) else (key,)
        axes = [item is not None and item is not ... for item in items]
        sizes, found = self.shape, list[Any]()
        for number, item in enumerate(items):
            is_behind = any(each is ... for each in items[:number])
            at = len(sizes) - sum(axes[number:]) if is_behind else sum(axes[:number])
            is_ids = isinstance(item, Values) and item.dtype.kind == "i"
            found.append(item.t + sizes[at] * (item.t < 0) if is_ids else raw(item))
        return tuple(found)

    def pad(self, padding: Any, mode: str = "constant", value: float = 0.0) -> Self:
        if not any(isinstance(p, tuple) or p is None for p in padding):
            if len(padding) % 2 or len(padding) > 2 * self.ndim:
                raise ValueError("uneven")
            padding = [*zip(padding[::2], padding[1::2], strict=True)][::-1]
            padding = [(0, 0)] * (self.ndim - len(padding)) + padding
        if len(padding) != self.ndim:
            raise ValueError("one pair an axis")
        amounts = [p or (0, 0) for p in padding]
        block = nn.pad(amounts, mode="zeros" if mode == "constant" else mode)
        found = type(self)(block(self.unsqueeze(-1).t)).squeeze(-1)
        if value == 0.0:
            return found
        inside = type(self)(nn.pad(amounts)(self.ones_like().unsqueeze(-1).t)).squeeze(-1)
        return type(self)(oc.where(inside.t, found.t, value))
