"""Whatever tuning may choose, nests give the same results."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.nests import check, nest_functions, parse_module, the_func
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.loops import GroupOp
from ocannl.lowering.pipelines import module_text
from ocannl.passes.analysis.canonical_text import canonical_text
from ocannl.passes.analysis.memory import byte_size
from ocannl.passes.analysis.nests import nests_of, steps
from ocannl.passes.analysis.schedule_alternatives import alternatives
from ocannl.passes.analysis.schedule_candidates import Choices
from ocannl.passes.analysis.target import LARGEST_INSIDE, TargetDescription
from ocannl.passes.loops.plan_memory import PlanMemoryPass
from ocannl.passes.loops.schedule import packed_panels
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.runtime.cache.tunings import decoded, encoded

INDICES = {"step": 2, "batch": 3}
TARGET = TargetDescription()


def schedule(module: ModuleOp, chosen: dict[str, Choices], cores: int = TARGET.cores) -> None:
    SchedulePass(cores=cores, find=chosen.get).apply(Context(), module)
    module.verify()
    assert module_text(parse_module(module_text(module))) == module_text(module)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(nest_functions(scheduled=False), st.sampled_from([64, LARGEST_INSIDE]), st.data())
def test_alternatives_keep_values(text: str, inside: int, data: st.DataObject):
    module = parse_module(text)
    chosen: dict[str, Choices] = {}
    for step in steps(the_func(module)):
        choices: Choices = (None,) * len(nests_of(step))
        for _ in range(data.draw(st.integers(1, 3))):
            found = list(islice(alternatives(step, choices, TARGET), 40))
            choices = data.draw(st.sampled_from(found)) if found else choices
        assert decoded(encoded(choices)) == choices
        chosen[canonical_text(step)] = choices
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_panels, "LARGEST_INSIDE", inside)
        schedule(module, chosen, cores=2)
    PlanMemoryPass().apply(Context(), module)
    check(module, INDICES, 1e-3)


PRODUCT = """
loops.func @product {
  %w = assign.node "w" on_device : memref<96x64xf32>
  %x = assign.node "x" on_device : memref<64x48xf32>
  %y = assign.node "y" on_device : memref<96x48xf32>
  loops.nest "y" (b = 48, o = 96) {
    %sum = loops.reduce add (i = 64) : f32 {
      %wv = loops.load %w[o, i]
      %xv = loops.load %x[i, b]
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[o, b]
  }
}"""


def test_alternatives_are_different_and_of_every_kind():
    (step,) = steps(the_func(parse_module(PRODUCT)))
    first: Choices = (None,)
    found = [choice for (choice,) in alternatives(step, first, TARGET) if choice is not None]
    assert len(set(found)) == len(found)
    assert len({choice.schedule.order for choice in found}) == 2
    assert len({choice.schedule.rows for choice in found}) > 3
    assert len({choice.schedule.lanes for choice in found}) > 3
    assert {len(choice.packed) > 0 for choice in found} == {False, True}


@pytest.mark.parametrize("threads", [1, 2])
def test_large_copies_are_made_panel_by_panel(threads: int, monkeypatch: pytest.MonkeyPatch):
    (step,) = steps(the_func(parse_module(PRODUCT)))
    found = [choice for (choice,) in alternatives(step, (None,), TARGET) if choice and choice.packed]
    monkeypatch.setattr(packed_panels, "LARGEST_INSIDE", 4096)
    groups = 0
    for choice in found:
        module = parse_module(PRODUCT)
        schedule(module, {canonical_text(step): (choice,)}, cores=2)
        for group in steps(the_func(module)):
            if isinstance(group, GroupOp):
                (node,) = group.nodes
                assert byte_size(node) <= 4096
                groups += 1
        PlanMemoryPass().apply(Context(), module)
        check(module, threads=threads)
    assert 0 < groups < len(found)


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
    schedule(module, {canonical_text(step): (choice,)})
    (nest,) = nests_of(step)
    assert nest.schedule is not None
    assert nest.schedule.data.tuned
    assert nest.schedule.data.rows == choice.schedule.rows
    assert len(steps(the_func(module))) == 1 + len(packed)
