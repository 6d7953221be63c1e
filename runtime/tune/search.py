"""A local search over options for many keys at once, which are measured in the same trials."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Option = TypeVar("Option", bound=Hashable)

# The number of alternatives for a key that are measured beside the best one so far.
WIDTH = 4
# The part of the time by which an alternative has to be faster.
MARGIN = 0.03


def fastest(times: Sequence[Sequence[float]], margin: float = MARGIN) -> int:
    """The number of the lowest median, if it is lower than the first one by a margin; else 0."""
    medians = [statistics.median(found) for found in times]
    best = min(range(len(medians)), key=medians.__getitem__)
    return best if medians[best] < medians[0] * (1 - margin) else 0


def search(
    start: Mapping[Key, Option],
    others: Callable[[Key, Option], Iterable[Option]],
    measure: Callable[[list[dict[Key, Option]]], Sequence[Mapping[Key, Sequence[float]]]],
    has_time: Callable[[], bool],
) -> dict[Key, Option]:
    """The best option found for each key, from those that `start` has.

    `others` are the alternatives to an option, the most promising first. `measure` takes trials, each with an
    option for every key, and returns the times of each key in them; if there is no time for all trials, for
    the first ones. The first trial of a round has the best options so far; those of another take their
    place only if they are faster by a margin in the same round.
    """
    best = dict(start)
    tried = {key: {option} for key, option in start.items()}
    while has_time():
        fresh: dict[Key, list[Option]] = {}
        for key, option in best.items():
            fresh[key] = list(islice((o for o in others(key, option) if o not in tried[key]), WIDTH))
            tried[key].update(fresh[key])
        rounds = max((len(found) for found in fresh.values()), default=0)
        if rounds == 0:
            break
        trials = [
            {key: fresh[key][k] if k < len(fresh[key]) else option for key, option in best.items()}
            for k in range(rounds)
        ]
        times = measure([best, *trials])
        for key, option in best.items():
            options = [option, *fresh[key]][: len(times)]
            best[key] = options[fastest([times[k][key] for k in range(len(options))])]
    return best
