"""Adapters of low rank: nothing changes at first, only they are trained, and the result is that of NumPy."""

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train

RNG = np.random.default_rng(7)
X, Y = (RNG.normal(size=(6, size)).astype(np.float32) for size in (5, 3))


def test_adapters_alone_are_trained():
    ctx, base = oc.Context.cpu(), nn.feed_forward(d_ff=8)
    adapted = nn.lora(base, rank=2, alpha=4.0)
    before, after = base(oc.data(X)), adapted(oc.data(X))
    loss = nn.mse(after, oc.data(Y))
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1))
    ctx.init_params(loss)
    start = ctx[before]
    assert sorted(oc.params(loss, trained=True)) == ["lora.down", "lora.up", "lora_1.down", "lora_1.up"]
    step()
    first = float(ctx[loss])
    for _ in range(30):
        step()
    assert float(ctx[loss]) < first
    np.testing.assert_array_equal(ctx[before], start)
    assert not np.allclose(ctx[adapted.params["lora.up"]], 0)
    p = {name: ctx[tensor].astype(np.float64) for name, tensor in adapted.params.items()}

    def layer(name: str, lora: str, h: Any):
        return h @ (p[f"{name}.w"] + 2 * p[f"{lora}.up"] @ p[f"{lora}.down"]).T + p[f"{name}.b"]

    hidden = np.maximum(layer("feed_forward.into", "lora", X), 0)
    found = oc.function(lambda x: adapted(x), ctx)(X)
    np.testing.assert_allclose(found, layer("feed_forward.out", "lora_1", hidden), rtol=1e-4, atol=1e-5)


def test_a_pattern_names_layers_in_lists_too():
    layers = [nn.linear(out_dim=4, label=f"layer{k}") for k in range(3)]

    def chain(x: oc.Tensor) -> oc.Tensor:
        for each in layers:
            x = each(x)
        return x

    adapted = nn.lora(oc.Block(chain), rank=1, only="layers[[]1]")
    names = sorted(oc.params(adapted(oc.data(X)), trained=True))
    assert names == ["lora.down", "lora.up"]
    assert type(adapted.layers[0]) is oc.Block
    assert [*adapted.layers[1].parts] == ["base", "down", "up"]


def test_what_has_no_linear_layers_is_refused():
    with pytest.raises(oc.ArgumentError, match=r"has no linear layers called '\*'"):
        nn.lora(nn.layer_norm())
    with pytest.raises(oc.ArgumentError, match="found function"):
        nn.lora(oc.relu)
    with pytest.raises(oc.ArgumentError, match="a rank is at least 1"):
        nn.lora(nn.linear(), rank=0)
