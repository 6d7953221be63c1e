"""Attention, positions and transformers, and their references in NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.nn.check import Array, Arrays, Case, arrays_of
from support.nn.layers import layer_norm, softmax

import ocannl as oc
from ocannl import nn

HEADS, D_K, D_V = 2, 4, 3
X1, X2, X3 = arrays_of((5, 6), (2, 5, 6), (2, 3, 5, 6))
MEMORY = arrays_of((2, 4, 7), seed=8)[0]
CAUSAL = np.tril(np.ones((5, 5)))
PADDING = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]])[:, None, :]


# References. Parameters are those whose names begin with `name`.


def attention(
    p: Arrays, name: str, x: Array, memory: Array, mask: Array | float = 1.0, temperature: float = 1.0
) -> Array:
    queries, keys, values = (
        np.einsum("...si,hdi->...hsd", a, p[f"{name}.w_{w}"])
        + p.get(f"{name}.b_{w}", np.zeros(1))[..., None, :]
        for a, w in ((x, "q"), (memory, "k"), (memory, "v"))
    )
    groups = queries.shape[-3] // keys.shape[-3]
    keys, values = np.repeat(keys, groups, -3), np.repeat(values, groups, -3)
    scores = queries @ np.swapaxes(keys, -1, -2) / np.sqrt(queries.shape[-1]) / temperature
    visible = mask if np.ndim(mask) < 3 else np.asarray(mask)[..., None, :, :]
    weights = softmax(np.where(visible, scores, -np.inf))
    return np.einsum("...hsd,ohd->...so", weights @ values, p[f"{name}.w_o"]) + p.get(f"{name}.b_o", 0.0)


def torch_attention(p: Any, name: str, x: Any, memory: Any, mask: Any = None) -> Any:
    torch = pytest.importorskip("torch")
    queries, keys, values = (
        torch.einsum("...si,hdi->...hsd", a, p[f"{name}.{w}"])
        for a, w in ((x, "w_q"), (memory, "w_k"), (memory, "w_v"))
    )
    visible = None if mask is None else torch.as_tensor(mask) != 0
    if visible is not None and visible.dim() > 2:
        visible = visible[..., None, :, :]
    grouped = queries.shape[-3] != keys.shape[-3]
    attend = torch.nn.functional.scaled_dot_product_attention
    result = attend(queries, keys, values, visible, enable_gqa=grouped)
    return torch.einsum("...hsd,ohd->...so", result, p[f"{name}.w_o"])


def torch_module(p: Any, x: Any) -> Any:
    """PyTorch's own module, with weights of all heads and of queries, keys and values in one."""
    torch = pytest.importorskip("torch")
    bias = "attention.b_o" in p
    module = torch.nn.MultiheadAttention(6, HEADS, bias=bias, batch_first=True, dtype=torch.float64)
    weights = [p[f"attention.{w}"].flatten(0, 1) for w in ("w_q", "w_k", "w_v")]
    state = {"in_proj_weight": torch.cat(weights), "out_proj.weight": p["attention.w_o"].flatten(1)}
    if bias:
        biases = [p[f"attention.{b}"].flatten() for b in ("b_q", "b_k", "b_v")]
        state |= {"in_proj_bias": torch.cat(biases), "out_proj.bias": p["attention.b_o"]}
    return torch.func.functional_call(module, state, (x, x, x))[0]


def norm(p: Arrays, name: str, x: Array) -> Array:
    return layer_norm(x) * p[f"{name}.gain"] + p[f"{name}.offset"]


def feed_forward(p: Arrays, name: str, x: Array, activation: Callable[[Array], Array]) -> Array:
    hidden = activation(x @ p[f"{name}.into.w"].T + p[f"{name}.into.b"])
    return hidden @ p[f"{name}.out.w"].T + p[f"{name}.out.b"]


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def residual(p: Arrays, name: str, pre: bool, x: Array, f: Callable[[Array], Array]) -> Array:
    return x + f(norm(p, name, x)) if pre else norm(p, name, x + f(x))


