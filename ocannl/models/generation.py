"""Writing on: ids that a language model chooses one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

import ocannl as oc
from ocannl import nn
from ocannl.models.paging import Paged
from ocannl.models.sampling import NONE
from ocannl.models.writing import Array, Cached, Ids, Whole, writer_of
from ocannl.program.arguments.checks import flag, integer, number
from ocannl.program.arguments.numbers import is_truth
from ocannl.program.mistakes.misuse import explained
from ocannl.runtime.random import stream_key, words

Stream: TypeAlias = Callable[[Ids], Any]
Pack: TypeAlias = Callable[[list[list[int]], Ids], Any]
"""From sequences, and how long each was when it ended."""

AHEAD = 16
"""How many ids are written at once where sequences may end."""


@explained
def generate(
    model: Callable[..., Any],
    ids: Ids | Sequence[Any],
    *,
    max_new: int = 64,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    stop: int | Sequence[int] | None = None,
    seed: int = 0,
    stream: Stream | None = None,
    cache: bool | nn.PagedCache = True,
    ctx: oc.Context | None = None,
) -> Any:
    """Ids, and up to `max_new` that a language model writes on: one sequence, position, or several, batch,
    position, or a list of sequences of any lengths. The result is of the same kind.

    The model is a function of ids, batch, position | , to scores batch, position | ids, as
    `oc.models.load` gives it. One that takes a `cache` gets an `nn.kv_cache` for what it has seen, of the
    greatest length so far and with attention to a number of positions, which are powers of two; others
    compute all positions again for each id, and so does `cache=False`. With a cache, many ids are written
    without returning to Python, but with `stream`. An `nn.paged_cache` may be given as `cache`: sequences
    take the pages that they need, share those of equal beginnings, and give them back in the end.

    With `temperature=0` the best id is taken. Else ids are chosen by the softmax of `scores / temperature`,
    among the `top_k` best, the best whose probabilities sum to `top_p`, and those whose probability is at
    least `min_p` times that of the best; equal seeds, which count modulo 2**64, choose equally. A sequence
    ends after an id in `stop`, and the others go on; in an array what follows that id repeats it. `stream` is
    called with the new ids of each step, one for each sequence; where it gives `True`, all end.

    Raises `oc.OcannlError` for scores among which none can be chosen: one is NaN, or all are -inf; with a
    temperature, one is infinite.
    """
    rows, pack = _rows(ids)
    max_new = integer(max_new, "the number of new ids")
    settings = _settings(temperature, top_k, top_p=top_p, min_p=min_p)
    base = first_counter(integer(seed, "a seed", least=None))
    ends = {integer(id, "an id in `stop`", least=None) for id in _listed(stop)}
    pages = cache if isinstance(cache, nn.PagedCache) else None
    writer = writer_of(model, oc.default_context() if ctx is None else ctx, pages)
    cached = pages is not None or flag(cache, "cache")
    kind = Whole if not cached or "cache" not in writer.takes else Cached if pages is None else Paged
    run = kind(writer, rows, max_new, settings)
    try:
        lengths = _write(run, max_new, base, ends, stream)
    finally:
        run.close()
    return pack(run.written, lengths)


def first_counter(seed: int) -> int:
    """The first counter of a seed's random numbers, from 0 to 2**62: far from those of other seeds."""
    low, high = (int(word) for word in words(stream_key(seed, "generate"), 2))
    return (low | high << 32) >> 2


def _write(run: Whole, max_new: int, base: int, ends: set[int], stream: Stream | None) -> Ids:
    """Writes sequences on; gives their lengths where they ended."""
    count = len(run.written)
    last, ended = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    lengths = np.array([len(row) for row in run.written], np.int64)
    number, at_once = 0, 1 if stream is not None else AHEAD if ends else max_new
    while number < max_new and not ended.all():
        for new in run.next(base + number, min(at_once, max_new - number)):
            _check(new, ended, number)
            last = np.where(ended, last, new)
            run.add(last)
            lengths += ~ended
            number += 1
            if stream is not None:
                found: object = stream(last)
                ended |= is_truth(found) and bool(found)
            ended |= np.array([id in ends for id in last.tolist()], np.bool_)
            if ended.all():
                break
    return lengths


def _check(new: Ids, ended: Any, number: int) -> None:
    """Raises `oc.OcannlError` where no id could be chosen for a sequence that has not ended."""
    found = np.flatnonzero((new == NONE) & ~ended)
    if found.size:
        raise oc.OcannlError(
            f"no id can be chosen for new position {number} of sequence {found[0]}: its scores are NaN, "
            "infinite, or all -inf; see what the model computes there"
        )


def _listed(stop: int | Sequence[int] | None) -> Sequence[Any]:
    """The ids after which sequences end."""
    if stop is None:
        return []
    return [stop] if np.ndim(stop) == 0 else [*np.ravel(np.asarray(stop, np.object_))]


def _settings(temperature: float, top_k: int | None, **parts: float | None) -> dict[str, Array]:
    """The numbers by which ids are chosen, as far as they count."""
    number(temperature, "a temperature", below=math.inf)
    for name, part in parts.items():
        if part is None:
            continue
        number(part, name)
        if not 0 < part <= 1:
            raise oc.ArgumentError(f"{name} is more than 0 and at most 1, found {part!r}")
    if top_k is not None:
        parts["top_k"] = integer(top_k, "top_k", least=1)
    if temperature == 0:
        return {}
    given = {"temperature": temperature, **parts}
    return {name: np.asarray(value, np.float32) for name, value in given.items() if value is not None}


def _rows(ids: Ids | Sequence[Any]) -> tuple[list[list[int]], Pack]:
    """Sequences of ids, and a function that puts sequences into the form in which they came."""
    ids = np.asarray(ids) if hasattr(ids, "__array__") else ids
    is_list = not isinstance(ids, np.ndarray) and any(np.ndim(row) for row in ids)
    rows = [np.asarray(row) for row in ids] if is_list else [*np.atleast_2d(np.asarray(ids))]
    for row in rows:
        if row.ndim != 1 or row.dtype.kind not in "iu" or not row.size:
            raise oc.ArgumentError(f"a prompt is one id or more in a row, found {row!r:.60}")
    lists = [row.tolist() for row in rows]
    if is_list:
        return lists, _ended
    if np.ndim(ids) == 1:
        return lists, lambda rows, lengths: np.array(rows[0], np.int64)
    return lists, lambda rows, lengths: np.array(rows, np.int64)


def _ended(rows: list[list[int]], lengths: Ids) -> list[Ids]:
    return [np.array(row[:length], np.int64) for row, length in zip(rows, lengths, strict=True)]
