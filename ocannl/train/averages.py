"""Averages of parameters over the steps of an optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import ocannl as oc
from ocannl.program.arguments.checks import integer
from ocannl.train.step_counts import StepCounts

Averages: TypeAlias = Mapping[oc.Tensor, oc.Tensor]


def moving(averages: Averages, counts: StepCounts, kept: float) -> Averages:
    """Code of averages in which the old value has the share `kept`; the first ones are the values. Gives the
    counter of each.
    """
    for p, average in averages.items():
        average[...] = oc.where(counts.of(p) <= 1, p, kept * average + (1 - kept) * p)
    return {p: counts.memory_of(p) for p in averages}


def even(averages: Averages, counts: StepCounts, when: tuple[int, int]) -> Averages:
    """Code of means of the values after some steps (stochastic weight averaging, Izmailov et al.,
    2018): from a first one on, in an interval. Before that, the averages are the values. Gives the counter of
    each.
    """
    start, interval = when
    since = counts.together() - 1 - start
    is_due = (since >= 0) * oc.eq(since % interval, 0)
    numbers = {p: counts.counter_of(p, "averaged") for p in averages}
    for averaged in dict.fromkeys(numbers.values()):
        averaged += is_due
    for p, averaged in numbers.items():
        average = averages[p]
        mean = average + oc.where(is_due, (p - average) / oc.maximum(averaged, 1), 0.0)
        average[...] = oc.where(averaged <= 0, p, mean)
    return numbers


def start_and_interval(swa: Any) -> tuple[int, int] | None:
    """The option `swa`: a number of steps, or that and an interval. Raises `ArgumentError` for others."""
    if swa is None:
        return None
    pair: tuple[Any, ...] = cast("tuple[Any, ...]", swa) if isinstance(swa, tuple) else (swa, 1)
    if len(pair) != 2:
        raise oc.ArgumentError(f"swa is the first step that counts, or that and an interval, found {swa!r}")
    return integer(pair[0], "swa's first step"), integer(pair[1], "swa's interval", least=1)
