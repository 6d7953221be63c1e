"""Counts of steps, where optimizers train some parameters for a while only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import optimizer_references as references
from support.optimizer_model import START, Model, close, gradients
from support.optimizer_references import new_memory

import ocannl as oc
from ocannl import train

SCHEDULE = train.linear(0.05, 12)


def test_each_parameter_counts_its_own_steps():
    """As in PyTorch, a frozen parameter is behind in its bias corrections, and the schedule goes on."""
    model, optimizer = Model(), train.adamw(SCHEDULE, weight_decay=0.1, count_each=True, ema=0.5)
    whole, head = (model.ctx.compile(optimizer.step(model.loss, params)) for params in (None, {"b": model.b}))
    wanted, counts = dict(START), dict.fromkeys(START, 0)
    memory = {key: new_memory() for key in START}
    averages = dict[str, Any]()
    for t, step in enumerate([whole, whole, head, head, whole, whole]):
        step()
        slopes = gradients(wanted)
        for key in START if step is whole else ["l.b"]:
            counts[key] += 1
            rate = 0.05 * (1 - t / 12)
            wanted[key] = references.adamw(wanted[key], slopes[key], memory[key], counts[key], rate)
            averages[key] = (averages.get(key, wanted[key]) + wanted[key]) / 2
        close({"l.w": np.array(model.ctx[model.w]), "l.b": np.array(model.ctx[model.b])}, wanted, 1e-12)
    with optimizer.averaged(model.ctx):
        close({"l.w": np.array(model.ctx[model.w]), "l.b": np.array(model.ctx[model.b])}, averages, 1e-12)


@pytest.mark.parametrize(
    "make",
    [lambda: train.adam(), lambda: train.sgd(SCHEDULE), lambda: train.sgd(ema=0.9), lambda: train.sgd(swa=3)],
    ids=["corrections", "schedule", "ema", "swa"],
)
def test_steps_that_count_together_are_of_the_same_parameters(make: Any):
    model, optimizer = Model(), make()
    code = optimizer.step(model.loss)
    message = (
        r"test_step_counts.py:\d+: \w+ counts the steps .* here without l.w, unlike before; "
        r"train.\w+\(..., count_each=True\) counts"
    )
    with pytest.raises(oc.ArgumentError, match=message):
        optimizer.step(model.loss, [model.b])
    # What was thrown away counts nothing, unless it has run.
    del code
    model.train(optimizer.step(model.loss, [model.b]), 1)
    with pytest.raises(oc.ArgumentError, match=r"with l\.w, unlike before"):
        optimizer.step(model.loss)


@pytest.mark.parametrize("whole_first", [True, False])
def test_each_parameter_counts_what_its_even_average_has(whole_first: bool):
    model, optimizer = Model(), train.sgd(0.1, count_each=True, swa=0)
    whole, head = (model.ctx.compile(optimizer.step(model.loss, params)) for params in (None, {"b": model.b}))
    values: dict[str, list[Any]] = {key: [] for key in START}
    for step in [whole, whole, head, whole] if whole_first else [head, head, whole]:
        step()
        for key, p in (("l.b", model.b), ("l.w", model.w)) if step is whole else (("l.b", model.b),):
            values[key].append(np.array(model.ctx[p]))
    wanted = {key: np.mean(found, axis=0) for key, found in values.items()}
    with optimizer.averaged(model.ctx):
        close({"l.w": np.array(model.ctx[model.w]), "l.b": np.array(model.ctx[model.b])}, wanted, 1e-12)


def test_parameters_that_no_step_has_trained_are_their_own_averages():
    """Nothing is left exchanged where some of the averages have no value yet."""
    model, optimizer = Model(), train.sgd(0.1, count_each=True, ema=0.5)
    weights, head = (model.ctx.compile(optimizer.step(model.loss, [p])) for p in (model.w, model.b))
    values = list[Any]()
    for _ in range(2):
        weights()
        values.append(np.array(model.ctx[model.w]))
    wanted = {"l.w": (values[0] + values[1]) / 2, "l.b": START["l.b"]}
    with optimizer.averaged(model.ctx):
        close({"l.w": np.array(model.ctx[model.w]), "l.b": np.array(model.ctx[model.b])}, wanted, 1e-12)
    np.testing.assert_array_equal(model.ctx[model.w], values[1])
    head()
    with optimizer.averaged(model.ctx):
        assert (model.ctx[model.b] != START["l.b"]).all()


@pytest.mark.parametrize("common", [{"ema": 0.5}, {"swa": 0}, {"swa": 0, "count_each": True}], ids=str)
def test_gradients_that_add_up_are_in_no_average_yet(common: Any):
    model, optimizer = Model(), train.sgd(0.1, accumulate=2, **common)
    step = model.ctx.compile(optimizer.step(model.loss))
    step()
    with optimizer.averaged(model.ctx):
        np.testing.assert_array_equal(model.ctx[model.w], START["l.w"])
    step()
    trained = np.array(model.ctx[model.w])
    assert np.abs(trained - START["l.w"]).max() > 0
    with optimizer.averaged(model.ctx):
        np.testing.assert_array_equal(model.ctx[model.w], trained)


def test_gradients_that_add_up_are_of_the_same_parameters():
    model, optimizer = Model(), train.sgd(0.1, accumulate=2, count_each=True)
    code = optimizer.step(model.loss)
    with pytest.raises(
        oc.ArgumentError, match=r"test_step_counts.py:\d+: sgd, .*here without l.w, unlike before"
    ):
        optimizer.step(model.loss, [model.b])
    del code
    assert optimizer.step(model.loss, [model.b]).statements


def test_what_counts_nothing_trains_any_parameters():
    model, optimizer = Model(), train.sgd(0.1, momentum=0.9)
    whole = model.train(optimizer.step(model.loss), 1)
    found = model.train(optimizer.step(model.loss, [model.b]), 1)
    assert (found["l.w"] == whole["l.w"]).all()
    assert np.abs(found["l.b"] - whole["l.b"]).max() > 0


def test_a_counter_that_is_set_first_changes_no_precision():
    """Setting it back, as for each fold of a cross validation, changes no later step."""
    first, second = Model(), Model()
    wanted = first.train(train.adam(0.01).step(first.loss), 2)
    optimizer = train.adam(0.01)
    code = optimizer.step(second.loss)
    for tensor in oc.state(optimizer).values():
        second.ctx[tensor] = 0
    close(second.train(code, 2), wanted, 0)


def test_counts_go_on_beyond_the_whole_numbers_of_f32():
    model, optimizer = Model(np.float32), train.sgd(0.1, swa=(2**24 + 2, 2))
    step, counts = model.ctx.compile(optimizer.step(model.loss)), oc.state(optimizer)
    model.ctx[counts["sgd.steps"]] = 2**24
    values = list[Any]()
    for _ in range(6):
        step()
        values.append(np.array(model.ctx[model.w]))
    assert {name: int(model.ctx[counts[name]]) for name in ("sgd.steps", "sgd.averaged")} == {
        "sgd.steps": 2**24 + 6,
        "sgd.averaged": 2,
    }
    with optimizer.averaged(model.ctx):
        np.testing.assert_allclose(model.ctx[model.w], (values[2] + values[4]) / 2, rtol=1e-6)
