"""Phi 1.5 and 2 (Li et al., 2023), and Phi 3 (Abdin et al., 2024)."""

from __future__ import annotations

from collections.abc import Callable

import ocannl as oc
from ocannl import nn
from ocannl.models.decoder import Design, decoder, windows_of
from ocannl.models.model import Array, Config, batch_of_ids, picked, setting
from ocannl.models.parts import Places, activation, head_of, of_heads, same
from ocannl.models.rope import Rope, head_size, rope_of


def phi(config: Config) -> Callable[..., oc.Tensor]:
    """Phi 1.5 and 2: attention and the feed-forward block stand side by side, after one norm."""
    width = setting(config, "hidden_size")
    epsilon = setting(config, "layer_norm_eps", 1e-5)
    rope = rope_of(config, head_size(config), in_part=True)
    embed = nn.embedding(num=setting(config, "vocab_size"), dim=width, label="embed_tokens")
    layers = [layer(config, number, epsilon, rope) for number in range(setting(config, "num_hidden_layers"))]
    norm = nn.layer_norm(dim=width, epsilon=epsilon, label="final_layernorm")
    head = head_of(config, embed, width, bias=True)

    def model(ids: oc.TensorLike, cache: nn.KVCache | None = None, at: oc.Tensor | None = None) -> oc.Tensor:
        ids = batch_of_ids(ids)
        here, x = Places.of(ids, cache, embed, at), embed(ids)
        for each in layers:
            x = each(x, here)
        return head(picked(norm(x), at))

    return model


@oc.configurable
def layer(config: Config, number: int, epsilon: float, rope: Rope) -> Callable[..., oc.Tensor]:
    """A norm, then attention and a feed-forward block of its result."""
    width, inner = setting(config, "hidden_size"), setting(config, "intermediate_size")
    heads, size = setting(config, "num_attention_heads"), head_size(config)
    kv_heads = setting(config, "num_key_value_heads", heads)
    with oc.scope(f"layers.{number}"):
        norm = nn.layer_norm(dim=width, epsilon=epsilon, label="input_layernorm")
        with oc.scope("self_attn"):
            q_proj, k_proj, v_proj = (
                nn.linear(in_dim=width, out_dim=[count, size], label=f"{name}_proj")
                for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
            )
            q_norm, k_norm = (
                of_heads(nn.layer_norm(dim=size, epsilon=epsilon, label=f"{name}_layernorm"))
                if config.get("qk_layernorm")
                else same
                for name in "qk"
            )
            dense = nn.linear(in_dim=[heads, size], out_dim=width, label="dense")
        with oc.scope("mlp"):
            into = nn.linear(in_dim=width, out_dim=inner, label="fc1")
            out = nn.linear(in_dim=inner, out_dim=width, label="fc2")
    act, groups = activation(config, "hidden_act"), None if kv_heads == heads else kv_heads

    def apply(x: oc.Tensor, here: Places) -> oc.Tensor:
        h = norm(x)
        q, k, v = here.known(q_norm(q_proj(h)), k_norm(k_proj(h)), v_proj(h))
        queries = here.turned(rope, q)
        seen = here.seen(k_proj, here.turned(rope, k), v)
        return x + dense(nn.dot_product_attention(queries, *seen, num_kv_heads=groups)) + out(act(into(h)))

    return apply


def phi3(config: Config) -> Callable[..., oc.Tensor]:
    """Phi 3: Llama with a sliding window; its file has joined weights."""
    return decoder(config, Design(in_part=True), windows_of(config, lambda number: True))


def phi3_weights(config: Config, name: str, array: Array) -> dict[str, Array]:
    """The parts of joined weights: of queries, keys and values, and of both halves of the feed-forward."""
    if "qkv_proj" in name:
        heads = setting(config, "num_attention_heads")
        sizes = [heads, *[setting(config, "num_key_value_heads", heads)] * 2]
        ends = [end * head_size(config) for end in (sizes[0], sizes[0] + sizes[1])]
        parts = zip("qkv", (array[: ends[0]], array[ends[0] : ends[1]], array[ends[1] :]), strict=True)
        return {name.replace("qkv", part): piece for part, piece in parts}
    if "gate_up_proj" in name:
        half = len(array) // 2
        parts = {"gate": array[:half], "up": array[half:]}
        return {name.replace("gate_up", part): piece for part, piece in parts.items()}
    return {name: array}
