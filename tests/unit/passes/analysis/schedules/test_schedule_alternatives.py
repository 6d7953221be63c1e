"""The schedules that a search goes on to: of every kind, each once, and within the registers."""

from __future__ import annotations

import pytest
from support.nests import PRODUCT, parse_module, the_func
from xdsl.context import Context

from ocannl.dialects.loops import NestOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.passes.analysis.equality.canonical_text import canonical_text
from ocannl.passes.analysis.nests import nests_of, steps
from ocannl.passes.analysis.schedules.schedule_alternatives import (
    LARGEST_TILE,
    WIDEST,
    alternatives,
    variations,
)
from ocannl.passes.analysis.schedules.schedule_candidates import Choice, Choices, Chooser
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.schedule.schedule import SchedulePass

TARGET = TargetDescription()
ELEMENTS = TARGET.vector_bytes // 4


def the_product() -> NestOp:
    (step,) = steps(the_func(parse_module(PRODUCT)))
    assert isinstance(step, NestOp)
    return step


def test_alternatives_are_different_and_of_every_kind():
    (step,) = steps(the_func(parse_module(PRODUCT)))
    first: Choices = (None,)
    found = [choice for (choice,) in alternatives(step, first, TARGET) if choice is not None]
    assert len(set(found)) == len(found)
    assert len({choice.schedule.order for choice in found}) == 2
    assert len({choice.schedule.rows for choice in found}) > 3
    assert len({choice.schedule.lanes for choice in found}) > 3
    assert {len(choice.packed) > 0 for choice in found} == {False, True}


def test_one_number_has_no_alternatives():
    """Not even accumulators, since nothing is accumulated."""
    text = """
loops.func @double {
  %x = assign.node "x" on_device : memref<f32>
  loops.nest "x" () {
    %v = loops.load %x[]
    %r = arith.addf %v, %v : f32
    loops.store %r, %x[]
  }
}"""
    (step,) = steps(the_func(parse_module(text)))
    assert list(alternatives(step, (None,), TARGET)) == []


def vectors(schedule: Schedule) -> int:
    return 1 if schedule.lanes is None else max(1, schedule.lanes[1] // ELEMENTS)


def differences(one: Choice, other: Choice) -> set[str]:
    parts = {
        name
        for name in ("order", "rows", "lanes")
        if getattr(one.schedule, name) != getattr(other.schedule, name)
    }
    chains = {"chains"} if not parts and one.schedule.chains != other.schedule.chains else set[str]()
    return parts | chains | ({"packed"} if one.packed != other.packed else set())


@pytest.mark.parametrize(
    ("rows", "lanes", "heights", "widths"),
    [
        (("b", 4), ("o", 16), {8, 5, 3, 2}, {32, 8}),
        (("b", 2), ("o", 16), {4, 3}, {32, 8}),
        (("b", 16), ("o", 32), {15, 8}, {16}),
        (("b", 24), ("o", 16), {25, 23, 12}, {8}),
        (("b", 6), ("o", 64), {7, 5, 3}, {32}),
        (("b", 40), ("o", 16), {20}, {8}),
        (("b", 4), ("o", 2), {8, 5, 3, 2}, {4}),
    ],
)
def test_variations(rows: tuple[str, int], lanes: tuple[str, int], heights: set[int], widths: set[int]):
    """They differ in one thing, and a tile fits in registers."""
    chooser = Chooser.of(the_product(), TARGET)
    assert chooser is not None
    choice = Choice(Schedule(order=("b", "o"), rows=rows, lanes=lanes))
    found = list(variations(chooser, choice))
    assert all(len(differences(choice, other)) <= 1 for other in found)
    others = [other.schedule for other in found]
    changed = [schedule for schedule in others if schedule.rows != rows]
    assert {s.rows[1] for s in changed if s.rows is not None} == heights
    assert None in {s.rows for s in changed}
    assert {s.lanes[1] for s in others if s.lanes is not None and s.lanes != lanes} == widths
    assert all(vectors(s) <= WIDEST for s in others)
    for schedule in changed:
        height = 1 if schedule.rows is None else schedule.rows[1]
        assert height * vectors(schedule) <= LARGEST_TILE
    assert [s.order for s in others if s.order != ("b", "o")] == [("o", "b")]
    assert {other.packed for other in found} == {(), (0,), (1,)}


def test_what_is_packed_may_not_be():
    chooser = Chooser.of(the_product(), TARGET)
    assert chooser is not None
    choice = Choice(Schedule(order=("b", "o"), lanes=("o", 16)), (1,))
    assert {other.packed for other in variations(chooser, choice)} == {(1,), (), (0, 1)}
    reduced = Choice(Schedule(order=("b", "o"), lanes=("i", 16)))
    assert {other.packed for other in variations(chooser, reduced)} == {()}


def test_a_step_has_one_text_whatever_its_names():
    other = PRODUCT
    for old, new in (("%w ", "%a "), ("%w[", "%a["), ("%sum", "%s"), ('nest "y"', 'nest "z"')):
        other = other.replace(old, new)
    (step,), (same,) = (steps(the_func(parse_module(text))) for text in (PRODUCT, other))
    (wider,) = steps(the_func(parse_module(PRODUCT.replace("64x48", "64x49"))))
    assert canonical_text(step) == canonical_text(same)
    assert canonical_text(step) != canonical_text(wider)


@pytest.mark.parametrize("packed", [(), (1,)])
def test_a_choice_is_taken_and_marked(packed: tuple[int, ...]):
    module = parse_module(PRODUCT)
    (step,) = steps(the_func(module))
    choice = next(c for (c,) in alternatives(step, (None,), TARGET) if c is not None and c.packed == packed)
    SchedulePass(find={canonical_text(step): (choice,)}.get).apply(Context(), module)
    module.verify()
    (nest,) = nests_of(step)
    assert nest.schedule is not None
    assert nest.schedule.data.tuned
    assert nest.schedule.data.rows == choice.schedule.rows
    assert len(steps(the_func(module))) == 1 + len(packed)
