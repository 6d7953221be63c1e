"""Writing on: ids that a language model chooses one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

import ocannl as oc
from ocannl.models.writing import Array, Cached, Ids, Whole, writer_of
from ocannl.program.checks import integer

Stream: TypeAlias = Callable[[Ids], Any]

AHEAD = 16
"""How many ids are written at once where sequences may end."""


def generate(
    model: Callable[..., Any],
    ids: Ids | Sequence[Any],
    *,
    max_new: int = 64,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: int | Sequence[int] | None = None,
    seed: int = 0,
    stream: Stream | None = None,
    cache: bool = True,
    ctx: oc.Context | None = None,
) -> Any:
    """Ids, and up to `max_new` that a language model writes on: one sequence, position, or several, batch,
    position, or a list of sequences of any lengths. The result is of the same kind.

    The model is a function of ids, batch, position | , to scores batch, position | ids, as
    `oc.models.load` gives it. One that takes a `cache` gets an `nn.kv_cache` for what it has seen, of a
    length and with attention to a number of positions that are powers of two; others compute all positions
    again for each id, and so does `cache=False`. With a cache, many ids are written without returning to
    Python, but with `stream`.

    With `temperature=0` the best id is taken. Else ids are chosen by the softmax of `scores / temperature`,
    among the `top_k` best, and the best whose probabilities sum to `top_p`; equal seeds choose equally. A
    sequence ends after an id in `stop`; in an array the others go on, and what follows that id repeats it.
    `stream` is called with the new ids of each step, one for each sequence.
    """
    rows, pack = _rows(ids)
    max_new = integer(max_new, "the number of new ids")
    settings = _settings(temperature, top_k, top_p)
    base = integer(seed, "a seed", least=None) % 2**31 << 32
    ends = np.asarray([] if stop is None else stop, np.int64).reshape(-1)
    writer = writer_of(model, oc.default_context() if ctx is None else ctx)
    run = (Cached if cache and "cache" in writer.takes else Whole)(writer, rows, max_new, settings)
    last, ended = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    number, at_once = 0, 1 if stream is not None else AHEAD if ends.size else max_new
    while number < max_new and not ended.all():
        for new in run.next(base + number, min(at_once, max_new - number)):
            last = np.where(ended, last, new)
            run.add(last)
            number += 1
            if stream is not None:
                stream(last)
            ended |= np.isin(last, ends)
            if ended.all():
                break
    return pack(run.written)


def _settings(temperature: float, top_k: int | None, top_p: float | None) -> dict[str, Array]:
    """The numbers by which ids are chosen, as far as they count."""
    if not temperature >= 0:
        raise oc.ArgumentError(f"a temperature is at least 0, found {temperature!r}")
    if top_p is not None and not 0 < top_p <= 1:
        raise oc.ArgumentError(f"top_p is more than 0 and at most 1, found {top_p!r}")
    if temperature == 0:
        return {}
    given = {"temperature": temperature, "top_p": top_p}
    if top_k is not None:
        given["top_k"] = integer(top_k, "top_k", least=1)
    return {name: np.asarray(value, np.float32) for name, value in given.items() if value is not None}


def _rows(ids: Ids | Sequence[Any]) -> tuple[list[list[int]], Callable[[list[list[int]]], Any]]:
    """Sequences of ids, and a function that puts sequences into the form in which they came."""
    is_list = not isinstance(ids, np.ndarray) and any(np.ndim(row) for row in ids)
    rows = [np.asarray(row) for row in ids] if is_list else [*np.atleast_2d(np.asarray(ids))]
    for row in rows:
        if row.ndim != 1 or row.dtype.kind not in "iu" or not row.size:
            raise oc.ArgumentError(f"a prompt is one id or more in a row, found {row!r:.60}")
    lists = [row.tolist() for row in rows]
    if is_list:
        return lists, lambda rows: [np.array(row, np.int64) for row in rows]
    if np.ndim(ids) == 1:
        return lists, lambda rows: np.array(rows[0], np.int64)
    return lists, lambda rows: np.array(rows, np.int64)
