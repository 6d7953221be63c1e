"""Programs in stages, microbatch by microbatch: what one device gives."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

Values = Mapping[str, NDArray[Any]]
Program: TypeAlias = Callable[[oc.Context, Any, int], Values]
rng = np.random.default_rng(5)
POINTS, TARGETS = rng.normal(size=(16, 4)), rng.normal(size=(16, 3))
IDS = rng.integers(0, 7, (8, 5)).astype(np.int32)


def trained(
    ctx: oc.Context, loss: oc.Tensor, code: oc.Code, kept: Mapping[str, oc.Tensor] | None = None
) -> Values:
    """Losses, parameters and gradients after some steps, half of them in a loop."""
    step = ctx.compile(code, name="step")
    ctx.init_params(loss)
    losses: list[float] = []
    for _ in range(2):
        step()
        losses.append(float(ctx[loss]))
    looped = step.run_loop(epochs=2, record=[loss])
    found = {"losses": np.array([*losses, *looped[loss]])}
    for name, param in oc.params(loss).items():
        found |= {name: ctx[param], f"{name}.grad": ctx[param.grad]}
    return found | {name: ctx[tensor] for name, tensor in (kept or {}).items()}


def chain(ctx: oc.Context, shard: Any, stages: int) -> Values:
    """Layers one after the other, with a momentum and a skip over all stages."""
    x, y = (oc.data(a, label=n, shard=shard) for a, n in ((POINTS, "x"), (TARGETS, "y")))
    h = first = x
    for number in range(stages):
        with oc.stage(number):
            h = nn.mlp_layer(hid_dim=6, label=f"layer{number}")(h)
            first = h if number == 0 else first
    with oc.stage(stages - 1):
        out = nn.linear(out_dim=3)(h + first)
    loss = nn.mse(out, y).named("loss")
    code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.05, momentum=0.9)
    return trained(ctx, loss, code)


def normed(ctx: oc.Context, shard: Any, stages: int) -> Values:
    """Gradients whose norm over all stages is limited, by Adam; a loss outside of stages."""
    x, y = (oc.data(a, label=n, shard=shard) for a, n in ((POINTS, "x"), (TARGETS, "y")))
    h = x
    for number in range(stages):
        with oc.stage(number):
            h = oc.tanh(nn.layer_norm()(nn.linear(out_dim=3)(h)))
    loss = (nn.mse(h, y) + 0.01 * sum((p**2).sum() for p in oc.params(h).values())).named("loss")
    code = (
        train.grad_update(loss)
        + train.clip_grad_norm(loss, 0.1)
        + train.adam_update(loss, learning_rate=0.01)
    )
    return trained(ctx, loss, code)


def tied(ctx: oc.Context, shard: Any, stages: int) -> Values:
    """A table of embeddings that the first stage reads by ids, and the last one as the head; with dropout."""
    ids = oc.data(IDS, label="ids", axes="bb", shard=shard)
    with oc.stage(0):
        table = nn.embedding(num=7, dim=6)
        h = table(ids)
    for number in range(stages):
        with oc.stage(number):
            h = h + nn.mlp(hid_dims=[8], out_dim=6)(nn.dropout(rate=0.3)(h, train_step=oc.constant(3)))
    with oc.stage(stages - 1):
        logits = table.parts["w"] @ h
        loss = nn.cross_entropy(logits, ids).named("loss")
    return trained(ctx, loss, train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1))


def attention(ctx: oc.Context, shard: Any, stages: int) -> Values:
    """A decoder layer in each stage, and values that stay in memory."""
    ids = oc.data(IDS, label="ids", axes="bb", shard=shard)
    with oc.stage(0):
        h = nn.embedding(num=7, dim=8)(ids)
    for number in range(stages):
        with oc.stage(number):
            h = nn.decoder_only(1, 2, 4, 4, 8)(h, mask=nn.causal_mask(5))
    logits = nn.linear(out_dim=7)(h).named("logits")
    loss = nn.cross_entropy(logits, ids).named("loss")
    code = oc.forward(logits) + train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)
    return trained(ctx, loss, code, {"logits": logits})


def check(program: Program, mesh: oc.Mesh, shard: Any, stages: int) -> None:
    with oc.precision("float64"):
        expected = program(oc.Context.cpu(1), None, stages)
        found = program(oc.Context.cpu(mesh=mesh), shard, stages)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("program", "microbatches"),
    [
        (chain, 2),
        (tied, 2),
        *(
            pytest.param(program, number, marks=pytest.mark.exhaustive)
            for program in (chain, normed, tied, attention)
            for number in (1, 2, 8)
            if program not in (chain, tied) or number != 2
        ),
    ],
)
def test_stages_give_what_one_device_gives(program: Program, microbatches: int) -> None:
    mesh = oc.Mesh({"stage": 2}, microbatches=microbatches, engine="threads", timeout=20)
    check(program, mesh, {"batch": "microbatch"}, 2)


@pytest.mark.parametrize(
    ("program", "mesh", "microbatches", "shard"),
    [
        pytest.param(chain, {"stage": 4}, 4, {"batch": "microbatch"}, marks=pytest.mark.exhaustive),
        pytest.param(tied, {"stage": 4}, 2, {"batch": "microbatch"}, marks=pytest.mark.exhaustive),
        (chain, {"stage": 2, "data": 2}, 4, {"batch": ("data", "microbatch")}),
        pytest.param(
            attention,
            {"data": 2, "stage": 2},
            2,
            {"batch": ("data", "microbatch")},
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(normed, {"stage": 2, "data": 2}, 1, {"batch": "data"}, marks=pytest.mark.exhaustive),
        (chain, {"data": 2}, 4, {"batch": ("data", "microbatch")}),
        pytest.param(tied, {"data": 1}, 4, {"batch": "microbatch"}, marks=pytest.mark.exhaustive),
    ],
)
def test_stages_beside_other_axes(
    program: Program, mesh: Mapping[str, int], microbatches: int, shard: Any
) -> None:
    made = oc.Mesh(mesh, microbatches=microbatches, engine="threads", timeout=20)
    check(program, made, shard, max(2, mesh.get("stage", 2)))


@pytest.mark.exhaustive
def test_each_stage_saves_what_it_holds(tmp_path: Path) -> None:
    mesh = oc.Mesh({"stage": 2}, microbatches=2, engine="threads", timeout=20)
    ctx = oc.Context.cpu(mesh=mesh)
    h = oc.data(POINTS, label="x", shard={"batch": "microbatch"})
    for number in range(2):
        with oc.stage(number):
            h = nn.linear(out_dim=5, label=f"layer{number}")(h)
    loss = (h**2).sum().named("loss")
    step = ctx.compile(train.grad_update(loss) + train.adam_update(loss), name="step")
    ctx.init_params(loss)
    step()
    ctx.save(tmp_path / "a.safetensors", step)
    step()
    after = float(ctx[loss])
    index = json.loads((tmp_path / "a.safetensors.index.json").read_text())["weight_map"]
    assert "-00001-of" in index["layer0.w"]
    assert "-00002-of" in index["layer1.w.adam_mean"]
    alone = oc.Context.cpu(1)
    again = alone.compile(step.code)
    for own, routine in ((ctx, step), (alone, again)):
        own.load(tmp_path / "a.safetensors", routine)
        routine()
        np.testing.assert_allclose(float(own[loss]), after, rtol=1e-12)
    seen = ctx.compile(oc.forward(loss), name="seen")
    seen()
    assert float(ctx[loss]) < after
