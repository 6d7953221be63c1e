"""Transformers whose positions are in parts between layers that are divided by heads and hidden features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

SEQUENCES, POSITIONS, FEATURES = 2, 8, 8
IN_PARTS = {("batch", 1): "model"}


def rows(positions: int) -> oc.Tensor:
    array = np.random.default_rng(positions).normal(size=(SEQUENCES, positions, FEATURES))
    return oc.data(array, axes="bbo", label=f"x{positions}")


def encoder(layers: int, **settings: Any) -> oc.Tensor:
    return nn.transformer_encoder(layers, 2, 4, 4, 16, **settings)(rows(POSITIONS), nn.causal_mask(POSITIONS))


def decoder(**settings: Any) -> oc.Tensor:
    return nn.transformer_decoder(1, 2, 4, 4, 16, **settings)(rows(POSITIONS), rows(5))


MODELS: dict[str, Callable[..., oc.Tensor]] = {
    "norm before": lambda **settings: encoder(1, **settings),
    "norm behind": lambda **settings: encoder(1, pre_norm=False, **settings),
    "decoder": decoder,
    "decoder only": lambda **settings: nn.decoder_only(1, 2, 4, 4, 16, **settings)(rows(POSITIONS)),
}


def loss_of(name: str, **settings: Any) -> oc.Tensor:
    with oc.precision(np.float64):
        loss = oc.mean(MODELS[name](**settings) ** 2).named("loss")
    for label, weight in oc.params(loss).items():
        if label.endswith((".w_q", ".w_k", ".w_v")):
            oc.shard(weight, {("output", 0): "model"})
        elif label.endswith("into.w"):
            oc.shard(weight, {"output": "model"})
    return loss


def values(name: str, mesh: oc.Mesh | None, **settings: Any) -> dict[str, NDArray[Any]]:
    loss = loss_of(name, **settings)
    ctx = oc.Context.cpu(1, mesh=mesh)
    step = ctx.compile(train.grad_update(loss), name="step")
    ctx.init_params(loss)
    step()
    return {"loss": ctx[loss]} | {label: ctx[p.grad] for label, p in oc.params(loss).items()}


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MODELS)
def test_positions_in_parts_give_what_one_device_gives(name: str):
    mesh = oc.Mesh({"model": 2}, engine="threads", timeout=30)
    expected, found = values(name, None), values(name, mesh, shard=IN_PARTS)
    assert found.keys() == expected.keys()
    for label, value in expected.items():
        np.testing.assert_allclose(found[label], value, rtol=1e-12, atol=1e-12, err_msg=label)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "gathers", "scatters"),
    [("norm before", 4, 4), ("norm behind", 4, 3), ("decoder", 6, 6), ("decoder only", 4, 4)],
)
def test_inputs_are_gathered_and_sums_are_scattered(name: str, gathers: int, scatters: int):
    """Once for each part of a layer and direction; data without a norm have no gradient to be scattered."""
    plan = oc.plan(train.grad_update(loss_of(name, shard=IN_PARTS)), oc.Mesh({"model": 2}))
    whole = SEQUENCES * POSITIONS * FEATURES * 8
    kinds = [each.kind for each in plan.collectives if each.bytes == whole for _ in range(each.times)]
    assert (kinds.count("all_gather"), kinds.count("reduce_scatter")) == (gathers, scatters)
