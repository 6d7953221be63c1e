"""A search for periodic stretches in a sequence of statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.records import dataclass

# The least number of repetitions.
LEAST_REPEATS = 4
# The most equal statements in a layer, counted by lags.
MOST_ALIKE = 8
# The number of distances between equal statements that are tried as periods, the most frequent first.
PERIODS_TRIED = 64


@dataclass(frozen=True, slots=True)
class Repeat:
    """A periodic stretch: the statements from `start` to `stop`, each equal to the one `period` later, if
    that is inside.
    """

    start: int
    stop: int
    period: int


def repeats(codes: NDArray[np.int64]) -> list[Repeat]:
    """The periodic stretches of a sequence of numbers, longest first."""
    found = [repeat for period in periods(codes) for repeat in repeats_of(codes, period)]
    return sorted(found, key=lambda repeat: (repeat.start - repeat.stop, repeat.period))


def apart(repeats: Sequence[Repeat]) -> list[Repeat]:
    """The stretches that do not overlap with earlier ones of the list."""
    taken: list[Repeat] = []
    for repeat in repeats:
        if all(repeat.stop <= other.start or other.stop <= repeat.start for other in taken):
            taken.append(repeat)
    return taken


def periods(codes: NDArray[np.int64]) -> list[int]:
    """Candidate periods: the most frequent distances between equal statements."""
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
