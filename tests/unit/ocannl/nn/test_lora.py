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


def test_a_linear_layer_is_a_block_too():
    base = nn.linear(out_dim=3)
    adapted = nn.lora(base, rank=2)
    assert sorted(oc.params(adapted(oc.data(X)), trained=True)) == ["lora.down", "lora.up"]
    assert adapted.params["linear.w"] == base.w


def test_what_has_no_linear_layers_is_refused():
    with pytest.raises(oc.ArgumentError, match=r"has no linear layers called '\*'"):
        nn.lora(nn.layer_norm())
    with pytest.raises(oc.ArgumentError, match="found function"):
        nn.lora(oc.relu)
    with pytest.raises(oc.ArgumentError, match="a rank is at least 1"):
        nn.lora(nn.linear(), rank=0)


BLOCKS = {
    "mlp": (lambda: nn.mlp(hid_dims=[7, 4], out_dim=3), 3),
    "attention": (lambda: nn.multi_head_attention(num_heads=2, d_k=3, d_v=3, out_dim=5), 4),
    "encoder": (lambda: nn.transformer_encoder(1, 2, 3, 3, 8), 6),
    "lstm": (lambda: nn.lstm(hid_dim=4, layers=2), 4),
    "gru": (lambda: nn.gru(hid_dim=4, bidirectional=True), 4),
}


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BLOCKS)
def test_weights_of_products_are_adapted(name: str):
    """Those of blocks that have no layers of their own for them."""
    make, count = BLOCKS[name]
    base, x = make(), oc.data(RNG.normal(size=(2, 3, 5)).astype(np.float32))
    adapted = nn.lora(base, rank=2)
    before, after = base(x), adapted(x)
    loss = (after**2).sum()
    ctx = oc.Context.cpu(1)
    step = ctx.compile(train.adam(0.1).step(loss))
    ctx.init_params(loss)
    start = ctx[before]
    np.testing.assert_allclose(ctx[after], start, rtol=1e-5, atol=1e-6)
    assert len(oc.params(loss, trained=True)) == 2 * count
    for _ in range(3):
        step()
    np.testing.assert_array_equal(ctx[before], start)
    assert not np.allclose(ctx[after], start)
    assert not oc.params(adapted.freeze()(x), trained=True)


def test_a_weight_is_adapted_by_its_path():
    adapted = nn.lora(nn.mlp(hid_dims=[7], out_dim=3), rank=2, only="w_out")
    assert sorted(oc.params(adapted(oc.data(X)), trained=True)) == ["lora.down", "lora.up"]
    p = adapted.params
    ctx = oc.Context.cpu(1)
    y = adapted(oc.data(X))
    ctx.init_params(y)
    ctx[p["lora.up"]] = RNG.normal(size=(3, 2))
    w, b, out, down, up = (
        ctx[p[n]] for n in ("mlp.layer1.w", "mlp.layer1.b", "mlp.w_out", "lora.down", "lora.up")
    )
    wanted = np.maximum(X @ w.T + b, 0) @ (out + up @ down).T
    np.testing.assert_allclose(ctx[y], wanted, rtol=1e-4, atol=1e-5)
