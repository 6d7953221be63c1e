"""Formulas that stand in the place of PyTorch's layers and losses have their values and gradients."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.program.mistakes.other_names import OF_NN, OF_TRAIN

RNG = np.random.default_rng(1)
GIVEN: Mapping[str, Any] = {name: RNG.normal(size=(6, 5)) for name in ("x", "y", "a", "b")}
POSITIVE: Mapping[str, Any] = {"v": RNG.uniform(0.5, 2.0, (6, 5)), "log_rate": RNG.normal(size=(6, 5))}


def formula(advice: str) -> str:
    """The first formula of an advice: what may be added to it begins with a comma and a word, or `or`."""
    return re.split(r", (?=with|or)", advice)[0]


# By the name that has the advice: what PyTorch computes.
WANTED: Mapping[str, Callable[[Any, Any], Any]] = {
    "Hardshrink": lambda F, g: F.hardshrink(g.x),
    "Hardsigmoid": lambda F, g: F.hardsigmoid(g.x),
    "Softmin": lambda F, g: F.softmin(g.x, -1),
    "Softsign": lambda F, g: F.softsign(g.x),
    "gaussian_nll_loss": lambda F, g: F.gaussian_nll_loss(g.x, g.y, g.v, reduction="none"),
    "hardtanh": lambda F, g: F.hardtanh(g.x),
    "logsigmoid": lambda F, g: F.logsigmoid(g.x),
    "normalize": lambda F, g: F.normalize(g.x),
    "pairwise_distance": lambda F, g: F.pairwise_distance(g.a, g.b, eps=0.0),
    "poisson_nll_loss": lambda F, g: F.poisson_nll_loss(g.log_rate, g.target, reduction="none"),
    "soft_margin_loss": lambda F, g: F.soft_margin_loss(g.x, g.y, reduction="none"),
    "softshrink": lambda F, g: F.softshrink(g.x),
    "tanhshrink": lambda F, g: F.tanhshrink(g.x),
}


def test_formulas_against_pytorch():
    torch = pytest.importorskip("torch")
    arrays = {**GIVEN, **POSITIVE, "target": np.round(POSITIVE["v"])}
    written = {name: formula(OF_NN[name]) for name in WANTED}
    ctx = oc.Context.cpu(threads=1)
    data = {name: oc.data(array, label=name) for name, array in arrays.items()}
    values = {name: eval(text, {"oc": oc, "nn": nn}, data) for name, text in written.items()}
    for name, value in values.items():
        given = {
            label: torch.tensor(array, requires_grad=label not in ("y", "target"))
            for label, array in arrays.items()
        }
        wanted = WANTED[name](torch.nn.functional, type("Given", (), given))
        np.testing.assert_allclose(ctx[value], wanted.detach(), rtol=1e-12, atol=1e-14, err_msg=name)
        wanted.sum().backward()
        used = [label for label in re.findall(r"\w+", written[name]) if label in given]
        for label in dict.fromkeys(used):
            found, grad = ctx[oc.grad(value.sum(), data[label])], given[label].grad
            if grad is not None:
                # PyTorch's gradient of a hardsigmoid is 1/6 in f32.
                np.testing.assert_allclose(found, grad, rtol=1e-7, atol=1e-13, err_msg=f"{name} {label}")


# By the name that has the advice: PyTorch's scheduler of an optimizer whose rate is 0.1.
SCHEDULES: Mapping[str, Callable[[Any, Any], Any]] = {
    "CosineAnnealingWarmRestarts": lambda L, o: L.CosineAnnealingWarmRestarts(o, 40),
    "CyclicLR": lambda L, o: L.CyclicLR(o, 0.01, 0.1, step_size_up=15, cycle_momentum=False),
    "MultiStepLR": lambda L, o: L.MultiStepLR(o, [30, 80]),
    "PolynomialLR": lambda L, o: L.PolynomialLR(o, 40, 2),
}
SETTINGS = {"low": 0.01, "high": 0.1, "half": 15, "total": 40, "power": 2}


def test_schedules_against_pytorch():
    torch = pytest.importorskip("torch")
    steps = oc.data(np.arange(120.0), axes="b")
    ctx = oc.Context.cpu(threads=1)
    for name, make in SCHEDULES.items():
        optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
        scheduler, wanted = make(torch.optim.lr_scheduler, optimizer), list[float]()
        for _ in range(120):
            wanted.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        rate = eval(OF_TRAIN[name].removeprefix("lr="), {"oc": oc, "train": train, **SETTINGS})
        # In f64, as with the parameters of an optimizer.
        np.testing.assert_allclose(ctx[rate(steps) + 0 * steps], wanted, rtol=1e-12, atol=1e-15, err_msg=name)
