"""Local search for what propagation leaves open: the ways of steps, by the cost of computing and moving."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.infer_placements.costs import Machine
from ocannl.passes.analysis.infer_placements.problem import WHOLE, Problem, Split, Way


@dataclass
class Search:
    """Splits and ways, some of which are open: they begin whole, and change while that lowers the cost."""

    problem: Problem
    machine: Machine
    splits: list[Split]
    ways: list[Way]
    open_values: frozenset[int]
    open_steps: Sequence[int]

    def run(self) -> None:
        """Improves steps in program order until nothing changes. Ties go to what is there, so to whole."""
        while sum(self._improve(number) for number in self.open_steps):
            pass

    def _improve(self, number: int) -> bool:
        step = self.problem.steps[number]
        values = dict.fromkeys((*step.operands, *step.results))
        best, before = None, self._cost(number, values)
        start = self.ways[number], self._splits_of(values)
        for way, changed in self._alternatives(number):
            self._set(number, way, {**start[1], **changed})
            cost = self._cost(number, values)
            if cost is not None and (before is None or cost < before):
                best, before = (way, {**start[1], **changed}), cost
        self._set(number, *(best or start))
        return best is not None

    def _splits_of(self, values: dict[int, None]) -> dict[int, Split]:
        return {value: self.splits[value] for value in values}

    def _set(self, number: int, way: Way, splits: dict[int, Split]) -> None:
        self.ways[number] = way
        for value, split in splits.items():
            self.splits[value] = split

    def _alternatives(self, number: int) -> Iterator[tuple[Way, dict[int, Split]]]:
        """The ways of a step, with splits of its open results and of what it has in place."""
        step = self.problem.steps[number]
        values = (*step.operands, *step.results)
        for way in step.ways:
            splits = (*way.needs, *way.gives)
            options: dict[int, tuple[Split, ...]] = {}
            for place, (value, split) in enumerate(zip(values, splits, strict=True)):
                is_movable = place >= len(step.operands) or place in step.in_place
                if value in self.open_values and is_movable:
                    options[value] = (WHOLE, split) if split >= 0 else (WHOLE,)
            for chosen in product(*options.values()):
                yield way, dict(zip(options, chosen, strict=True))

    def _cost(self, number: int, values: dict[int, None]) -> int | None:
        """The cost of a step and of moving its values; None where something cannot be moved."""
        total = self.ways[number].points * self.machine.point
        for value in values:
            cost = self._moving(value)
            if cost is None:
                return None
            total += cost
        return total

    def _moving(self, value: int) -> int | None:
        """The cost of moving a value from its maker, and into each split that is needed once."""
        about = self.problem.values[value]
        if about.free:
            return 0
        split, total = self.splits[value], 0
        for number, place in self.problem.makers[value]:
            given = self.ways[number].gives[place]
            step = self.problem.steps[number]
            is_fixed = place + len(step.operands) in step.in_place and given != split
            cost = None if is_fixed else self.machine.moving(about.bytes, given, split, self.problem.ranks)
            if cost is None:
                return None
            total += cost
        needs: set[Split] = set()
        for number, place in self.problem.uses[value]:
            need = self.ways[number].needs[place]
            if place in self.problem.steps[number].in_place and need != split:
                return None
            needs.add(need)
        for need in sorted(needs):
            cost = self.machine.moving(about.bytes, split, need, self.problem.ranks)
            if cost is None:
                return None
            total += cost
        return total

    def impossible(self) -> int | None:
        """The first step that cannot be computed, as its values are split."""
        for number, step in enumerate(self.problem.steps):
            if any(self._moving(value) is None for value in (*step.operands, *step.results)):
                return number
        return None
