"""Programs that give on a mesh, with data placed by `shard`, what they give on one device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

Values = Mapping[str, NDArray[Any]]
rng = np.random.default_rng(5)
POINTS, TARGETS = rng.normal(size=(10, 4)), rng.normal(size=(10, 3))


@oc.block
def mlp(p: Any, x: oc.Tensor) -> oc.Tensor:
    return p.w2 @ oc.relu(p.b1(output=8) + p.w1 @ x)


def perceptron(ctx: oc.Context, shard: Any, steps: int = 4) -> Values:
    """Losses and parameters of some steps of training, half of them in a loop."""
    x, y = oc.data(POINTS, label="x", shard=shard), oc.data(TARGETS, label="y", shard=shard)
    diff = mlp()(x) - y
    loss = (diff * diff).sum()
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.01), name="step")
    ctx.init_params(loss)
    losses: list[float] = []
    for _ in range(steps):
        step()
        losses.append(float(ctx[loss]))
    looped = step.run_loop(epochs=steps, record=[loss, diff])
    kept = {"losses": np.array([*losses, *looped[loss]]), "diffs": looped[diff], "diff": ctx[diff]}
    return kept | {name: ctx[param] for name, param in oc.params(loss).items()}


def recurrent(ctx: oc.Context, shard: Any) -> Values:
    """A recurrent network, whose gradients run through loops."""
    x = oc.data(np.stack([POINTS] * 3), axes="bbo", label="x", shard=shard)
    model = nn.lstm(3)
    loss = (model(x) ** 2).sum()
    step = ctx.compile(train.grad_update(loss), name="step")
    ctx.init_params(loss)
    step()
    return {"loss": ctx[loss]} | {name: ctx[param.grad] for name, param in oc.params(loss).items()}


def trained(ctx: oc.Context, loss: oc.Tensor) -> Values:
    """Three steps of Adam."""
    step = ctx.compile(train.grad_update(loss) + train.adam_update(loss, learning_rate=0.01), name="step")
    ctx.init_params(loss)
    losses: list[float] = []
    for _ in range(3):
        step()
        losses.append(float(ctx[loss]))
    return {"losses": np.array(losses)} | {name: ctx[param] for name, param in oc.params(loss).items()}


def divided_parameters(ctx: oc.Context, shard: Any) -> Values:
    """Parameters and moments in parts, dropout, and a batch in uneven ones."""
    own = None if shard is None else {"input": "data"}
    with oc.precision(np.float64):
        x = oc.data(POINTS, label="x", shard=shard)
        hidden = nn.dropout(0.3)(oc.tanh(oc.param("hidden", output=6, shard=own) @ x), train_step=0)
        loss = ((oc.param("out", output=3, shard=own) @ hidden - oc.data(TARGETS, shard=shard)) ** 2).sum()
    return trained(ctx, loss)


def divided_layers(ctx: oc.Context, shard: Any) -> Values:
    """Attention by heads, and two layers that share one sum."""
    own = None if shard is None else {"output": "data"}
    with oc.precision(np.float64):
        x = oc.data(np.stack([POINTS] * 2), axes="bbo", label="x", shard={} if shard else None)
        hidden = oc.param("into", output=8, shard=own) @ nn.multi_head_attention(num_heads=4, d_k=2, d_v=2)(x)
        loss = ((oc.param("out", output=3) @ oc.relu(hidden)) ** 2).sum()
    return trained(ctx, loss)


def divided_positions(ctx: oc.Context, shard: Any) -> Values:
    """Positions in parts, but where attention by heads and two layers by hidden features are."""
    parts, own = (None, None) if shard is None else ({("batch", 1): "data"}, {("output", 0): "data"})
    with oc.precision(np.float64):
        h = oc.data(np.stack([POINTS] * 2), axes="bbo", label="x", shard=parts)
        w_in = oc.param("w_in", output=8, shard=own)
        layers = (
            nn.multi_head_attention(num_heads=4, d_k=2, d_v=2),
            lambda x: oc.param("w_out") @ oc.relu(w_in @ x),
        )
        for layer in layers:
            normed = nn.layer_norm()(h)
            h = h + layer(normed if parts is None else oc.shard(normed, {}))
            h = h if parts is None else oc.shard(h, parts)
        loss = (h**2).sum()
    for name, param in oc.params(loss).items():
        if own is not None and name.endswith(("w_q", "w_k", "w_v")):
            oc.shard(param, own)
    return trained(ctx, loss)


def divided_experts(ctx: oc.Context, shard: Any) -> Values:
    """A mixture whose tokens go to the ranks of their experts, and back."""
    own = None if shard is None else {"experts": "data"}
    with oc.precision(np.float64):
        x = oc.data(np.stack([POINTS] * 6), axes="bbo", label="x", shard=shard)
        y = nn.linear(in_dim=4, out_dim=4)(x)
        found, balance = nn.moe(num_experts=5, d_ff=5, capacity_factor=1.0, shard=own)(y, balance=True)
        loss = oc.sum((y + found) ** 2) + 0.1 * balance
    return trained(ctx, loss)
