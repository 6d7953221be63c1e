"""The decoder of Llama and of models that differ from it in a few choices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ocannl as oc
from ocannl import nn
from ocannl.models.model import Config, batch_of_ids, picked, setting
from ocannl.models.parts import Places, activation, gated, head_of, of_heads, same
from ocannl.models.rope import Rope, head_size, rope_of


@dataclass(frozen=True)
class Design:
    """Choices that tell models apart.

    Attributes:
        norm: the norm, called with `dim`, `epsilon` and `label`.
        qkv_bias: whether queries, keys and values have biases; `out_bias` and `mlp_bias` alike.
        normed_heads: whether each head of queries and keys is normalized (Dehghani et al., 2023).
        sandwich: whether there are norms after attention and after the feed-forward block, too.
        embedding_scale: the factor of embeddings.
        score_scale: the factor of scores, by default 1 / sqrt(features of a head).
        score_cap: what scores are capped by, `final_cap` what the scores of ids are.
        feed: the feed-forward block of a layer by its number, in place of a gated one.
        in_part: whether the configuration says which part of features is rotated.
    """

    norm: Callable[..., nn.Layer] = nn.rms_norm
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    normed_heads: bool = False
    sandwich: bool = False
    embedding_scale: float = 1.0
    score_scale: float | None = None
    score_cap: float | None = None
    final_cap: float | None = None
    feed: Callable[[Config, int], nn.Layer] | None = None
    in_part: bool = False


def decoder(config: Config, design: Design, windows: list[int | None]) -> Callable[..., oc.Tensor]:
    """A language model whose layers see so many positions each, None for all; see `Model` for what it
    takes.
    """
    width = setting(config, "hidden_size")
    embed = nn.embedding(num=setting(config, "vocab_size"), dim=width, label="embed_tokens")
    ropes = {
        is_local: rope_of(config, head_size(config), kind, in_part=design.in_part)
        for is_local, kind in ((False, "full_attention"), (True, "sliding_attention"))
    }
    layers = [
        layer(config, design, number, window, ropes[window is not None])
        for number, window in enumerate(windows)
    ]
    norm = norm_of(config, design, "norm")
    head = head_of(config, embed, width)

    def model(ids: oc.TensorLike, cache: nn.KVCache | None = None, at: oc.Tensor | None = None) -> oc.Tensor:
        ids = batch_of_ids(ids)
        here = Places.of(ids, cache, embed, at)
        x = embed(ids) * design.embedding_scale if design.embedding_scale != 1 else embed(ids)
        for each in layers:
            x = each(x, here)
        return capped(head(picked(norm(x), at)), design.final_cap)

    return model


def norm_of(config: Config, design: Design, label: str, size: int | None = None) -> nn.Layer:
    """A norm over the features, or over so many."""
    dim = setting(config, "hidden_size") if size is None else size
    return design.norm(dim=dim, epsilon=setting(config, "rms_norm_eps", 1e-6), label=label)


def capped(x: oc.Tensor, cap: float | None) -> oc.Tensor:
    """Numbers that stay between `-cap` and `cap`."""
    return x if cap is None else cap * oc.tanh(x / cap)


@oc.configurable
def layer(
    config: Config, design: Design, number: int, window: int | None, rope: Rope
) -> Callable[..., oc.Tensor]:
    """Attention and a gated feed-forward block, each after a norm, or between two."""
    names = ["input_layernorm", "post_attention_layernorm"]
    if design.sandwich:
        names += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    with oc.scope(f"layers.{number}"):
        norms = [norm_of(config, design, name) for name in names]
        attend = attention(config, design, window, rope)
        feed = gated_of(config, bias=design.mlp_bias) if design.feed is None else design.feed(config, number)

    def apply(x: oc.Tensor, here: Places) -> oc.Tensor:
        if design.sandwich:
            x = x + norms[1](attend(norms[0](x), here))
            return x + norms[3](feed(norms[2](x)))
        x = x + attend(norms[0](x), here)
        return x + feed(norms[1](x))

    return apply


def gated_of(config: Config, *, bias: bool = False) -> nn.Layer:
    """The gated feed-forward block of a layer."""
    return gated(
        width=setting(config, "hidden_size"),
        hidden=setting(config, "intermediate_size"),
        act=activation(config, "hidden_activation", "hidden_act"),
        bias=bias,
    )


@oc.configurable
def attention(config: Config, design: Design, window: int | None, rope: Rope) -> Callable[..., oc.Tensor]:
    """Causal attention with rotary positions, whose keys and values may be shared by groups of queries."""
    width, size = setting(config, "hidden_size"), head_size(config)
    heads = setting(config, "num_attention_heads")
    kv_heads = setting(config, "num_key_value_heads", heads)
    with oc.scope("self_attn"):
        q_proj, k_proj, v_proj = (
            nn.linear(in_dim=width, out_dim=[count, size], bias=design.qkv_bias, label=f"{name}_proj")
            for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
        )
        o_proj = nn.linear(in_dim=[heads, size], out_dim=width, bias=design.out_bias, label="o_proj")
        q_norm, k_norm = (
            of_heads(norm_of(config, design, label, size)) if design.normed_heads else same
            for label in ("q_norm", "k_norm")
        )

    def apply(x: oc.Tensor, here: Places) -> oc.Tensor:
        q, k, v = here.known(q_norm(q_proj(x)), k_norm(k_proj(x)), v_proj(x))
        queries, keys = here.turned(rope, q), here.turned(rope, k)
        seen = here.seen(k_proj, keys, v, window)
        result = nn.dot_product_attention(
            queries,
            *seen,
            num_kv_heads=None if kv_heads == heads else kv_heads,
            scale=design.score_scale,
            soft_cap=design.score_cap,
        )
        return o_proj(result)

    return apply


def windows_of(config: Config, local: Callable[[int], bool]) -> list[int | None]:
    """How many positions each layer sees, None for all: as the configuration says, or else the sliding window
    in layers whose numbers are `local`. Raises `OcannlError` for other kinds of layers.
    """
    window, count = config.get("sliding_window"), setting(config, "num_hidden_layers")
    kinds, known = config.get("layer_types"), {"sliding_attention": window, "full_attention": None}
    if kinds and (len(kinds) != count or not known.keys() >= {*kinds}):
        raise oc.OcannlError(f"`layer_types` are {' or '.join(known)} of {count} layers, found {kinds}")
    if window is None or not config.get("use_sliding_window", True):
        return [None] * count
    if kinds:
        return [known[kind] for kind in kinds]
    return [window if local(number) else None for number in range(count)]
