"""Traces of runs on a mesh: whole values, those of each rank, and a run beside that of one device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(10, 8)).astype(np.float32), RNG.normal(size=(10, 2)).astype(np.float32)


def program() -> tuple[oc.Tensor, oc.Tensor, oc.Code]:
    x = oc.data(X, label="x", shard={"batch": "data"})
    y = oc.data(Y, label="y", shard={"batch": "data"})
    loss = nn.mse(oc.tanh(oc.param("w", output=2) @ x), y).named("loss")
    return x, loss, train.grad_update(loss)


def contexts(loss: oc.Tensor) -> tuple[oc.Context, oc.Context]:
    """One device, and four ranks, with the same parameters."""
    one = oc.Context.cpu(1)
    many = oc.Context.cpu(1, mesh=oc.Mesh({"data": 4}, engine="threads"))
    for ctx in (one, many):
        ctx.init_params(loss, seed=1)
    return one, many


@pytest.mark.exhaustive
def test_values_are_whole_and_those_of_ctx():
    _, loss, code = program()
    one, many = contexts(loss)
    assert str(oc.debug(code, one)).splitlines()[0] == "loss gradient update"
    step: Any = many.compile(code, trace=True)
    step()
    text = str(step.trace).splitlines()
    assert text[0] == "loss gradient update, on 4 ranks"
    w = oc.params(loss)["w"]
    for name, tensor in {"loss": loss, "w.grad": w.grad}.items():
        np.testing.assert_array_equal(step.trace[name], many[tensor])
    np.testing.assert_allclose(step.trace["tanh"], oc.debug(code, one)["tanh"], rtol=1e-6)
    # Terms of a sum are those of each rank.
    (line,) = [line for line in text if "─ w_grad_part" in line]
    assert 'w_grad_part on each rank of "data": 4x2x8 float32' in line
    np.testing.assert_allclose(step.trace["w_grad_part"].sum(axis=0), many[w.grad], rtol=1e-5)


def test_values_that_are_split_over_two_axes_and_in_loops():
    mesh = oc.Mesh({"data": 2, "model": 2}, engine="threads")
    one, many = oc.Context.cpu(1), oc.Context.cpu(1, mesh=mesh)
    xs = oc.data(np.ones((5, 4)), axes="bo", label="xs", shard={"batch": "data"})
    w = oc.param("w", 0.5, input=4, output=5, shard={"output": "model"})
    part = oc.sum(w @ xs, axes="output").named("row")
    steps = oc.data(np.arange(3.0), axes="b", label="steps")
    _, last = oc.scan(lambda state, at: ((state * 2 + at).named("state"), None), w @ xs, steps)
    trace: dict[oc.Context, Any] = {}
    for ctx in (one, many):
        ctx.init_params(w)
        trace[ctx] = oc.debug(oc.forward(part) + oc.forward(last), ctx)
    for label in ("row", "state at t", "n2"):
        np.testing.assert_array_equal(trace[many][label], trace[one][label])
    assert trace[many]["row_part"].shape == (2, 5)


@pytest.mark.exhaustive
def test_a_mesh_beside_one_device():
    """Values that have names in the program are compared."""
    _, loss, code = program()
    one, many = contexts(loss)
    steps = [ctx.compile(code, name="step") for ctx in (one, many)]
    assert oc.diff(*steps) is None
    assert oc.diff(*reversed(steps)) is None
    w = oc.params(loss)["w"]
    many[w] = np.asarray(many[w]) + 0.5
    found = oc.diff(*steps)
    assert found is not None
    assert found.first.expression == "w @ x"
    with pytest.raises(oc.OcannlError, match="are other programs"):
        oc.diff(one.compile(code, name="step"), one.compile(oc.forward(2 * w), name="twice"))


def test_a_value_that_is_not_finite_on_another_rank():
    x, loss, code = program()
    _, many = contexts(loss)
    step = many.compile(code, check_nans=True)
    step()
    bad = X.copy()
    bad[9, 3] = np.nan
    many[x] = bad
    with pytest.raises(oc.OcannlError, match=r"py:\d+: `w @ x` is the first value .*: nan at 9, 0\n"):
        step()
    bad[9, :2] = 3e38
    bad[9, 3] = 0.0
    many[x] = bad
    with pytest.raises(oc.OcannlError, match=r'`big_part` is the first .*: inf, on rank 3 of "data"\n'):
        many.compile(oc.sum(x).named("big"), check_nans=True)()
