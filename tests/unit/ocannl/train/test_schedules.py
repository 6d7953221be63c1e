"""Learning rates by step, against formulas and where there is PyTorch, against that."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

STEPS = np.arange(100.0)


def rates(schedule: train.Schedule) -> Any:
    return oc.Context.cpu()[schedule(oc.data(STEPS))]


def test_formulas():
    found = {
        "constant": rates(train.constant(0.1)),
        "linear": rates(train.linear(0.1, 50)),
        "step": rates(train.step(0.1, 30, 0.5)),
        "exponential": rates(train.exponential(0.1, 0.9)),
        "cosine": rates(train.cosine(0.1, 50, minimum=0.01)),
        "warmup": rates(train.warmup_cosine(0.1, warmup=10, total=60, minimum=0.01)),
    }
    fall = [0.01 + 0.09 * 0.5 * (1 + math.cos(math.pi * min(1, t / 50))) for t in range(100)]
    wanted = {
        "constant": np.full(100, 0.1),
        "linear": 0.1 * np.maximum(1 - STEPS / 50, 0),
        "step": 0.1 * 0.5 ** (STEPS // 30),
        "exponential": 0.1 * 0.9**STEPS,
        "cosine": np.array(fall),
        "warmup": np.array([0.1 * (t + 1) / 11 for t in range(10)] + fall[:90]),
    }
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-13, atol=1e-16, err_msg=name)


PAIRS: Mapping[str, tuple[Callable[[oc.Tensor], oc.TensorLike], dict[str, Any]]] = {
    "LinearLR": (train.linear(0.1, 50, start=1 / 3, end=1), {"total_iters": 50}),
    "StepLR": (train.step(0.1, 30), {"step_size": 30}),
    "ExponentialLR": (train.exponential(0.1, 0.97), {"gamma": 0.97}),
    "CosineAnnealingLR": (train.cosine(0.1, 100, minimum=0.01), {"T_max": 100, "eta_min": 0.01}),
    "CosineAnnealingWarmRestarts": (lambda step: train.cosine(0.1, 10)(step % 10), {"T_0": 10}),
    "OneCycleLR": (train.one_cycle(0.1, 100), {"max_lr": 0.1, "total_steps": 100, "cycle_momentum": False}),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_against_pytorch(name: str):
    torch = pytest.importorskip("torch")
    ours, options = PAIRS[name]
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    theirs, wanted = getattr(torch.optim.lr_scheduler, name)(optimizer, **options), list[float]()
    for _ in STEPS:
        wanted.append(theirs.get_last_lr()[0])
        if len(wanted) < 100:
            theirs.step()
    schedule = train.sgd(ours).lr
    assert isinstance(schedule, train.Schedule)
    np.testing.assert_allclose(rates(schedule), wanted, rtol=1e-12, atol=1e-15)


def test_one_cycle():
    found = rates(train.one_cycle(0.1, 100))
    assert found[0] == pytest.approx(0.1 / 25)
    assert found[29] == pytest.approx(0.1)
    assert found[99] == pytest.approx(0.1 / 25 / 1e4)
    assert found.argmax() == 29


def test_an_index_is_a_counter():
    step_n, ctx = oc.index("step_n"), oc.Context.cpu()
    rate = train.cosine(0.1, 10)(step_n)
    routine = ctx.compile(rate)
    routine(step_n=5)
    assert float(ctx[rate]) == pytest.approx(0.05)


def test_plateau():
    """As PyTorch's: 0.1 until two evaluations more than one were no better."""
    rate, ctx = train.plateau(0.1, patience=1, factor=0.5, min_lr=0.04), oc.Context.cpu()
    seen: list[float] = []
    for value in (5, 4, 4, 3.9999, 3, 3, 3, 3, 3):
        rate.update(ctx, value)
        seen.append(round(float(ctx[rate.rate]), 6))
    assert seen == [0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.04, 0.04, 0.04]
    assert {*oc.state(train.sgd(rate)).kinds} == {"plateau.rate", "plateau.best", "plateau.bad"}


