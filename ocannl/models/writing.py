"""Compiled functions by which a language model writes on, for sizes that many calls share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn
from ocannl.models.model import Array, picked
from ocannl.models.sampling import Sampling

Ids: TypeAlias = NDArray[np.integer[Any]]

CACHE, PROMPT = 64, 16
"""The least numbers of positions that code is compiled for."""


def rounded(count: int, least: int, parts: int = 1) -> int:
    """The next power of two, not below the least; or the next of `parts` equal steps between two of them."""
    size = least
    while size < count:
        size *= 2
    step = size // 2 // parts
    return size if size == least else -(-count // step) * step


class Writer:
    """The compiled functions of a model in one context."""

    def __init__(self, model: Callable[..., Any], ctx: oc.Context) -> None:
        self.model, self.ctx = model, ctx
        self.takes = inspect.signature(model).parameters
        self.context: int | None = getattr(model, "context", None)
        self._cache: nn.KVCache | None = None
        self._functions: dict[object, oc.Function] = {}

    def cache(self, length: int) -> nn.KVCache:
        """The cache of a length, which calls share."""
        if self._cache is None or self._cache.length != length:
            # Another length is a new text: what was compiled for it, and its memory, are let go.
            self._functions.clear()
            self._cache = nn.kv_cache(length=length)
        return self._cache

    def prompt(self, cache: nn.KVCache | None, size: int, rules: Sequence[str]) -> oc.Function:
        """From so many ids, one position of each, a counter and the numbers of rules to an id for each."""

        def prompt(ids: oc.Tensor, at: oc.Tensor, counter: oc.Tensor, *numbers: oc.Tensor) -> oc.Tensor:
            kept = {} if cache is None else {"cache": cache.at(0)}
            if "at" in self.takes:
                scores = self.model(ids, at=at, **kept)
            else:
                scores = picked(self.model(ids, **kept), at)
            return Sampling(**dict(zip(rules, numbers, strict=True))).chosen(scores, counter)

        return self._function((cache is None, size, *rules), prompt, ids="bb", at="b")

    def step(self, cache: nn.KVCache, seen: int, rules: Sequence[str], *, is_even: bool) -> oc.Function:
        """From one id of each, its position, a counter and the numbers of rules to the next id of each;
        `is_even` if all have one position.
        """

        def step(ids: oc.Tensor, start: oc.Tensor, counter: oc.Tensor, *numbers: oc.Tensor) -> oc.Tensor:
            scores = oc.einsum("b, 0 | v => b | v", self.model(ids, cache=cache.at(start, seen)))
            return Sampling(**dict(zip(rules, numbers, strict=True))).chosen(scores, counter)

        return self._function((seen, is_even, *rules), step, ids="bb", start="" if is_even else "b")

    def _function(self, key: object, function: Callable[..., Any], **axes: str) -> oc.Function:
        if key not in self._functions:
            self._functions[key] = oc.function(function, self.ctx, axes)
        return self._functions[key]


def writer_of(model: Callable[..., Any], ctx: oc.Context) -> Writer:
    """The compiled functions of a model, which keeps them itself, so that both go together."""
    if not callable(model):
        raise oc.ArgumentError(f"a model is a function of ids, found {model!r}")
    kept: dict[oc.Context, Writer] = getattr(model, "__dict__", {}).setdefault("_writers", {})
    if ctx not in kept:
        kept[ctx] = Writer(model, ctx)
    return kept[ctx]


class Whole:
    """Sequences that are written on by computing all positions for each id."""

    def __init__(
        self, writer: Writer, rows: list[list[int]], max_new: int, settings: dict[str, Array]
    ) -> None:
        self.writer, self.written = writer, rows
        self.rules, self.numbers = tuple(settings), [*settings.values()]
        self.total, most = max(map(len, rows), default=0) + max_new, writer.context
        if most is not None and self.total > most + 1:
            raise oc.ArgumentError(
                f"{self.total - max_new} ids and {max_new} new ones are more than its {most} positions"
            )

    def next(self, counter: Array) -> Ids:
        """The next id of each sequence."""
        return self.prompted(None, counter, *self.padded(1))

    def prompted(self, cache: nn.KVCache | None, counter: Array, ids: Ids, last: Ids) -> Ids:
        """The next id of each sequence, by all ids so far and the last position of each."""
        function = self.writer.prompt(cache, ids.shape[1], self.rules)
        return function(ids, last, counter, *self.numbers)

    def padded(self, parts: int) -> tuple[Ids, Ids]:
        """The ids so far, with zeros after them up to a size of `rounded`, and the last position of each."""
        lengths = np.array([len(row) for row in self.written], np.int32)
        size = min(rounded(int(lengths.max()), PROMPT, parts), self.writer.context or self.total)
        ids = np.zeros((len(lengths), size), np.int32)
        for row, given in zip(ids, self.written, strict=True):
            row[: len(given)] = given
        return ids, lengths - 1

    def add(self, ids: Ids) -> None:
        """Adds an id to each sequence."""
        for row, new in zip(self.written, ids.tolist(), strict=True):
            row.append(new)


class Cached(Whole):
    """The same with keys and values kept of what was seen."""

    def __init__(
        self, writer: Writer, rows: list[list[int]], max_new: int, settings: dict[str, Array]
    ) -> None:
        super().__init__(writer, rows, max_new, settings)
        self.cache = writer.cache(rounded(self.total, CACHE))
        self.is_even = len({len(row) for row in rows}) == 1
        self.place: Ids | None = None
        self.seen = self.furthest = 0

    def next(self, counter: Array) -> Ids:
        """The next id of each sequence."""
        if self.place is None:
            ids, last = self.padded(4)
            self.place = last[0] if self.is_even else last
            self.furthest = int(last.max())
            return self.prompted(self.cache, counter, ids, last)
        self.place, self.furthest = self.place + np.int32(1), self.furthest + 1
        if self.furthest >= self.seen:
            # From here on attention looks at more positions.
            self.seen = rounded(self.furthest + 1, CACHE)
            self.step = self.writer.step(self.cache, self.seen, self.rules, is_even=self.is_even)
        return self.step(self.last, np.asarray(self.place), counter, *self.numbers)

    def add(self, ids: Ids) -> None:
        super().add(ids)
        self.last = ids.astype(np.int32)[:, None]
