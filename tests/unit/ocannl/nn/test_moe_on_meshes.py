"""Experts divided over the ranks of a mesh: results, what moves, and how many bytes that is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from support.planned import counted

import ocannl as oc
from ocannl import nn, train

TOKENS, FEATURES = 12, 4


class Mixture(NamedTuple):
    """A step of training, and what it computes."""

    step: oc.Code
    loss: oc.Tensor
    result: oc.Tensor


def mixture(sequences: int = 8, layers: int = 1, over: str = "data", **settings: Any) -> Mixture:
    """Mixtures behind a layer, so that the gradients of tokens move, too; experts are divided over a mesh."""
    rng = np.random.default_rng(2)
    with oc.precision(np.float64):
        tokens = rng.normal(size=(sequences, TOKENS, 3)) if sequences > 1 else rng.normal(size=(TOKENS, 3))
        x = oc.data(tokens, label="x", shard={"batch": "data"})
        y, balances = nn.linear(in_dim=3, out_dim=FEATURES)(x), oc.as_tensor(0.0)
        for _ in range(layers):
            found, balance = nn.moe(d_ff=5, shard={"experts": over}, **settings)(y, balance=True)
            y, balances = y + found, balances + balance
        result = y.named("result")
        loss = oc.sum(result**2) + 0.1 * balances
    return Mixture(train.grad_update(loss) + result.forward, loss, result)


def values(made: Mixture, mesh: oc.Mesh | None) -> dict[str, NDArray[Any]]:
    ctx = oc.Context.cpu(1, mesh=mesh)
    step = ctx.compile(made.step, name="step")
    ctx.init_params(made.loss)
    step()
    found = {"loss": ctx[made.loss], "result": ctx[made.result]}
    return found | {name: ctx[p.grad] for name, p in oc.params(made.loss).items()}


SETTINGS: dict[str, tuple[Mapping[str, int], dict[str, Any]]] = {
    "uneven experts": ({"data": 4}, {"num_experts": 5, "capacity_factor": 1.0, "bias": True}),
    "even": ({"data": 2}, {"num_experts": 8, "capacity_factor": 1.25}),
    "uneven sequences": ({"data": 3}, {"num_experts": 6, "capacity_factor": 1.0, "top_k": 1}),
    "fewer experts than ranks": ({"data": 4}, {"num_experts": 3, "capacity_factor": 0.5}),
    "another axis": ({"data": 2, "model": 2}, {"num_experts": 4, "capacity_factor": 1.0, "over": "model"}),
    "nothing dropped": ({"data": 2}, {"num_experts": 4}),
    "groups": ({"data": 2}, {"num_experts": 4, "capacity_factor": 1.0, "groups": 2, "sequences": 1}),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("axes", "settings"), SETTINGS.values(), ids=list(SETTINGS))
def test_experts_of_several_ranks_give_what_those_of_one_give(
    axes: Mapping[str, int], settings: dict[str, Any]
):
    mesh = oc.Mesh(axes, engine="threads", timeout=30)
    expected, found = values(mixture(**settings), None), values(mixture(**settings), mesh)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("ranks", "layers"), [(2, 1), (8, 2), (64, 1)])
def test_tokens_move_to_experts_and_back_once_in_each_direction(ranks: int, layers: int):
    """Two exchanges forward and two backward (Lepikhin et al., 2021), of which each rank keeps 1 / n."""
    made = mixture(64, layers, num_experts=64, capacity_factor=2.0)
    plan = oc.plan(made.step, oc.Mesh({"data": ranks}), "8x8xH100")
    moved = [each for each in plan.collectives if each.kind == "all_to_all"]
    assert sum(each.times for each in moved) == 4 * layers
    assert {each.kind for each in plan.collectives} == {"all_to_all", "all_reduce"}
    of_rank = 64 * 64 * math.ceil(2.0 * 2 * TOKENS / 64) * FEATURES * 8 // ranks
    for each in moved:
        assert each.sent == each.engine_sent == of_rank * (ranks - 1) // ranks


@pytest.mark.parametrize(("ranks", "groups"), [(2, 2), (4, 4)])
def test_tokens_of_one_axis_move_as_groups(ranks: int, groups: int):
    made = mixture(1, num_experts=4, capacity_factor=1.0, groups=groups)
    plan = oc.plan(made.step, oc.Mesh({"data": ranks}))
    assert sum(each.times for each in plan.collectives if each.kind == "all_to_all") == 4
    assert {each.kind for each in plan.collectives} == {"all_to_all", "all_reduce"}


@pytest.mark.exhaustive
def test_weights_that_are_placed_later_stay_where_they_are():
    """All tokens are whole on each rank, and only results are added."""

    def made(mesh: oc.Mesh | None) -> Mixture:
        with oc.precision(np.float64):
            x = oc.data(np.random.default_rng(3).normal(size=(3, 4)), label="x")
            layer = nn.moe(num_experts=12, d_ff=5)
            for weights in (layer.w_in, layer.w_out) if mesh else ():
                oc.shard(weights, {"batch": "model"})
            result = (x + layer(x)).named("result")
            loss = oc.sum(result**2)
        return Mixture(oc.forward(loss), loss, result)

    mesh = oc.Mesh({"model": 2}, engine="threads", timeout=30)
    plan = oc.plan(made(mesh).step, mesh)
    assert {each.kind for each in plan.collectives} == {"all_reduce"}
    assert max(each.bytes for each in plan.collectives) <= 3 * 2 * 4 * 8
    results: list[Any] = []
    for own in (None, mesh):
        mixed, ctx = made(own), oc.Context.cpu(1, mesh=own)
        step = ctx.compile(mixed.step)
        ctx.init_params(mixed.loss)
        step()
        results.append(ctx[mixed.loss])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-12)


@pytest.mark.exhaustive
def test_engines_send_what_is_planned():
    mesh = oc.Mesh({"data": 4}, engine="threads", timeout=30)
    made = mixture(num_experts=5, capacity_factor=1.0)
    plan = oc.plan(made.step, mesh)
    ctx = oc.Context.cpu(1, mesh=mesh)
    routine = ctx.compile(made.step)
    ctx.init_params(made.loss)
    with counted() as sent:
        routine()
    assert sent.bytes == 4 * plan.engine_sent


def test_weights_of_experts_are_divided_and_the_router_is_whole():
    mesh = oc.Mesh({"data": 2})
    made = mixture(num_experts=4, capacity_factor=1.0)
    placed = {name: str(made.step.placement(p)) for name, p in oc.params(made.loss).items()}
    divided = 'split along axis 0 over "data"'
    assert placed["moe.w_in"] == placed["moe.w_out"] == divided
    assert placed["moe.router"] == 'whole over "data"'
    del mesh


def test_a_mesh_without_the_axis_of_the_experts():
    made = mixture(num_experts=4, capacity_factor=1.0, over="model")
    ctx = oc.Context.cpu(1, mesh=oc.Mesh({"data": 2}, engine="threads"))
    with pytest.raises(oc.OcannlError, match=r'py:\d+: the mesh \(data = 2\) has no axis "model"'):
        ctx.compile(made.step)