def test_plateau_against_pytorch():
    """Sequences that rise and fall, below zero too, stand still, or have no number, by all settings."""
    torch = pytest.importorskip("torch")
    ctx = oc.Context.cpu()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        settings: Any = {
            "mode": rng.choice(["min", "max"]).item(),
            "threshold_mode": rng.choice(["rel", "abs"]).item(),
            "threshold": rng.choice([0.0, 1e-4, 0.1]).item(),
            "patience": int(rng.integers(0, 4)),
            "cooldown": int(rng.integers(0, 4)),
            "factor": rng.choice([0.1, 0.5, 0.9]).item(),
            "min_lr": rng.choice([0.0, 1e-3]).item(),
        }
        rate = train.plateau(0.1, **settings)
        optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
        theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **settings)
        values = (rng.normal(size=30).cumsum() + rng.normal()).round(int(rng.integers(0, 3)))
        values[rng.integers(30)] = rng.choice([np.nan, np.inf, -np.inf])
        for value in values.astype(np.float32).tolist():
            rate.update(ctx, value)
            theirs.step(value)
            assert float(ctx[rate.rate]) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-5), settings


def test_a_metric_that_stands_still_is_no_better():
    """Though the best value is kept in a narrower float."""
    rate, ctx = train.plateau(0.1, patience=1, threshold=0.0), oc.Context.cpu()
    for _ in range(3):
        rate.update(ctx, 0.1)
    assert float(ctx[rate.rate]) == pytest.approx(0.01)


def test_a_threshold_of_all_is_passed_by_the_first_metric():
    rate, ctx = train.plateau(0.1, patience=0, threshold=1.0), oc.Context.cpu()
    rate.update(ctx, 5.0)
    assert float(ctx[rate.rate]) == pytest.approx(0.1)


WRONG: Any = train


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: train.linear(0.1, 0), "total is a positive number of steps, found 0"),
        (
            lambda: train.warmup_cosine(0.1, warmup=10, total=10),
            "total is a positive number of steps, found 0",
        ),
        (lambda: train.exponential(0.1, 0.0), "gamma is above 0, found 0.0"),
        (lambda: train.constant(-0.1), "lr is not negative, found -0.1"),
        (lambda: train.cosine(float("nan"), 10), "lr is not negative, found nan"),
        (lambda: WRONG.linear("fast", 10), "lr is a number, found 'fast'"),
        (lambda: train.one_cycle(0.1, 100, div_factor=0.0), "div_factor is above 0, found 0.0"),
        (lambda: WRONG.sgd(lambda: 0.1), "a function of the step.*lambda> refuses it: too many positional"),
        (lambda: WRONG.sgd(groups={"*": {"lr": lambda a, b: a}}), "refuses it: missing .* 'b'"),
        (lambda: train.plateau(-0.1), "lr of a plateau is not negative, found -0.1"),
        (lambda: train.plateau(0.1, factor=2.0), "factor of a plateau is less than 1, found 2.0"),
        (lambda: train.plateau(0.1, patience=-1), "patience of a plateau is at least 0, found -1"),
        (lambda: train.plateau(0.1, cooldown=-1), "cooldown of a plateau is at least 0, found -1"),
        (lambda: WRONG.plateau(0.1, threshold_mode="a"), "threshold_mode is 'rel' or 'abs', found 'a'"),
        (lambda: train.one_cycle(0.1, 100, pct_start=1.0), "a part of 100 steps rises and the rest falls"),
        (lambda: WRONG.plateau(0.1, mode="least"), "mode is 'min' or 'max', found 'least'"),
    ],
)
def test_errors(make: Any, message: str):
    with pytest.raises(oc.ArgumentError, match=message):
        make()


def test_schedules_say_what_they_are():
    assert repr(train.sgd(train.step(0.1, 30))).startswith(
        "train.sgd(lr=train.step(0.1, step_size=30, gamma=0.1), momentum=0.0"
    )

    def falling(step: oc.Tensor) -> oc.Tensor:
        return 0.1 / (step + 1)

    optimizer = train.sgd(falling, groups={"*.b": {"lr": partial(falling)}})
    assert repr(optimizer).startswith("train.sgd(lr=train.Schedule(falling), momentum=0.0")
    assert isinstance(optimizer.groups["*.b"]["lr"], train.Schedule)
    unknown: Any = partial(max, 0.1)  # Python knows no signature of it.
    assert "Schedule(partial)" in repr(train.sgd(unknown))


@pytest.mark.parametrize("mode", [nullcontext, oc.eager])
@pytest.mark.parametrize("rate", [lambda step: 0.1 * math.exp(-step), lambda step: float(step)])
def test_a_rate_of_a_number_would_be_that_of_one_step(rate: Any, mode: Any):
    """Before the step is counted, in eager mode."""
    with mode(), pytest.raises(oc.UninitializedError, match="has no value while the program is built"):
        train.sgd(rate).step(oc.sum(oc.param("w", np.ones(2))))
