"""The order in which a stage computes the parts of microbatches, and what of a run it waits."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Literal, TypeAlias

Turn: TypeAlias = Literal["forward", "backward"]
"""The turns of a microbatch in a stage: the first one, and that which waits for later stages."""
FORWARD: Turn = "forward"
BACKWARD: Turn = "backward"
Schedule: TypeAlias = Literal["1f1b", "gpipe"]
SCHEDULES: tuple[Schedule, ...] = ("1f1b", "gpipe")


def slots(stage: int, stages: int, microbatches: int, schedule: Schedule) -> Iterator[tuple[Turn, int]]:
    """The turns of microbatches in the order in which a stage computes them.

    By `gpipe` all go forward first (Huang et al., 2019). By `1f1b` a stage that has as many microbatches
    under way as there are stages from it on computes one backward before the next one forward
    (PipeDream-Flush; Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", 2021).
    """
    ahead = microbatches if schedule == "gpipe" else min(stages - 1 - stage, microbatches)
    for number in range(microbatches + ahead):
        if number < microbatches:
            yield FORWARD, number
        if number >= ahead:
            yield BACKWARD, number - ahead


def in_flight(stage: int, stages: int, microbatches: int, schedule: Schedule) -> int:
    """The most microbatches whose values a stage keeps at the same time."""
    if schedule == "gpipe":
        return microbatches
    return min(stages - stage, microbatches)


def bubble(stages: int, microbatches: int) -> Fraction:
    """The part of a run in which a stage waits for others, where all take equally long."""
    return Fraction(stages - 1, microbatches + stages - 1)
