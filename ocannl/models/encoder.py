"""Parts of encoders, in which each position sees all others."""

from __future__ import annotations

from collections.abc import Callable

import ocannl as oc
from ocannl import nn
from ocannl.models.model import Array, Config, batch_of_ids, setting
from ocannl.models.parts import activation


@oc.configurable
def attention(config: Config, *, inner: str) -> Callable[..., oc.Tensor]:
    """Attention to all positions that a mask, b, s | t -> , does not hide; `inner` names its projections."""
    width, heads = setting(config, "hidden_size"), setting(config, "num_attention_heads")
    size, bias = width // heads, setting(config, "qkv_bias", True)
    with oc.scope(f"attention.{inner}"):
        query, key, value = (
            nn.linear(in_dim=width, out_dim=[heads, size], bias=bias, label=label)
            for label in ("query", "key", "value")
        )
    with oc.scope("attention.output"):
        dense = nn.linear(in_dim=[heads, size], out_dim=width, label="dense")

    def apply(x: oc.Tensor, mask: oc.Tensor | None = None) -> oc.Tensor:
        return dense(nn.dot_product_attention(query(x), key(x), value(x), mask))

    return apply


@oc.configurable
def feed(config: Config) -> nn.Layer:
    """Two layers with an activation between."""
    width, inner = setting(config, "hidden_size"), setting(config, "intermediate_size")
    with oc.scope("intermediate"):
        into = nn.linear(in_dim=width, out_dim=inner, label="dense")
    with oc.scope("output"):
        out = nn.linear(in_dim=inner, out_dim=width, label="dense")
    act = activation(config, "hidden_act")
    return lambda x: out(act(into(x)))


def seen_by_all(mask: oc.TensorLike | Array | None) -> oc.Tensor | None:
    """The mask of attention, b, 0 | t -> , for one of ids: batch, position | , 0 where there is padding."""
    return None if mask is None else oc.einsum("b, t | => b, 0 | t -> ", batch_of_ids(mask))


def norm_of(config: Config, label: str) -> nn.Layer:
    """A layer norm over the features."""
    epsilon = setting(config, "layer_norm_eps", 1e-12)
    return nn.layer_norm(dim=setting(config, "hidden_size"), epsilon=epsilon, label=label)


def is_for(config: Config, *tasks: str) -> bool:
    """Whether a model was saved with the head for one of some tasks."""
    return any(name.endswith(tasks) for name in setting(config, "architectures", []))
