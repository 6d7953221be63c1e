"""The steps that are not decided, and may be divided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from heapq import heapify, heappop, heappush

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.infer_placements.problem import WHOLE, Problem, Split, Way


@dataclass
class OpenSteps:
    """Steps of which an operand is split, or may be as an open step makes it. `splits`, `ways` and
    `rest_on_weights` are what is known of values and steps so far; `look_again` is told of each step that
    waits for other ones now than before.
    """

    problem: Problem
    splits: Sequence[Split | None]
    ways: Sequence[Way | None]
    rest_on_weights: Sequence[bool]
    look_again: Callable[[int], None]
    numbers: set[int] = field(default_factory=set[int])

    def update(self, numbers: Iterable[int]) -> None:
        """Finds out which are open after something has changed that concerns these, and those that follow."""
        changed = [*numbers]
        heapify(changed)
        while changed:
            number = heappop(changed)
            if self._is_open(number) == (number in self.numbers):
                continue
            self.numbers ^= {number}
            step = self.problem.steps[number]
            for place, value in enumerate(step.results, len(step.operands)):
                if place not in step.in_place:
                    for reader in self._later_readers(value, number):
                        heappush(changed, reader)
                        self.look_again(reader)
            for value in step.operands:
                if self.rest_on_weights[value]:
                    for reader in self._later_readers(value, number):
                        self.look_again(reader)

    def holds_up(self, number: int) -> bool:
        """Whether a step reads what an open step makes, or what rests on parameters and an earlier open step
        reads.
        """
        return any(
            self._is_made_by_open(value, number)
            or (self.rest_on_weights[value] and self._is_read_by_open(value, number))
            for value in self.problem.steps[number].operands
        )

    def _is_open(self, number: int) -> bool:
        return self.ways[number] is None and any(
            self._is_split(value) or self._is_made_by_open(value, number)
            for value in self.problem.steps[number].operands
        )

    def _is_split(self, value: int) -> bool:
        return self.splits[value] not in (None, WHOLE) and not self.problem.values[value].free

    def _is_made_by_open(self, value: int, before: int) -> bool:
        return any(
            number < before and number in self.numbers and not self._is_in_place(number, place)
            for number, place in self.problem.makers[value]
        )

    def _is_in_place(self, number: int, place: int) -> bool:
        step = self.problem.steps[number]
        return place + len(step.operands) in step.in_place

    def _is_read_by_open(self, value: int, before: int) -> bool:
        return any(number in self.numbers for number, _ in self.problem.uses[value] if number < before)

    def _later_readers(self, value: int, number: int) -> list[int]:
        return [reader for reader, _ in self.problem.uses[value] if reader > number]