def encoder(
    p: Arrays,
    x: Array,
    *,
    pre: bool,
    layers: int = 2,
    mask: Array | float = 1.0,
    name: str = "encoder",
    activation: Callable[[Array], Array] = relu,
) -> Array:
    for k in range(1, layers + 1):
        layer = f"{name}.layer{k}"
        x = residual(
            p, f"{layer}.norm1", pre, x, lambda h, at=layer: attention(p, f"{at}.attention", h, h, mask)
        )
        x = residual(
            p,
            f"{layer}.norm2",
            pre,
            x,
            lambda h, at=layer: feed_forward(p, f"{at}.feed_forward", h, activation),
        )
    return norm(p, f"{name}.norm", x) if pre else x


def decoder(p: Arrays, x: Array, memory: Array, *, pre: bool) -> Array:
    at = "decoder.layer1"
    x = residual(p, f"{at}.norm1", pre, x, lambda h: attention(p, f"{at}.attention", h, h, CAUSAL))
    x = residual(p, f"{at}.norm2", pre, x, lambda h: attention(p, f"{at}.memory", h, memory))
    x = residual(p, f"{at}.norm3", pre, x, lambda h: feed_forward(p, f"{at}.feed_forward", h, relu))
    return norm(p, "decoder.norm", x) if pre else x


def torch_layer_state(p: Any, name: str, attentions: dict[str, str], norms: int) -> dict[str, Any]:
    """The state of a PyTorch transformer layer; its attention has biases, here zero."""
    torch = pytest.importorskip("torch")
    state: dict[str, Any] = {}
    for ours, theirs in attentions.items():
        weights = [p[f"{name}.{ours}.{w}"].flatten(0, 1) for w in ("w_q", "w_k", "w_v")]
        state[f"{theirs}.in_proj_weight"] = torch.cat(weights)
        state[f"{theirs}.in_proj_bias"] = torch.zeros(18, dtype=torch.float64)
        state[f"{theirs}.out_proj.weight"] = p[f"{name}.{ours}.w_o"].flatten(1)
        state[f"{theirs}.out_proj.bias"] = torch.zeros(6, dtype=torch.float64)
    for k, ours in ((1, "into"), (2, "out")):
        state[f"linear{k}.weight"] = p[f"{name}.feed_forward.{ours}.w"]
        state[f"linear{k}.bias"] = p[f"{name}.feed_forward.{ours}.b"]
    for k in range(1, norms + 1):
        state[f"norm{k}.weight"] = p[f"{name}.norm{k}.gain"]
        state[f"norm{k}.bias"] = p[f"{name}.norm{k}.offset"]
    return state


def torch_norm(p: Any, name: str, x: Any) -> Any:
    functional = pytest.importorskip("torch").nn.functional
    return functional.layer_norm(x, x.shape[-1:], p[f"{name}.gain"], p[f"{name}.offset"])


def torch_encoder(
    p: Any, x: Any, *, pre: bool, causal: bool = False, name: str = "encoder", layers: int = 2
) -> Any:
    torch = pytest.importorskip("torch")
    kind = torch.nn.TransformerEncoderLayer
    module = kind(6, HEADS, 10, 0.0, batch_first=True, norm_first=pre, dtype=torch.float64)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64) if causal else None
    for k in range(1, layers + 1):
        state = torch_layer_state(p, f"{name}.layer{k}", {"attention": "self_attn"}, 2)
        x = torch.func.functional_call(module, state, (x,), {"src_mask": mask})
    return torch_norm(p, f"{name}.norm", x) if pre else x


def torch_decoder(p: Any, x: Any, memory: Any, *, pre: bool) -> Any:
    torch = pytest.importorskip("torch")
    kind = torch.nn.TransformerDecoderLayer
    module = kind(6, HEADS, 10, 0.0, batch_first=True, norm_first=pre, dtype=torch.float64)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    attentions = {"attention": "self_attn", "memory": "multihead_attn"}
    state = torch_layer_state(p, "decoder.layer1", attentions, 3)
    x = torch.func.functional_call(module, state, (x, memory), {"tgt_mask": mask})
    return torch_norm(p, "decoder.norm", x) if pre else x


# Positions.


def sinusoids(length: int, features: int) -> Array:
    angle = np.arange(length)[:, None] / 10000 ** (np.arange(0, features, 2) / features)
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(length, -1)[:, :features]


