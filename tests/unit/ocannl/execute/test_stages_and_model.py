"""Tensor parallel layers in stages: what one device gives, and how they are divided."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

IDS = np.random.default_rng(5).integers(0, 7, (8, 5)).astype(np.int32)


def made(mesh: oc.Mesh | None) -> tuple[oc.Context, oc.Tensor, oc.Routine]:
    """An embedding, attention by heads and dropout in one stage, a feed-forward layer in the other."""
    ctx, on = oc.Context.cpu(1, mesh=mesh), mesh is not None
    batch: Any = ("data", "microbatch") if mesh is not None and "data" in mesh.sizes else "microbatch"
    shard: Any = {("batch", 0): batch} if on else None
    with oc.precision("float64"):
        x, y = (oc.data(own, axes="bb", label="ids", shard=shard) for own in (IDS, np.roll(IDS, 1, 0)))
        with oc.stage(0):
            table = oc.param("table", output=6, input=7, shard={"input": "model"} if on else None)
            h = table @ oc.one_hot(x, 7)
            h = nn.dropout(0.2)(h + nn.multi_head_attention(num_heads=2, d_k=3, d_v=3)(h), train_step=0)
        with oc.stage(1):
            into = oc.param("into", output=10, shard={"output": "model"} if on else None)
            h = h + oc.param("out", output=6) @ oc.tanh(into @ h)
            loss = nn.cross_entropy(nn.linear(out_dim=7)(nn.layer_norm()(h)), y).named("loss")
        for name, param in oc.params(loss).items():
            if on and name.endswith(("w_q", "w_k", "w_v")):
                oc.shard(param, {("output", 0): "model"})
        code = train.grad_update(loss) + train.adam_update(loss, learning_rate=0.01)
    step = ctx.compile(code, name="step")
    ctx.init_params(loss)
    return ctx, loss, step


def trained(mesh: oc.Mesh | None) -> Mapping[str, NDArray[Any]]:
    ctx, loss, step = made(mesh)
    losses = step.run_loop(epochs=3, record=[loss])[loss]
    found = {"losses": losses}
    for name, param in oc.params(loss).items():
        found |= {name: ctx[param]}
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("axes", "microbatches"),
    [
        ({"stage": 2, "model": 2}, 2),
        pytest.param({"model": 2, "stage": 2}, 4, marks=pytest.mark.exhaustive),
        pytest.param({"stage": 2, "model": 2, "data": 2}, 2, marks=pytest.mark.exhaustive),
        pytest.param({"data": 2, "stage": 2, "model": 2}, 4, marks=pytest.mark.exhaustive),
    ],
)
def test_stages_beside_a_model_axis(axes: Mapping[str, int], microbatches: int) -> None:
    mesh = oc.Mesh(axes, microbatches=microbatches, engine="threads", timeout=60)
    found, expected = trained(mesh), trained(None)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.exhaustive
def test_parameters_of_each_stage_are_divided() -> None:
    """So are those that follow. Layers sum over "model", gradients over "data"."""
    mesh = oc.Mesh({"stage": 2, "model": 2, "data": 2}, microbatches=2, engine="threads")
    _, _, step = made(mesh)
    text = step.ir("split-stages")
    divided = re.findall(r'texpr\.param "([\w.]+)" stage (\d) .*split \d of \d+ over "model"', text)
    heads = [(f"attention.{name}", "0") for name in ("w_k", "w_o", "w_q", "w_v")]
    assert sorted(divided) == [*heads, ("into", "1"), ("out", "1"), ("table", "0")]
    sums = Counter(re.findall(r'all_reduce .* over "(\w+)"', text))
    assert sums["model"] == 14
    assert sums["data"] > len(oc.params(step.code))
