"""Formulas that stand in the place of PyTorch's layers and losses have their values and gradients."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn
from ocannl.program.mistakes.other_names import OF_NN

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
