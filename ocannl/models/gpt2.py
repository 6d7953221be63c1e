"""GPT-2 (Radford et al., 2019)."""

from __future__ import annotations

from collections.abc import Callable

import ocannl as oc
from ocannl import nn
from ocannl.models.model import Array, Config, batch_of_ids, picked, setting
from ocannl.models.parts import Places, activation, head_of


def gpt2(config: Config) -> Callable[..., oc.Tensor]:
    """A language model; see `Model` for what it takes."""
    width, count = setting(config, "n_embd"), setting(config, "n_layer")
    vocabulary, positions = setting(config, "vocab_size"), setting(config, "n_positions")
    epsilon = setting(config, "layer_norm_epsilon", 1e-5)
    wte = nn.embedding(num=vocabulary, dim=width, label="wte")
    wpe = nn.embedding(num=positions, dim=width, label="wpe")
    layers = [layer(config, width, epsilon, number) for number in range(count)]
    norm, head = nn.layer_norm(dim=width, epsilon=epsilon, label="ln_f"), head_of(config, wte, width)

    def model(ids: oc.TensorLike, cache: nn.KVCache | None = None, at: oc.Tensor | None = None) -> oc.Tensor:
        ids = batch_of_ids(ids)
        here = Places.of(ids, cache, wte)
        x = wte(ids) + wpe(here.positions)
        for each in layers:
            x = each(x, here)
        return head(picked(norm(x), at))

    return model


@oc.configurable
def layer(config: Config, width: int, epsilon: float, number: int) -> Callable[..., oc.Tensor]:
    """Attention and a feed-forward block, each after a norm."""
    inner = setting(config, "n_inner", 4 * width)
    with oc.scope(f"h.{number}"):
        first, second = (nn.layer_norm(dim=width, epsilon=epsilon, label=label) for label in ("ln_1", "ln_2"))
        attend = attention(heads=setting(config, "n_head"), width=width, scale=score_scale(config, number))
        with oc.scope("mlp"):
            into = nn.linear(in_dim=width, out_dim=inner, label="c_fc")
            out = nn.linear(in_dim=inner, out_dim=width, label="c_proj")
    act = activation(config, "activation_function")

    def apply(x: oc.Tensor, here: Places) -> oc.Tensor:
        x = x + attend(first(x), here)
        return x + out(act(into(second(x))))

    return apply


def score_scale(config: Config, number: int) -> float:
    """The factor of the scores of a layer."""
    size = setting(config, "n_embd") // setting(config, "n_head")
    scale = size**-0.5 if setting(config, "scale_attn_weights", True) else 1.0
    return scale / (number + 1) if config.get("scale_attn_by_inverse_layer_idx") else scale


@oc.configurable
def attention(*, heads: int, width: int, scale: float) -> Callable[..., oc.Tensor]:
    """Causal attention, whose queries, keys and values are one product."""
    with oc.scope("attn"):
        project = nn.linear(in_dim=width, out_dim=[3, heads, width // heads], label="c_attn")
        out = nn.linear(in_dim=[heads, width // heads], out_dim=width, label="c_proj")

    def apply(x: oc.Tensor, here: Places) -> oc.Tensor:
        parts = project(x)
        queries, keys, values = (oc.einsum(f"... | {part}, h, d => ... | h, d", parts) for part in range(3))
        return out(nn.dot_product_attention(queries, *here.seen(project, keys, values), scale=scale))

    return apply


def gpt2_weights(config: Config, name: str, array: Array) -> dict[str, Array]:
    """An array of the file as its parameter has it: weights of layers are stored as in x out."""
    return {name: array.T if ".c_" in name and array.ndim == 2 else array}
