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