def rotated(x: Array) -> Array:
    """Pairs of features as complex numbers; positions are the last axis but two."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-3])[:, None] / 10000 ** (np.arange(half) / half)
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)[:, None, :]
    return np.concatenate([turned.real, turned.imag], -1)


def torch_rotated(x: Any) -> Any:
    torch = pytest.importorskip("torch")
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-3])[:, None] / 10000 ** (torch.arange(half).double() / half)
    cos, sin = (f(angle)[:, None, :] for f in (torch.cos, torch.sin))
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def self_attention(**settings: Any) -> nn.MaskedLayer:
    return nn.multi_head_attention(num_heads=HEADS, d_k=D_K, d_v=D_V, out_dim=5, **settings)


def masked(layer: Any, array: Array, axes: str) -> nn.Layer:
    return lambda x: layer(x, oc.data(array, axes=axes, label="mask"))


def stack(block: Any, layers: int = 2, **settings: Any) -> Any:
    """PyTorch's layers have heads of features / heads."""
    return block(layers, HEADS, 3, 3, 10, **settings)


def apart(x: Any) -> Any:
    """Even features before odd ones."""
    return x[..., [0, 2, 4, 1, 3, 5]]


def together(x: Any) -> Any:
    return x[..., [0, 3, 1, 4, 2, 5]]


def inner(p: Any) -> dict[str, Any]:
    """The parameters of a transformer by the names that they have in its parts."""
    return {name.removeprefix("transformer."): array for name, array in p.items()}


def placed(p: Any, name: str, ids: Array) -> Array:
    return p[f"transformer.{name}.w"][ids] + sinusoids(ids.shape[-1], 6)


def torch_placed(p: Any, name: str, ids: Any) -> Any:
    torch = pytest.importorskip("torch")
    return p[f"transformer.{name}.w"][ids] + torch.tensor(sinusoids(ids.shape[-1], 6))


PAIRS = arrays_of((2, 5, HEADS, 6))[0]

