"""A beam search: the likeliest sequences that a language model writes, with keys and values in pages.

Sequences of the beam have most of their positions in common. Each position is a page of a cache, so that a
sequence which goes on in two ways is no copy: its pages stand in two rows of the table.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn
from ocannl.models.tokens import tokenizer_of

Model: TypeAlias = Callable[..., oc.Tensor]


class Found(NamedTuple):
    """The sequences of a beam, the likeliest first: row, position, and the logarithms of their chances."""

    rows: NDArray[np.int64]
    totals: NDArray[np.float64]


def beam_search(
    model: Model, ids: Sequence[int], *, width: int, max_new: int, stop: int | None = None
) -> Found:
    """The likeliest sequences of ids and `max_new` others, of those that go on from the `width` likeliest of
    each length. One that has `stop` repeats it, without a cost.
    """
    ctx, length = oc.default_context(), len(ids) + max_new
    cache = nn.paged_cache(length=length, pages=len(ids) + width * max_new, page_size=1)

    def read(ids: oc.Tensor, start: oc.Tensor) -> oc.Tensor:
        return nn.log_softmax()(model(ids, cache=cache.at(start)))

    function = oc.function(read, axes={"ids": "bb", "start": ""})
    tables = [cache.take(len(ids))]
    cache.set_tables(ctx, tables)
    rows = np.array([ids])
    chances = function(rows.astype(np.int32), np.int32(0))[:, -1]
    totals = np.zeros(1)
    for at in range(len(ids), length):
        found = totals[:, None] + ended(chances, rows[:, len(ids) :], stop)
        best = np.argsort(-found, axis=None, kind="stable")[:width]
        parents, new = np.unravel_index(best, found.shape)
        rows, totals = np.column_stack([rows[parents], new]), found.reshape(-1)[best]
        if at + 1 < length:
            tables = [[*tables[parent], *cache.take(1)] for parent in parents]
            cache.set_tables(ctx, tables)
            chances = function(rows[:, -1:].astype(np.int32), np.int32(at))[:, 0]
    return Found(rows, totals)


def ended(chances: NDArray[np.float32], written: NDArray[np.int64], stop: int | None) -> NDArray[np.float64]:
    """The logarithms of chances, in which sequences that have `stop` go on with it only."""
    wide = chances.astype(np.float64)
    if stop is not None:
        has_ended = (written == stop).any(1)
        wide[has_ended] = -np.inf
        wide[has_ended, stop] = 0
    return wide


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("model", type=Path, help="the folder of a model with its tokenizer")
    parser.add_argument("prompt")
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--max-new", type=int, default=32)
    given = parser.parse_args(arguments)
    tokenizer = tokenizer_of(given.model)
    model = oc.models.load(given.model)
    found = beam_search(model, tokenizer.encode(given.prompt).ids, width=given.width, max_new=given.max_new)
    for row, total in zip(found.rows, found.totals, strict=True):
        print(f"{total:.2f}", tokenizer.decode(row.tolist()))


if __name__ == "__main__":
    main()
