"""Compiled functions by which a language model writes on, for sizes that many calls share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class Writing:
    """Memory of sequences that are written on by one id each time.

    Attributes:
        last: the last id of each: batch, 1 | .
        place: the position of that; one for all, or batch | .
        counter: which random numbers are next.
        numbers: those of the rules by which ids are chosen, by name.
    """

    last: oc.Tensor
    place: oc.Tensor
    counter: oc.Tensor
    numbers: Mapping[str, oc.Tensor]

    @staticmethod
    def of(count: int, rules: Sequence[str], *, is_even: bool) -> Writing:
        with oc.scope("generate"):
            last = oc.node("last", batch=[count, 1], output=[], dtype=np.int32)
            place = oc.node("place", batch=[] if is_even else [count], output=[], dtype=np.int32)
            counter = oc.node("counter", output=[], dtype=np.int64)
            numbers = {rule: oc.node(rule, output=[], dtype=np.float32) for rule in rules}
        return Writing(last, place, counter, numbers)

    def step(self, model: Callable[..., Any], cache: nn.KVCache) -> oc.Code:
        """Code that writes the next ids in place of the last ones."""
        with oc.code("write") as code:
            # Where no id could be chosen, the first one takes its place until the run ends.
            scores = oc.einsum("b, 0 | v => b | v", model(oc.maximum(self.last, 0), cache=cache))
            new = Sampling(**self.numbers).chosen(scores, self.counter)
            self.last[...] = oc.einsum("b | => b, 0 |", new)
            self.place[...] = self.place + 1
            self.counter[...] = self.counter + 1
        return code

    def begin(self, ctx: oc.Context, place: Ids, last: Ids, counter: int, numbers: Sequence[Array]) -> None:
        """Sets it."""
        ctx[self.place], ctx[self.last], ctx[self.counter] = place, last[:, None], np.asarray(counter)
        for node, number in zip(self.numbers.values(), numbers, strict=True):
            ctx[node] = number


class Writer:
    """The compiled functions of a model in one context."""

    def __init__(
        self, model: Callable[..., Any], ctx: oc.Context, pages: nn.PagedCache | None = None
    ) -> None:
        self.model, self.ctx, self.pages = model, ctx, pages
        self.takes = inspect.signature(model).parameters
        self.context: int | None = getattr(model, "context", None)
        self._cache: nn.KVCache | None = None
        self._functions: dict[object, oc.Function] = {}
        self._states: dict[object, Writing] = {}
        self._steps: dict[object, oc.Routine] = {}

    def cache(self, length: int) -> nn.KVCache:
        """The cache of at least a length, which calls share."""
        if self.pages is not None:
            return self.pages
        old = self._cache
        if old is not None and length <= old.length:
            return old
        # What was compiled for the old one, and its memory, are let go.
        self._functions.clear()
        self._steps.clear()
        length = length if old is None else max(length, old.length)
        self._cache = nn.kv_cache(length=length, at_once=1)
        return self._cache

    def prompt(self, cache: nn.KVCache | None, size: int, rules: Sequence[str]) -> oc.Function:
        """From so many ids, one position of each, a counter and the numbers of rules to an id for each."""

        def prompt(ids: oc.Tensor, at: oc.Tensor, counter: oc.Tensor, *numbers: oc.Tensor) -> oc.Tensor:
            kept = {} if cache is None else {"cache": cache.at(0, last=at)}
            if "at" in self.takes:
                scores = self.model(ids, at=at, **kept)
            else:
                scores = picked(self.model(ids, **kept), at)
            return Sampling(**dict(zip(rules, numbers, strict=True))).chosen(scores, counter)

        return self._function((cache is None, size, *rules), prompt, ids="bb", at="b")

    def state(self, count: int, rules: Sequence[str], *, is_even: bool) -> Writing:
        """The memory of so many sequences; `is_even` if all have one position."""
        key = count, is_even, *rules
        if key not in self._states:
            self._states[key] = Writing.of(count, rules, is_even=is_even)
        return self._states[key]

    def step(self, cache: nn.KVCache, seen: int, state: Writing) -> oc.Routine:
        """Writes the next id of each sequence; of what came before, attention looks at `seen` positions."""
        if (seen, state) not in self._steps:
            self._steps[seen, state] = self.ctx.compile(state.step(self.model, cache.at(state.place, seen)))
        return self._steps[seen, state]

    def _function(self, key: object, function: Callable[..., Any], **axes: str) -> oc.Function:
        if key not in self._functions:
            self._functions[key] = oc.function(function, self.ctx, axes)
        return self._functions[key]


def writer_of(model: Callable[..., Any], ctx: oc.Context, pages: nn.PagedCache | None = None) -> Writer:
    """The compiled functions of a model, which keeps them itself, so that both go together; with a cache in
    pages, those for the last one.
    """
    if not callable(model):
        raise oc.ArgumentError(f"a model is a function of ids, found {model!r}")
    kept: dict[tuple[oc.Context, bool], Writer] = getattr(model, "__dict__", {}).setdefault("_writers", {})
    key = ctx, pages is None
    if key not in kept or kept[key].pages is not pages:
        kept[key] = Writer(model, ctx, pages)
    return kept[key]


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

    @property
    def room(self) -> int:
        """How long padded prompts may be."""
        return self.writer.context or self.total

    def close(self) -> None:
        """Gives back what others may use."""

    def next(self, counter: int, most: int) -> Sequence[Ids]:
        """The next ids of each sequence, one or up to `most`; `counter` is that of the first."""
        return [self.prompted(None, counter, *self.padded(1))]

    def prompted(self, cache: nn.KVCache | None, counter: int, ids: Ids, last: Ids) -> Ids:
        """The next id of each sequence, by all ids so far and the last position of each."""
        function = self.writer.prompt(cache, ids.shape[1], self.rules)
        return function(ids, last, np.asarray(counter), *self.numbers)

    def padded(self, parts: int) -> tuple[Ids, Ids]:
        """The ids so far, with zeros after them up to a size of `rounded`, and the last position of each."""
        lengths = np.array([len(row) for row in self.written], np.int32)
        size = min(rounded(int(lengths.max()), PROMPT, parts), self.room)
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
        is_even = len({len(row) for row in rows}) == 1
        self.state = writer.state(len(rows), self.rules, is_even=is_even)
        self.is_even, self.furthest = is_even, -1

    def next(self, counter: int, most: int) -> Sequence[Ids]:
        """The next ids of each sequence: first the one after the prompt, then up to `most` at once."""
        if self.furthest < 0:
            return [self.begin(counter)]
        # From some position on, attention looks at more of them.
        seen = min(rounded(self.furthest + 1, CACHE), self.cache.length)
        count = min(most, seen - self.furthest)
        self.furthest += count
        found = self.writer.step(self.cache, seen, self.state).run_loop(
            epochs=count, record=[self.state.last]
        )
        return list(found[self.state.last].reshape(count, -1))

    def begin(self, counter: int) -> Ids:
        """The ids after the prompt, which are the first to be kept."""
        ids, last = self.padded(4)
        new = self.prompted(self.cache, counter, ids, last)
        place = (last[0] if self.is_even else last) + np.int32(1)
        self.furthest = int(last.max()) + 1
        self.state.begin(self.writer.ctx, place, new, counter + 1, self.numbers)
        return new
