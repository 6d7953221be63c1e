"""Compiled nests against a direct interpreter of the `loops` dialect."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from unit.lowering.nests import check, nest_functions, parse_module
from xdsl.context import Context

from ocannl.passes.plan_memory import PlanMemoryPass
from ocannl.passes.schedule import SchedulePass

RANDOM = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@RANDOM
@given(nest_functions())
def test_random_nests(text: str):
    check(parse_module(text), {"step": 2, "batch": 3}, 1e-3)


@RANDOM
@given(nest_functions(scheduled=False))
def test_scheduled_random_nests(text: str):
    module = parse_module(text)
    SchedulePass().apply(Context(), module)
    module.verify()
    PlanMemoryPass().apply(Context(), module)
    check(module, {"step": 2, "batch": 3}, 1e-3)
