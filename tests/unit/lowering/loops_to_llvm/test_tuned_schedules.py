"""Whatever tuning may choose, nests give the same results."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.nests import PRODUCT, check, nest_functions, parse_module, the_func
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.loops import GroupOp
from ocannl.lowering.pipelines import module_text
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.equality.canonical_text import canonical_text
from ocannl.passes.analysis.nests import nests_of, steps
from ocannl.passes.analysis.schedules.schedule_alternatives import alternatives
from ocannl.passes.analysis.schedules.schedule_candidates import Choices
from ocannl.passes.analysis.targets.target import LARGEST_INSIDE, TargetDescription
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


@pytest.mark.exhaustive
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
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
