"""`schedule` with choices that were made before, by running the nests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ocannl.dialects.loops import GroupOp, NestOp
from ocannl.passes.analysis.step_text import step_text
from ocannl.passes.loops.schedule.schedule import Choice, SchedulePass

# What is chosen for each nest of a step; None leaves it to the cost model.
Choices: TypeAlias = tuple[Choice | None, ...]
# Finds the choices for a step by its text.
FindChoices: TypeAlias = Callable[[str], Choices | None]


def no_choices(text: str) -> None:
    """Leaves all to the cost model."""


@dataclass(frozen=True)
class TunedSchedulePass(SchedulePass):
    """Takes the choices that are found for the text of a step; the cost model decides on the rest."""

    find: FindChoices = no_choices

    def choices(self, step: NestOp | GroupOp) -> Sequence[Choice | None] | None:
        return self.find(step_text(step))
