"""Plans of programs in stages: the bubble, the messages, and the memory of each stage."""

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.execute.plans.plan import Plan

WIDTH = 32


def plan_of(stages: int, microbatches: int, rows: int = 4) -> Plan:
    """A plan of as many rows in each microbatch, and two layers in each stage."""
    zeros = np.zeros((rows * microbatches, WIDTH), np.float32)
    x, y = (oc.data(zeros, label=label, shard={"batch": "microbatch"}) for label in ("x", "y"))
    h = x
    for number in range(stages):
        with oc.stage(number):
            for _ in range(2):
                h = nn.mlp_layer(hid_dim=WIDTH)(h)
    loss = nn.mse(h, y).named("loss")
    code = train.grad_update(loss) + train.adam_update(loss)
    return oc.plan(code, oc.Mesh({"stage": stages}, microbatches=microbatches))


@pytest.mark.exhaustive
def test_stages_send_activations_forward_and_their_gradients_back_and_nothing_else():
    plan = plan_of(3, 4)
    found = sorted((each.start, each.end, each.bytes, each.times) for each in plan.stage_messages)
    assert found == [(a, b, 4 * WIDTH * 4, 4) for a, b in ((0, 1), (1, 0), (1, 2), (2, 1))]
    assert not plan.collectives
    assert plan.bubble == pytest.approx(2 / 6)
    assert plan.seconds > plan.waiting_seconds > 0
    assert "33.3 % of a run (the bubble)" in str(plan)


@pytest.mark.exhaustive
def test_each_stage_has_its_parameters_moments_and_gradients():
    whole, plan = plan_of(1, 4), plan_of(2, 4)
    for own in plan.stage_memory:
        assert own.parameters == whole.memory.parameters
        assert own.moments == whole.memory.moments


@pytest.mark.exhaustive
def test_values_for_gradients_are_of_no_more_microbatches_than_there_are_stages():
    few, many = plan_of(2, 8, rows=64), plan_of(2, 16, rows=64)
    for a, b in zip(few.stage_memory, many.stage_memory, strict=True):
        assert (b.activations, b.exchanged) == (a.activations, a.exchanged)
