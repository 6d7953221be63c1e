"""ModernBERT (Warner et al., 2024)."""

from __future__ import annotations

from collections.abc import Callable

import ocannl as oc
from ocannl import nn
from ocannl.models.encoder import is_for, seen_by_all
from ocannl.models.model import Config, batch_of_ids, setting
from ocannl.models.parts import Places, activation
from ocannl.models.rope import Rope, head_size, rope_of

KINDS = ("full_attention", "sliding_attention")


def modernbert(config: Config) -> Callable[..., oc.Tensor]:
    """A function of ids, batch, position | , and of a mask, 1 where there is one, to features, or to scores
    of ids where the model was saved for masked language.
    """
    width, count = setting(config, "hidden_size"), setting(config, "num_hidden_layers")
    with oc.scope("embeddings"):
        embed = nn.embedding(num=setting(config, "vocab_size"), dim=width, label="tok_embeddings")
        norm = norm_of(config, "norm")
    every = setting(config, "global_attn_every_n_layers", 3)
    kinds = setting(config, "layer_types", [KINDS[number % every > 0] for number in range(count)])
    old = {
        "full_attention": {"rope_theta": config.get("global_rope_theta", 160000.0)},
        "sliding_attention": {"rope_theta": config.get("local_rope_theta", 10000.0)},
    }
    ropes = {kind: rope_of({"rope_parameters": old, **config}, head_size(config), kind) for kind in KINDS}
    layers = [layer(config, number, ropes[kind], kind == KINDS[1]) for number, kind in enumerate(kinds)]
    last = norm_of(config, "final_norm")
    head = predictions(config, embed) if is_for(config, "ForMaskedLM") else None

    def model(ids: oc.TensorLike, mask: oc.TensorLike | None = None) -> oc.Tensor:
        ids, seen = batch_of_ids(ids), seen_by_all(mask)
        here, x = Places.of(ids, None, embed), norm(embed(ids))
        for each in layers:
            x = each(x, here, seen)
        return last(x) if head is None else head(last(x))

    return model


def norm_of(config: Config, label: str) -> nn.Layer:
    """A layer norm over the features, without an offset where the configuration says so."""
    bias, epsilon = bool(config.get("norm_bias")), setting(config, "norm_eps", 1e-5)
    return nn.layer_norm(dim=setting(config, "hidden_size"), epsilon=epsilon, bias=bias, label=label)


@oc.configurable
def layer(config: Config, number: int, rope: Rope, is_local: bool) -> Callable[..., oc.Tensor]:
    """Attention, with a window on both sides if it is local, and a gated block, each after a norm."""
    width, heads, size = (
        setting(config, "hidden_size"),
        setting(config, "num_attention_heads"),
        head_size(config),
    )
    inner, bias = setting(config, "intermediate_size"), bool(config.get("attention_bias"))
    with oc.scope(f"layers.{number}"):
        # The embedding has a norm already.
        first = norm_of(config, "attn_norm") if number else None
        with oc.scope("attn"):
            project = nn.linear(in_dim=width, out_dim=[3, heads, size], bias=bias, label="Wqkv")
            out = nn.linear(in_dim=[heads, size], out_dim=width, bias=bias, label="Wo")
        second, mlp_bias = norm_of(config, "mlp_norm"), bool(config.get("mlp_bias"))
        with oc.scope("mlp"):
            into = nn.linear(in_dim=width, out_dim=[2, inner], bias=mlp_bias, label="Wi")
            back = nn.linear(in_dim=inner, out_dim=width, bias=mlp_bias, label="Wo")
    act, reach = activation(config, "hidden_activation"), setting(config, "local_attention", 128) // 2

    def apply(x: oc.Tensor, here: Places, mask: oc.Tensor | None) -> oc.Tensor:
        parts = project(x if first is None else first(x))
        q, k, v = (oc.einsum(f"... | {part}, h, d => ... | h, d", parts) for part in range(3))
        if is_local:
            other = oc.einsum("t | => t -> ", here.positions)
            near = oc.abs(other - here.positions) <= reach
            mask = near if mask is None else oc.logical_and(near, mask)
        x = x + out(nn.dot_product_attention(here.turned(rope, q), here.turned(rope, k), v, mask))
        value, gate = (oc.einsum(f"... | {part}, f => ... | f", into(second(x))) for part in range(2))
        return x + back(act(value) * gate)

    return apply


@oc.configurable
def predictions(config: Config, embed: oc.Block[..., oc.Tensor]) -> nn.Layer:
    """The scores of ids, by the embedding's vectors."""
    width, table = setting(config, "hidden_size"), embed.w
    act, bias = activation(config, "classifier_activation"), bool(config.get("classifier_bias"))
    with oc.scope("head"):
        dense = nn.linear(in_dim=width, out_dim=width, bias=bias, label="dense")
        norm = norm_of(config, "norm")
    if not config.get("decoder_bias", True):
        return lambda x: table @ norm(act(dense(x)))
    with oc.scope("decoder"):
        offset = oc.param("bias", 0.0, input=[], output=setting(config, "vocab_size"))
    return lambda x: table @ norm(act(dense(x))) + offset
