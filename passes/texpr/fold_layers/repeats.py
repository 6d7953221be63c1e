"""Finds code that repeats, one layer like the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# How often code repeats at least for it to be called that.
LEAST_REPEATS = 4
# How many statements of a layer are equal at most, if there is no other.
MOST_ALIKE = 8
# How many distances between equal statements are tried as periods, those of most statements first.
PERIODS_TRIED = 64


@dataclass(frozen=True, slots=True)
class Repeat:
    """Statements from `start` to `stop`, each equal to the one `period` later, while there is one."""

    start: int
    stop: int
    period: int


def repeats(codes: NDArray[np.int64]) -> list[Repeat]:
    """Where codes repeat, longer ones first."""
    found = [repeat for period in periods(codes) for repeat in repeats_of(codes, period)]
    return sorted(found, key=lambda repeat: (repeat.start - repeat.stop, repeat.period))


def apart(repeats: Sequence[Repeat]) -> list[Repeat]:
    """Those that do not overlap with those before."""
    taken: list[Repeat] = []
    for repeat in repeats:
        if all(repeat.stop <= other.start or other.stop <= repeat.start for other in taken):
            taken.append(repeat)
    return taken


def periods(codes: NDArray[np.int64]) -> list[int]:
    """Distances from statements to later ones that are equal."""
    order = np.argsort(codes, kind="stable")
    apart = [order[lag:] - order[:-lag] for lag in range(1, MOST_ALIKE + 1)]
    equal = [codes[order][lag:] == codes[order][:-lag] for lag in range(1, MOST_ALIKE + 1)]
    distances = np.concatenate([found[same] for found, same in zip(apart, equal, strict=True)])
    found, counts = np.unique(distances, return_counts=True)
    often = np.argsort(-counts, kind="stable")[:PERIODS_TRIED]
    return [int(found[k]) for k in often if counts[k] >= LEAST_REPEATS - 1]


def repeats_of(codes: NDArray[np.int64], period: int) -> Iterator[Repeat]:
    same = np.concatenate([[False], codes[:-period] == codes[period:], [False]])
    edges = np.flatnonzero(np.diff(same.astype(np.int8)))
    for start, stop in edges.reshape(-1, 2).tolist():
        if stop - start >= (LEAST_REPEATS - 1) * period:
            yield Repeat(start, stop + period, period)
