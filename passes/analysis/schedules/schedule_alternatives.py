"""Neighbours of a choice of schedules, for the search by running them: those of the cost model first, then
variations of the best so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from ocannl.dialects.loops import GroupOp, LoadOp, NestOp, ReduceOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.passes.analysis.nests import nests_of
from ocannl.passes.analysis.schedules.schedule_candidates import Choice, Choices, Chooser, loads_of
from ocannl.passes.analysis.targets.target import TargetDescription

# The choices of the cost model that are tried, the cheapest first.
MODELLED = 8
# The largest register tile and the widest one, in vectors.
LARGEST_TILE, WIDEST = 32, 4


def alternatives(step: NestOp | GroupOp, current: Choices, target: TargetDescription) -> Iterator[Choices]:
    """Choices that differ from the current ones in one nest each; the nests take turns."""
    waiting = [
        (place, alternatives_of(nest, choice, target))
        for place, (nest, choice) in enumerate(zip(nests_of(step), current, strict=True))
    ]
    while waiting:
        place, found = waiting.pop(0)
        choice = next(found, None)
        if choice is not None:
            yield (*current[:place], choice, *current[place + 1 :])
            waiting.append((place, found))


def alternatives_of(nest: NestOp, current: Choice | None, target: TargetDescription) -> Iterator[Choice]:
    """The cost model's choices, then variations of the current one. None stands for the model's cheapest."""
    chooser = None if nest.schedule is not None else Chooser.of(nest, target)
    if chooser is None:
        return
    ranked = chooser.ranked()
    tried = {ranked[0] if current is None else current}
    for choice in (*islice(ranked, MODELLED), *variations(chooser, current or ranked[0])):
        if choice not in tried:
            tried.add(choice)
            yield choice


def variations(chooser: Chooser, choice: Choice) -> Iterator[Choice]:
    """Choices that differ in one thing: the height or width of the tile, accumulator chains, a packed
    operand, two loops exchanged.
    """
    schedule = choice.schedule
    sizes = chooser.facts.space

    def tiled(tile: Schedule) -> Choice:
        return replace(choice, schedule=replace(tile, chains=chooser.chains(tile)))

    for width in widths(chooser, choice):
        yield tiled(replace(schedule, lanes=width))
    if schedule.rows is not None:
        name, height = schedule.rows
        for other in (height * 2, height + 1, height - 1, height // 2):
            if 1 < other <= sizes[name] and other * vectors(chooser, choice) <= LARGEST_TILE:
                yield tiled(replace(schedule, rows=(name, other)))
        yield tiled(replace(schedule, rows=None))
    for chains in (2 * schedule.chains, (schedule.chains + 1) // 2):
        if chooser.dominant is not None and chains * vectors(chooser, choice) <= LARGEST_TILE:
            yield replace(choice, schedule=replace(schedule, chains=chains))
    for load in packable(chooser, choice):
        packed = set(choice.packed) ^ {load}
        yield replace(choice, packed=tuple(sorted(packed)))
    for place in range(len(schedule.order) - 1):
        outer, inner = schedule.order[place : place + 2]
        order = (*schedule.order[:place], inner, outer, *schedule.order[place + 2 :])
        yield replace(choice, schedule=replace(schedule, order=order))


def widths(chooser: Chooser, choice: Choice) -> Iterator[tuple[str, int]]:
    """The lanes at twice and half the width."""
    if choice.schedule.lanes is None:
        return
    name, width = choice.schedule.lanes
    height = 1 if choice.schedule.rows is None else choice.schedule.rows[1]
    reduced = chooser.dominant.space if chooser.dominant is not None else {}
    size = (chooser.facts.space | reduced).get(name, 0)
    vectors_of_twice = max(1, 2 * width // chooser.elements)
    if width < size and vectors_of_twice <= WIDEST and vectors_of_twice * height <= LARGEST_TILE:
        yield name, 2 * width
    if width > 2:
        yield name, width // 2


def vectors(chooser: Chooser, choice: Choice) -> int:
    lanes = choice.schedule.lanes
    return 1 if lanes is None else max(1, lanes[1] // chooser.elements)


def packable(chooser: Chooser, choice: Choice) -> Iterator[int]:
    """The numbers of loads whose packed copy would be contiguous along the lanes, and of those packed
    already.
    """
    lanes = choice.schedule.lanes
    if lanes is None or lanes[0] not in chooser.facts.space:
        return
    for number, load in enumerate(loads_of(chooser.nest)):
        if number in choice.packed or is_reduced(load):
            yield number


def is_reduced(load: LoadOp) -> bool:
    """Whether a load varies inside a reduction and is not at a position found at run time."""
    reduction = load.parent_op()
    if not isinstance(reduction, ReduceOp) or load.positions:
        return False
    names = {name for index in load.indices.data for name in index.names}
    return not names.isdisjoint(reduction.space.names)
