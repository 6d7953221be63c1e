"""Propagation of given splits along the steps of a program, without contradiction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ocannl.passes.analysis.infer_placements.problem import PARTIAL, WHOLE, Fact, Problem, Split, Step, Way


@dataclass
class Propagation:
    """Splits and ways that are decided. What is known of a value is that it is split along an axis.

    Steps follow from their operands first, and from their results where operands say nothing; operands follow
    last, from the steps that need them. What follows from data decides before parameters do. Where both are
    split, and no way fits, data decide: parameters are held in parts, and gathered where they are used.
    """

    problem: Problem
    splits: list[Split | None] = field(init=False)
    ways: list[Way | None] = field(init=False)
    facts: list[Fact] = field(init=False)
    via: dict[int, int] = field(default_factory=dict[int, int])
    """The value from which each step follows."""
    rest_on_weights: list[bool] = field(init=False)
    """Whether the split of each value is that of a weight, or follows from one."""

    def __post_init__(self) -> None:
        self.splits = [value.given for value in self.problem.values]
        self.ways = [None] * len(self.problem.steps)
        self.rest_on_weights = [value.is_weight for value in self.problem.values]
        self.facts = [Fact("open" if split is None else "given") for split in self.splits]

    def run(self) -> None:
        while self._forward(by_data=True) or self._forward() or self._backward():
            pass
        self._settle_sums()

    def _set(self, value: int, split: Split, fact: Fact) -> bool:
        self.splits[value], self.facts[value] = split, fact
        self.rest_on_weights[value] = self.rest_on_weights[fact.via]
        return True

    def _forward(self, *, by_data: bool = False) -> bool:
        """Decides steps from their operands, in program order; `by_data`, from those that follow from data
        alone. Tells whether anything was decided.
        """
        changed = False
        for source, target in self.problem.followers:
            split = self.splits[source]
            if self.splits[target] is None and split is not None and split >= 0:
                changed = self._set(target, split, Fact("follows", via=source))
        for number, step in enumerate(self.problem.steps):
            if self.ways[number] is None:
                operands = [v for v in step.operands if not (by_data and self.rest_on_weights[v])]
                changed |= self._decide(number, step, operands, ())
        return changed

    def _backward(self) -> bool:
        """Decides steps from their results, the last ones first, and else values from what is needed."""
        changed = False
        for number in reversed(range(len(self.problem.steps))):
            if self.ways[number] is None:
                step = self.problem.steps[number]
                changed |= self._decide(number, step, (), step.results)
        if not changed:
            for value in reversed(range(len(self.problem.values))):
                changed |= self._follow_needs(value)
        return changed

    def _decide(self, number: int, step: Step, operands: Sequence[int], results: Sequence[int]) -> bool:
        """Takes the one way that fits to what is known of these values."""
        needed, given = self._known(operands), self._known(results)
        if not needed and not given:
            return False
        found = self._fitting(step, needed, given)
        if len(found) == 1:
            self.via[number] = next(iter(needed or given))
            self._take(number, found[0])
        return len(found) == 1

    def _fitting(self, step: Step, needed: dict[int, Split], given: dict[int, Split]) -> list[Way]:
        """The ways to divide a step that have the known splits of its operands and results."""
        return [
            way
            for way in step.ways[1:]
            if _fits(way.needs, step.operands, needed)
            and _fits(way.gives, step.results, given)
            and self._is_allowed(step, way)
        ]

    def _known(self, values: Iterable[int]) -> dict[int, Split]:
        """The splits of those of the values that are split."""
        own = {v: self.splits[v] for v in values if not self.problem.values[v].free}
        return {v: split for v, split in own.items() if split is not None and split != WHOLE}

    def _is_allowed(self, step: Step, way: Way) -> bool:
        """Whether what stays in place has the splits of a way, or could have them."""
        every = [*zip((*step.operands, *step.results), (*way.needs, *way.gives), strict=True)]
        return all(self._may_have(*every[place]) for place in step.in_place)

    def _may_have(self, value: int, split: Split) -> bool:
        known = self.splits[value]
        return known == split or (known is None and split in (WHOLE, *self.problem.values[value].axes))

    def _take(self, number: int, way: Way) -> None:
        """Divides a step: its results have the splits that it gives, and so has memory in place."""
        step = self.problem.steps[number]
        self.ways[number] = way
        places = len(step.operands)
        for place, (value, split) in enumerate(
            zip((*step.operands, *step.results), (*way.needs, *way.gives), strict=True)
        ):
            is_decided = place >= places or place in step.in_place
            if is_decided and self.splits[value] is None and split != PARTIAL:
                self._set(value, split, Fact("step", number, self.via[number]))

    def _follow_needs(self, value: int) -> bool:
        """Decides a value of which all divided steps that read it need the same axis."""
        is_open = self.splits[value] is None and not self.problem.values[value].free
        if not is_open or any(self.ways[number] is not None for number, _ in self.problem.makers[value]):
            return False
        split = self._common_need(value)
        if split is None or split < 0:
            return False
        reader = next(n for n, place in self.problem.uses[value] if self._need(n, place) == split)
        return self._set(value, split, Fact("need", reader, self.via[reader]))

    def _common_need(self, value: int) -> Split | None:
        """The split that all divided steps need that read a value."""
        needs = {self._need(number, place) for number, place in self.problem.uses[value]} - {None}
        split = needs.pop() if len(needs) == 1 else None
        return split if split in self.problem.values[value].axes else None

    def _need(self, number: int, place: int) -> Split | None:
        way = self.ways[number]
        return None if way is None else way.needs[place]

    def _settle_sums(self) -> None:
        """Additions of parts of sums add parts, where nothing else reads these. Other sums have the split
        that their divided users need, or are whole.
        """
        for number, step in enumerate(self.problem.steps):
            way = next((way for way in step.ways[1:] if PARTIAL in way.needs), None)
            if self.ways[number] is None and way is not None and self._adds_parts(step, way):
                self._add_parts(number, step, way)
        for number, way in enumerate(self.ways):
            gives = () if way is None else way.gives
            for value, split in zip(self.problem.steps[number].results, gives, strict=False):
                if split == PARTIAL and self.splits[value] is None:
                    common = self._common_need(value)
                    fact = Fact("step", number, self.via[number])
                    self._set(value, WHOLE if common is None else common, fact)

    def _adds_parts(self, step: Step, way: Way) -> bool:
        parts = [value for value, need in zip(step.operands, way.needs, strict=True) if need == PARTIAL]
        return self._is_allowed(step, way) and all(map(self._is_part, parts))

    def _add_parts(self, number: int, step: Step, way: Way) -> None:
        self.ways[number] = way
        self.via[number] = step.operands[way.needs.index(PARTIAL)]
        for value, need in zip(step.operands, way.needs, strict=True):
            if need == PARTIAL:
                (maker, _), *_ = self.problem.makers[value]
                self._set(value, PARTIAL, Fact("step", maker, self.via[maker]))

    def _is_part(self, value: int) -> bool:
        """Whether a value is computed as parts of a sum, which one step reads."""
        made = [(self.ways[number], place) for number, place in self.problem.makers[value]]
        are_parts = all(way is not None and way.gives[place] == PARTIAL for way, place in made)
        is_open = self.problem.values[value].may_be_partial and self.splits[value] is None
        return bool(made) and are_parts and is_open and len({n for n, _ in self.problem.uses[value]}) == 1


def _fits(sides: Sequence[Split], values: Sequence[int], known: dict[int, Split]) -> bool:
    """Whether a way has the known splits."""
    return all(split == known.get(value, split) for split, value in zip(sides, values, strict=True))