CASES = {
    **{
        f"attention, {x.ndim - 2} batch axes": Case(
            self_attention(),
            [x],
            lambda p, x: attention(p, "attention", x, x),
            lambda p, x: torch_attention(p, "attention", x, x),
        )
        for x in (X1, X2, X3)
    },
    "attention, causal": Case(
        lambda x: self_attention(label="attention")(x, nn.causal_mask(5)),
        [X2],
        lambda p, x: attention(p, "attention", x, x, CAUSAL),
        lambda p, x: torch_attention(p, "attention", x, x, CAUSAL),
    ),
    "attention, padded": Case(
        masked(self_attention(), PADDING, "bbi"),
        [X2],
        lambda p, x: attention(p, "attention", x, x, PADDING),
        lambda p, x: torch_attention(p, "attention", x, x, PADDING),
    ),
    "attention, causal and padded": Case(
        lambda x: self_attention(label="attention")(x, nn.causal_mask() * oc.data(PADDING, axes="bbi")),
        [X2],
        lambda p, x: attention(p, "attention", x, x, CAUSAL * PADDING),
        lambda p, x: torch_attention(p, "attention", x, x, CAUSAL * PADDING),
    ),
    "attention as a module": Case(
        lambda x: nn.multi_head_attention(num_heads=HEADS, d_k=3, d_v=3, out_dim=6)(x),
        [X2],
        lambda p, x: attention(p, "attention", x, x),
        torch_module,
    ),
    "attention as a module, biases": Case(
        nn.multi_head_attention(num_heads=HEADS, d_k=3, d_v=3, out_dim=6, bias=True),
        [X2],
        lambda p, x: attention(p, "attention", x, x),
        torch_module,
    ),
    "attention, groups": Case(
        nn.multi_head_attention(num_heads=6, num_kv_heads=2, d_k=3, d_v=4, out_dim=5),
        [X2],
        lambda p, x: attention(p, "attention", x, x),
        lambda p, x: torch_attention(p, "attention", x, x),
    ),
    "attention, temperature": Case(
        nn.multi_head_attention(num_heads=HEADS, d_k=3, d_v=3, out_dim=6, temperature=2.5),
        [X2],
        lambda p, x: attention(p, "attention", x, x, temperature=2.5),
        lambda p, x: torch_attention(p | {"attention.w_q": p["attention.w_q"] / 2.5}, "attention", x, x),
    ),
    "cross attention": Case(
        nn.cross_attention(num_heads=HEADS, d_k=D_K, d_v=D_V, out_dim=5),
        [X2, MEMORY],
        lambda p, x, m: attention(p, "attention", x, m),
        lambda p, x, m: torch_attention(p, "attention", x, m),
    ),
    **{
        f"sinusoidal positions, {x.shape[-1]} features": Case(
            nn.sinusoidal_positions(),
            [x],
            lambda p, x: x + sinusoids(*x.shape[-2:]),
            lambda p, x: x + pytest.importorskip("torch").tensor(sinusoids(*x.shape[-2:])),
        )
        for x in (X2, X1[:, :5])
    },
    "learned positions": Case(
        nn.learned_positions(label="at"), [X3], lambda p, x: x + p["at.w"], lambda p, x: x + p["at.w"]
    ),
    "rotary, interleaved": Case(
        nn.rotary(interleaved=True),
        [PAIRS],
        lambda p, x: together(rotated(apart(x))),
        lambda p, x: together(torch_rotated(apart(x))),
        ["bboo"],
    ),
    "transformer": Case(
        nn.transformer(1, HEADS, 3, 3, 10),
        [MEMORY[:, :, :6], X2],
        lambda p, m, x: decoder(inner(p), x, encoder(inner(p), m, pre=True, layers=1), pre=True),
        lambda p, m, x: torch_decoder(inner(p), x, torch_encoder(inner(p), m, pre=True, layers=1), pre=True),
    ),
    "transformer of ids": Case(
        lambda s, t: nn.transformer(
            1, HEADS, 3, 3, 10, num_decoder_layers=1, num=5, source_num=4, dim=6, pre_norm=False
        )(s, t),
        [np.array([[1, 0, 3], [2, 2, 1]]), np.array([[1, 0, 4, 2, 1], [2, 2, 1, 0, 0]])],
        lambda p, s, t: (
            decoder(
                inner(p),
                placed(p, "embed", t),
                encoder(inner(p), placed(p, "embed_source", s), pre=False, layers=1),
                pre=False,
            )
            @ p["transformer.head.w"].T
            + p["transformer.head.b"]
        ),
        lambda p, s, t: (
            torch_decoder(
                inner(p),
                torch_placed(p, "embed", t),
                torch_encoder(inner(p), torch_placed(p, "embed_source", s), pre=False, layers=1),
                pre=False,
            )
            @ p["transformer.head.w"].T
            + p["transformer.head.b"]
        ),
        ["bb", "bb"],
    ),
    "rotary": Case(nn.rotary(), [PAIRS], lambda p, x: rotated(x), lambda p, x: torch_rotated(x), ["bboo"]),
    **{
        f"encoder, {'pre' if pre else 'post'}-norm": Case(
            stack(nn.transformer_encoder, pre_norm=pre),
            [X2],
            lambda p, x, pre=pre: encoder(p, x, pre=pre),
            lambda p, x, pre=pre: torch_encoder(p, x, pre=pre),
        )
        for pre in (True, False)
    },
    **{
        f"decoder only, {'pre' if pre else 'post'}-norm": Case(
            stack(nn.decoder_only, pre_norm=pre),
            [X2],
            lambda p, x, pre=pre: encoder(p, x, pre=pre, mask=CAUSAL, name="decoder"),
            lambda p, x, pre=pre: torch_encoder(p, x, pre=pre, causal=True, name="decoder"),
        )
        for pre in (True, False)
    },
    **{
        f"decoder, {'pre' if pre else 'post'}-norm": Case(
            stack(nn.transformer_decoder, layers=1, pre_norm=pre),
            [X2, MEMORY[:, :, :6]],
            lambda p, x, m, pre=pre: decoder(p, x, m, pre=pre),
            lambda p, x, m, pre=pre: torch_decoder(p, x, m, pre=pre),
        )
        for pre in (True, False)
    },
}
