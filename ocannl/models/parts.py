"""Parts that open models share: attention over places, feed-forward blocks, activations."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add
from typing import Any

import ocannl as oc
from ocannl import nn
from ocannl.models.model import Config, setting
from ocannl.models.rope import Rope
from ocannl.nn.transformers.kv_cache import Attended, places, seen_mask
from ocannl.program.code import computing

ACTIVATIONS: dict[str, nn.Layer] = {
    "gelu": nn.gelu,
    "gelu_new": partial(nn.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(nn.gelu, approximate="tanh"),
    "quick_gelu": lambda x: x * oc.sigmoid(1.702 * x),
    "relu": oc.relu,
    "silu": nn.silu,
    "swish": nn.silu,
}


def activation(config: Config, *names: str) -> nn.Layer:
    """The activation that a configuration names. Raises `OcannlError` for one that does not exist."""
    found = next((config[name] for name in names if config.get(name)), "gelu")
    if found not in ACTIVATIONS:
        raise oc.OcannlError(f"there is no activation {found!r}; there are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[found]


@dataclass(frozen=True)
class Places:
    """Where the tokens of one call stand in their sequences, and what was kept of those before."""

    positions: oc.Tensor
    cache: nn.KVCache | None
    last: oc.Tensor | None = None
    """The number of the last token of each sequence, where others are padding."""
    tables: dict[Rope, tuple[oc.Tensor, oc.Tensor]] = field(default_factory=dict[Rope, Any])
    """Cosines and sines, once for all layers."""

    @staticmethod
    def of(
        ids: oc.Tensor, cache: nn.KVCache | None, owner: Hashable, last: oc.Tensor | None = None
    ) -> Places:
        """The places of ids: the next ones of the cache, or the first ones."""
        count = ids.shape.array[-1]
        if cache is None:
            return Places(places(0, count), None, last)
        own = cache.next(owner, count)
        return Places(own.positions(count), own, last)

    def known(self, *values: oc.Tensor) -> tuple[oc.Tensor, ...]:
        """Queries, keys and values. What a cache keeps of them is inferred in any case: so rotations find
        their axes known, by one inference.
        """
        if self.cache is not None:
            oc.infer(reduce(add, [computing(value.ir_value) for value in values]))
        return values

    def turned(self, rope: Rope, x: oc.Tensor) -> oc.Tensor:
        """Queries or keys with their positions."""
        if rope not in self.tables:
            self.tables[rope] = rope.tables(self.positions, self.last)
        return rope.turned(x, self.tables[rope])

    def seen(
        self, owner: Hashable, keys: oc.Tensor, values: oc.Tensor, window: int | None = None
    ) -> Attended:
        """The keys and values that a causal attention block looks at here."""
        if self.cache is not None:
            return self.cache.extended(owner, keys, values, window)
        return Attended(keys, values, seen_mask(self.positions, self.positions.shape.array[-1], window))


@oc.configurable
def gated(*, width: int, hidden: int, act: nn.Layer, bias: bool = False, label: str = "mlp") -> nn.Layer:
    """`down(act(gate(x)) * up(x))` (Shazeer, 2020): batch | width, shape kept."""
    with oc.scope(label):
        gate = nn.linear(in_dim=width, out_dim=hidden, bias=bias, label="gate_proj")
        up = nn.linear(in_dim=width, out_dim=hidden, bias=bias, label="up_proj")
        down = nn.linear(in_dim=hidden, out_dim=width, bias=bias, label="down_proj")
    return lambda x: down(act(gate(x)) * up(x))


def of_heads(norm: nn.Layer) -> nn.Layer:
    """A norm of the features of each head by itself."""

    def apply(x: oc.Tensor) -> oc.Tensor:
        return oc.einsum("..., h | d => ... | h, d", norm(oc.einsum("... | h, d => ..., h | d", x)))

    return apply


def same(x: oc.Tensor) -> oc.Tensor:
    """Stands in place of a norm where there is none."""
    return x


@oc.configurable
def tied_scores(w: oc.Tensor, bias: int | None = None) -> nn.Layer:
    """Scores of ids by their vectors, with a `bias` of so many numbers."""
    if bias is None:
        return lambda hidden: w @ hidden
    with oc.scope("lm_head"):
        b = oc.param("b", 0.0, input=[], output=bias)
    return lambda hidden: w @ hidden + b


def head_of(
    config: Config, embed: oc.Block[..., oc.Tensor], width: int, *, bias: bool = False
) -> Callable[..., oc.Tensor]:
    """The scores of ids: by the embedding's vectors where they are tied, else by `lm_head`."""
    if config.get("tie_word_embeddings"):
        return tied_scores(embed.w, setting(config, "vocab_size") if bias else None)
    return nn.linear(in_dim=width, out_dim=setting(config, "vocab_size"), bias=bias, label="lm_head")
