"""Propagation of given splits along the steps of a program, without contradiction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import product

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.infer_placements.agenda import Agenda
from ocannl.passes.analysis.infer_placements.open_steps import OpenSteps
from ocannl.passes.analysis.infer_placements.problem import PARTIAL, WHOLE, Fact, Problem, Split, Step, Way


@dataclass
class Propagation:
    """Splits and ways that are decided. What is known of a value is that it is split along an axis.

    Steps follow from their operands first, and from their results where operands say nothing; operands follow
    last, from the steps that need them. What follows from data decides before parameters do. Where both are
    split, and no way fits, data decide: parameters are held in parts, and gathered where they are used. But
    what rests on parameters and is summed over in parts once is used so again: by gradients of that sum.

    Each rule has an agenda of the steps or values that it has not looked at since something changed there.
    """

    problem: Problem
    splits: list[Split | None] = field(init=False)
    ways: list[Way | None] = field(init=False)
    facts: list[Fact] = field(init=False)
    via: dict[int, int] = field(default_factory=dict[int, int])
    """The value from which each step follows."""
    rest_on_weights: list[bool] = field(init=False)
    """Whether the split of each value is that of a weight, or follows from one."""
    parts: dict[int, tuple[int, Split]] = field(default_factory=dict[int, tuple[int, Split]])
    """The splits of what is read where a sum is computed in parts, with the first step that does."""

    def __post_init__(self) -> None:
        self.splits = [value.given for value in self.problem.values]
        self.ways = [None] * len(self.problem.steps)
        self.rest_on_weights = [value.is_weight for value in self.problem.values]
        self.facts = [Fact("open" if split is None else "given") for split in self.splits]
        steps = range(len(self.problem.steps))
        self.forward = {rule: Agenda(steps) for rule in product((False, True), repeat=2)}
        self.sums, self.scattered, self.backward = Agenda(steps), Agenda(()), Agenda(steps, last_first=True)
        self.needed, self.followers = Agenda((), last_first=True), Agenda(range(len(self.problem.followers)))
        self.followers_of: dict[int, list[int]] = {}
        for number, (source, _) in enumerate(self.problem.followers):
            self.followers_of.setdefault(source, []).append(number)
        known = self.splits, self.ways, self.rest_on_weights
        self.open = OpenSteps(self.problem, *known, self._look_forward)
        self.open.update(steps)

    def run(self) -> None:
        while (
            self._forward(by_data=True, waits=True)
            or self._forward(waits=True)
            or self._add_parts()
            or self._forward(by_data=True)
            or self._forward()
            or self._backward()
            or self._scatter_sums()
        ):
            pass
        self._keep_sums_whole()

    def _set(self, value: int, split: Split, fact: Fact) -> bool:
        self.splits[value], self.facts[value] = split, fact
        self.rest_on_weights[value] = self.rest_on_weights[fact.via]
        concerned = {number for number, _ in (*self.problem.uses[value], *self.problem.makers[value])}
        for number in concerned:
            self._look_forward(number)
            self.sums.add(number)
            self.backward.add(number)
        for number in self.followers_of.get(value, ()):
            self.followers.add(number)
        self.open.update(concerned)
        return True

    def _look_forward(self, number: int) -> None:
        for agenda in self.forward.values():
            agenda.add(number)

    def _forward(self, *, by_data: bool = False, waits: bool = False) -> bool:
        """Decides steps from their operands, in program order; `by_data`, from those that follow from data
        alone; with `waits`, once all is decided that they wait for. Tells whether anything was decided.
        """
        changed = self._follow()
        for number in self.forward[by_data, waits]:
            if self.ways[number] is None and not (waits and self.open.holds_up(number)):
                step = self.problem.steps[number]
                operands = [v for v in step.operands if not (by_data and self.rest_on_weights[v])]
                changed |= self._decide(number, step, operands, (), self._used_in_parts(number, step))
        return changed

    def _follow(self) -> bool:
        changed = False
        for number in self.followers:
            source, target = self.problem.followers[number]
            split = self.splits[source]
            if self.splits[target] is None and split is not None and split >= 0:
                changed = self._set(target, split, Fact("follows", via=source))
        return changed

    def _used_in_parts(self, number: int, step: Step) -> dict[int, Split]:
        """The splits in which earlier sums use those operands that rest on parameters."""
        own = {v: self.parts[v] for v in step.operands if v in self.parts and self.rest_on_weights[v]}
        return {v: split for v, (first, split) in own.items() if first < number}

    def _backward(self) -> bool:
        """Decides steps from their results, the last ones first, and else values from what is needed."""
        changed = False
        for number in self.backward:
            if self.ways[number] is None:
                step = self.problem.steps[number]
                changed |= self._decide(number, step, (), step.results, {})
        if not changed:
            for value in self.needed:
                changed |= self._follow_needs(value)
        return changed

    def _decide(
        self,
        number: int,
        step: Step,
        operands: Sequence[int],
        results: Sequence[int],
        parts: dict[int, Split],
    ) -> bool:
        """Takes the one way that fits to what is known of these values: also to the `parts` in which some are
        used, or if none does, to these alone, or to none of them.
        """
        needed, given = self._known(operands), self._known(results)
        for known in ({**needed, **parts}, parts, needed) if parts else (needed,):
            found = self._fitting(step, known, given) if known or given else []
            if len(found) == 1:
                self.via[number] = next(iter(known or given))
                self._take(number, found[0])
                return True
        return False

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
        self._divide(number, way)
        places = len(step.operands)
        for place, (value, split) in enumerate(
            zip((*step.operands, *step.results), (*way.needs, *way.gives), strict=True)
        ):
            is_decided = place >= places or place in step.in_place
            if is_decided and self.splits[value] is None and split != PARTIAL:
                self._set(value, split, Fact("step", number, self.via[number]))
        self.open.update([number])

    def _divide(self, number: int, way: Way) -> None:
        """Notes the way of a step, and what is to be looked at again for it."""
        step = self.problem.steps[number]
        self.ways[number] = way
        self.scattered.add(number)
        for value in step.operands:
            self.needed.add(value)
            for maker, _ in self.problem.makers[value]:
                self.scattered.add(maker)
        for value, split in zip(step.results, way.gives, strict=True):
            for reader, _ in self.problem.uses[value] if split == PARTIAL else ():
                self.sums.add(reader)
        if PARTIAL in way.gives and not all(self.problem.values[v].is_weight for v in step.results):
            self._note_parts(number, step, way)

    def _note_parts(self, number: int, step: Step, way: Way) -> None:
        for value, need in zip(step.operands, way.needs, strict=True):
            if need >= 0 and (value not in self.parts or number < self.parts[value][0]):
                self.parts[value] = number, need
                for reader, _ in self.problem.uses[value]:
                    self._look_forward(reader)

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

    def _add_parts(self) -> bool:
        """Additions of parts of sums add parts, where nothing else reads these."""
        changed = False
        for number in self.sums:
            step = self.problem.steps[number]
            way = next((way for way in step.ways[1:] if PARTIAL in way.needs), None)
            if self.ways[number] is None and way is not None and self._adds_parts(step, way):
                self._take_sum(number, step, way)
                changed = True
        return changed

    def _scatter_sums(self) -> bool:
        """Sums have the split that their divided users need."""
        changed = False
        for number, value in self._open_sums(self.scattered):
            split = self._common_need(value)
            if split is not None and split >= 0:
                changed = self._set(value, split, Fact("step", number, self.via[number]))
        return changed

    def _keep_sums_whole(self) -> None:
        for number, value in [*self._open_sums(range(len(self.ways)))]:
            self._set(value, WHOLE, Fact("step", number, self.via[number]))

    def _open_sums(self, numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Those of the steps that compute sums in parts, which have no split yet, and these sums."""
        for number in numbers:
            way, results = self.ways[number], self.problem.steps[number].results
            for value, split in zip(results, () if way is None else way.gives, strict=way is not None):
                if split == PARTIAL and self.splits[value] is None:
                    yield number, value

    def _adds_parts(self, step: Step, way: Way) -> bool:
        parts = [value for value, need in zip(step.operands, way.needs, strict=True) if need == PARTIAL]
        return self._is_allowed(step, way) and all(map(self._is_part, parts))

    def _take_sum(self, number: int, step: Step, way: Way) -> None:
        self.via[number] = step.operands[way.needs.index(PARTIAL)]
        self._divide(number, way)
        for value, need in zip(step.operands, way.needs, strict=True):
            if need == PARTIAL:
                (maker, _), *_ = self.problem.makers[value]
                self._set(value, PARTIAL, Fact("step", maker, self.via[maker]))
        self.open.update([number])

    def _is_part(self, value: int) -> bool:
        """Whether a value is computed as parts of a sum, which one step reads."""
        made = [(self.ways[number], place) for number, place in self.problem.makers[value]]
        are_parts = all(way is not None and way.gives[place] == PARTIAL for way, place in made)
        is_open = self.problem.values[value].may_be_partial and self.splits[value] is None
        return bool(made) and are_parts and is_open and len({n for n, _ in self.problem.uses[value]}) == 1


def _fits(sides: Sequence[Split], values: Sequence[int], known: dict[int, Split]) -> bool:
    """Whether a way has the known splits."""
    return all(split == known.get(value, split) for split, value in zip(sides, values, strict=True))
