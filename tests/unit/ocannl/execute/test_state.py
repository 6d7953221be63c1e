"""The state of tensors, code, blocks and functions."""

from __future__ import annotations

import numpy as np
import pytest
from support.stateful_programs import PROGRAMS, Running

import ocannl as oc
from ocannl import nn


def kinds(build: str) -> dict[str, str]:
    return {**oc.state(Running(PROGRAMS[build]).routines).kinds}


def test_moments_and_indices():
    moments = {
        f"{name}.sgd_momentum": "moment" for name in ("linear.w", "linear.b", "linear_1.w", "linear_1.b")
    }
    parameters = {name.removesuffix(".sgd_momentum"): "parameter" for name in moments}
    assert kinds("momentum") == parameters | moments | {"step_n": "counter"}


def test_running_statistics_and_counters():
    found = kinds("running_statistics")
    assert found["batch_norm.running_mean"] == found["batch_norm.running_variance"] == "statistic"
    assert found["adam_steps"] == "counter"


def test_gradients_that_a_routine_adds_to():
    found = kinds("gradients_that_add_up")
    assert found["linear.w.grad"] == found["linear.b.grad"] == "moment"
    assert "linear.w.grad" not in kinds("momentum")


def test_counters_of_random_numbers_are_keys():
    assert kinds("dropout_by_a_node")["step"] == "key"


def test_values_and_data():
    assert kinds("carried_value")["hidden.value"] == "statistic"
    assert kinds("data_that_code_writes")["seen"] == "statistic"
    assert "x" not in kinds("data_that_code_writes")


def test_what_code_sets_before_it_reads_it_is_no_state():
    p = oc.param("p", np.ones(3))
    delta, total = oc.node("delta", like=p), oc.node("total", like=p)
    with oc.code("set, then read") as code:
        delta[...] = 2 * p
        total += delta
    assert set(oc.state(code)) == {"p", "total"}
    with oc.code("read, then set") as code:
        total += delta
        delta[...] = 2 * p
    assert set(oc.state(code)) == {"p", "total", "delta"}


def test_the_state_of_a_tensor_is_that_of_a_step_on_it():
    norm = nn.batch_norm1d()
    x = oc.data(np.ones((5, 3)), label="x")
    assert oc.state(norm(x)).kinds == oc.state(norm(x, train_step=0)).kinds
    assert len(oc.state([norm(x), {"again": norm(x)}])) == 4


def test_the_state_of_a_block_and_of_a_function():
    block, layer = nn.conv_bn_relu(out_channels=2), nn.linear(out_dim=3)
    assert oc.state(block).kinds == block.state.kinds
    assert set(block.state.kinds.values()) == {"parameter", "statistic"}
    assert {*oc.state(lambda: layer(oc.constant(1.0)))} == {*oc.state(layer)} == {"linear.w", "linear.b"}


def test_what_has_no_state():
    with pytest.raises(oc.ArgumentError, match="state is that of tensors, code, routines"):
        oc.state(3)  # pyright: ignore[reportArgumentType]
