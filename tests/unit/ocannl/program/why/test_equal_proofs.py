"""Proofs of all shapes of a program: each proves, no line of one can be left out, and few are searched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ocannl as oc
from ocannl import nn, train
from ocannl.program import graph
from ocannl.program.module.extract import extract
from ocannl.program.values import Value, operation_of
from ocannl.program.why.equal_proofs import EqualProofs
from ocannl.program.why.shape_proofs import Inference, shape_by


def stack(layers: int) -> oc.Tensor:
    """Residual layers, each with two parameters."""
    h = oc.param("first", output=5) @ oc.data(np.zeros((10, 3), np.float32), label="x")
    for k in range(layers):
        h = h + oc.param(f"v{k}") @ oc.relu(oc.param(f"w{k}", output=8) @ h)
    return (h * h).sum()


def decoder(layers: int) -> oc.Tensor:
    ids = oc.data(np.ones((2, 8), np.int32), axes="bb", label="ids")
    hidden = nn.decoder_only(layers, 2, 8, 8, 16, activation=nn.gelu)(nn.embedding(num=9, dim=16)(ids))
    return nn.cross_entropy(nn.linear(out_dim=9)(hidden), ids)


def proofs_of(loss: oc.Tensor) -> tuple[EqualProofs, list[Value]]:
    code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1, momentum=0.9)
    values = [*extract(code.statements, "step").values.values()]
    return EqualProofs([operation_of(value) for value in values]), values


def check(proofs: EqualProofs, value: Value) -> None:
    lines, wanted = proofs.of(value), proofs.shape(value)
    assert wanted.is_final
    assert lines is not None, str(value.op)
    assert shape_by(value, lines) == wanted
    assert len(set(lines)) == len(lines)
    if len(lines) > 1:
        for line in lines:
            assert shape_by(value, [other for other in lines if other is not line]) != wanted, str(value.op)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("model", "layers", "each"), [(stack, 7, 11), (decoder, 2, 37)])
def test_lines_prove_and_each_is_needed(model: Callable[[int], oc.Tensor], layers: int, each: int):
    proofs, values = proofs_of(model(layers))
    for value in values[::each]:
        check(proofs, value)


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", [stack, decoder])
def test_all_lines_prove_and_each_is_needed(model: Callable[[int], oc.Tensor]):
    proofs, values = proofs_of(model(9))
    for value in values:
        check(proofs, value)


def test_memory_made_like_other_memory_has_its_proof():
    """Moments of an optimizer: their lines are those of the parameter, and no search finds them."""
    loss = stack(3)
    code = train.grad_update(loss) + train.adam_update(loss, learning_rate=0.1)
    values = extract(code.statements, "step").values
    proofs = EqualProofs([operation_of(value) for value in values.values()])
    w, mean = values["w1"], values["w1.adam_mean"]
    of_w = proofs.of(w)
    assert of_w
    assert set(proofs.of(mean) or ()) == {*of_w, operation_of(w), operation_of(mean)}
    for value in (mean, values["w1.adam_square"], values["v2.adam_mean"]):
        check(proofs, value)


@pytest.mark.exhaustive
def test_equal_layers_are_searched_once(monkeypatch: pytest.MonkeyPatch):
    proves = Inference.proves

    def asked(layers: int) -> int:
        count: list[int] = []

        def counted(self: Inference, value: Any, wanted: Any) -> bool:
            count.append(len(self.lines))
            return proves(self, value, wanted)

        monkeypatch.setattr(Inference, "proves", counted)
        values = [*extract(oc.forward(stack(layers)).statements, "f").values.values()]
        proofs = EqualProofs([operation_of(value) for value in values])
        assert all(proofs.of(value) for value in values)
        return len(count)

    assert asked(14) < 1.1 * asked(7)


def operations(x: oc.Tensor) -> dict[str, Callable[[oc.Tensor], oc.Tensor]]:
    return {
        "relu": oc.relu,
        "bias": lambda t: t + oc.param("b"),
        "layer": lambda t: oc.param("w", output=3) @ t,
        "shared": lambda t: t + oc.param("u", output=3) @ x,
        "residual": lambda t: t + oc.relu(oc.param("v") @ t),
        "norm": nn.layer_norm(label="norm"),
        "swap": lambda t: oc.einsum("b | o => o | b", t),
        "cut": lambda t: t[1:],
        "joined": lambda t: oc.concat("b | ...; c | ... => b^c | ...", t, t),
        "mean": lambda t: t - oc.mean(t, "output", keep=True),
    }


@settings(max_examples=2, deadline=None)
@example(["joined", "cut", "layer"], 2)
@given(st.lists(st.sampled_from([*operations(oc.constant(0.0))]), min_size=1, max_size=3), st.integers(1, 7))
def test_random_programs(names: list[str], often: int):
    x = oc.data(np.zeros((9, 3)), label="x")
    known = operations(x)
    try:
        y = x
        for name in names * often:
            y = known[name](y)
        loss = (y * y).sum()
        oc.infer(loss)
    except oc.ShapeError:
        return
    values = [*extract(oc.forward(loss).statements, "f").values.values()]
    proofs = EqualProofs([operation_of(value) for value in values])
    for value in values[:: max(1, len(values) // 12)]:
        if graph.known_shape(value) == proofs.shape(value):
            check(proofs, value)
