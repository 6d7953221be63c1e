"""Traces of runs on a mesh: whose values they are, and a run beside that of one device."""

from __future__ import annotations

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


def test_a_trace_says_whose_values_it_has():
    _, loss, code = program()
    one, many = contexts(loss)
    assert str(oc.debug(code, one)).splitlines()[0] == "loss gradient update"
    trace = oc.debug(code, many)
    assert str(trace).splitlines()[0] == "loss gradient update, rank 0 of 4"
    assert trace["tanh"].shape == (3, 2)


def test_a_mesh_beside_one_device():
    """Values that are whole on each rank are compared, as sums, the loss and gradients of parameters."""
    _, loss, code = program()
    one, many = contexts(loss)
    steps = [ctx.compile(code, name="step") for ctx in (one, many)]
    assert oc.diff(*steps) is None
    assert oc.diff(*reversed(steps)) is None
    w = oc.params(loss)["w"]
    many[w] = np.asarray(many[w]) + 0.5
    found = oc.diff(*steps)
    assert found is not None
    assert found.first.expression == "sum of (... * ...)"
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
    with pytest.raises(oc.OcannlError, match=r"py:\d+: `w @ x` is the first .*: nan at 0, 0, on rank 3 of 4"):
        step()
