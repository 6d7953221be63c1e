"""Nodes without names are told by their expressions, wherever a user reads of them."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.program.module.extract import extract


def program() -> tuple[oc.Tensor, oc.Tensor]:
    x = oc.data(np.ones((4, 3), np.float32), label="x")
    w, b = oc.param("w", output=5), oc.param("b")
    y = w @ x + b
    return y, (oc.relu(y) * 2 - oc.exp(y)).sum()


def test_expressions_of_a_program():
    y, total = program()
    found = extract(oc.forward(total).statements, "f").expressions
    own = [found[label] for label in found if "grad" not in label]
    assert own == ["w @ x", "(w @ x) + b", "relu * 2", "(relu * 2) - exp", "sum of (... - exp)"]
    assert not {"x", "w", "b", "relu", "exp"} & set(found)
    assert set(found) == {label for label in found if label.startswith("n")}
    assert all(found[f"{label}_grad"] == f"gradient of {found[label]}" for label in found if "_" not in label)
    assert extract(oc.forward(y.named("y")).statements, "f").expressions.keys() == {"n2", "n2_grad"}


def test_checks_of_ids():
    words = oc.data(np.array([1, 2]), axes="b", label="words")
    found = extract(oc.forward(nn.embedding(num=10, dim=4)(words)).statements, "f")
    assert "check of the ids words" in found.expressions.values()
    ((label, ids),) = found.checked
    assert (found.expressions[label], ids) == ("check of the ids words", "words")


def test_texts_say_them():
    y, total = program()
    ctx = oc.Context.cpu(1)
    ctx.init_params(total)
    tree = str(oc.debug(total, ctx))
    assert "(w @ x): 4x5 float32 = [[" in tree
    assert "(relu * 2): 4x5 float32 = [[" in tree
    step = ctx.compile(train.grad_update(total), name="step")
    rows = step.memory().splitlines()
    assert rows[0].split()[-1] == "expression"
    assert sum(row.endswith("  (w @ x) + b") for row in rows) == 1
    assert step.why(y).answer.split("` ")[1].startswith("((w @ x) + b) has ")
    named = oc.Context.cpu(1).compile(oc.forward((2.0 * oc.param("v", output=3)).named("twice")), name="f")
    assert "expression" not in named.memory()


def test_an_error_names_the_expression():
    x = oc.data(np.array([1.0, 0.0]), label="x")
    with pytest.raises(oc.OcannlError, match="`1 / x` is the first value that is not finite: inf at 1"):
        oc.debug((1.0 / x).sum(), oc.Context.cpu(1))


def test_a_difference_names_the_expression():
    x = oc.data(np.array([1.0, 0.5]), label="x")
    total, ctx = (3.0 * x).sum(), oc.Context.cpu(1)
    first = oc.debug(total, ctx)
    ctx[x] = [1.0, 0.25]
    found = oc.diff(first, oc.debug(total, ctx))
    assert "`3 * x` differs by 0.75 at " in str(found)
