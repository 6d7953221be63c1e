"""Transformers (Vaswani et al., 2017): residual layers of attention and feed-forward blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import ocannl as oc
from ocannl.nn.dropout import dropout
from ocannl.nn.embedding import embedding
from ocannl.nn.layer import Init, Layer, MaskedLayer, TrainingLayer
from ocannl.nn.linear import linear
from ocannl.nn.normalization.norms import layer_norm
from ocannl.nn.transformers.attention import cross_attention, multi_head_attention, own_causal_mask
from ocannl.nn.transformers.positions import sinusoidal_positions
from ocannl.program.arguments.checks import integer
from ocannl.program.tensor_functions.remembered import remembered

L = TypeVar("L")


class Decoder(Protocol):
    """Layers over `x` with attention to `memory`; they have dropout if there is a `train_step`."""

    def __call__(
        self,
        x: oc.Tensor,
        memory: oc.Tensor,
        mask: oc.Tensor | None = None,
        memory_mask: oc.Tensor | None = None,
        train_step: oc.TensorLike | None = None,
    ) -> oc.Tensor: ...


@oc.configurable
def feed_forward(
    *,
    d_ff: int,
    activation: Layer = oc.relu,
    dropout_rate: float = 0.0,
    init: Init = None,
    label: str = "feed_forward",
) -> TrainingLayer:
    """`w2 @ dropout(activation(w1 @ x + b1)) + b2`: batch | features -> batch | out, through `d_ff` hidden
    features.

    `out` is inferred from its use.
    """
    with oc.scope(label):
        into, out = linear(out_dim=d_ff, init=init, label="into"), linear(init=init, label="out")
    drop = dropout(dropout_rate)
    return lambda x, train_step=None: out(drop(activation(into(x)), train_step))


class Residual(Protocol):
    """A residual connection around a part `f` of a layer."""

    def __call__(self, x: oc.Tensor, f: Layer, train_step: oc.TensorLike | None = None) -> oc.Tensor: ...


@oc.configurable
def residual(
    *,
    pre_norm: bool = True,
    dropout_rate: float = 0.0,
    shard: Mapping[Any, str] | None = None,
    label: str = "norm",
) -> Residual:
    """`x + dropout(f(norm(x)))` with `pre_norm` (Xiong et al., 2020), else `norm(x + dropout(f(x)))`; the
    shape is kept.

    With `shard={("batch", 1): "model"}` positions are in parts, but for the input of `f`, which is gathered:
    sequence parallel (Korthikanti et al., 2022).
    """
    norm, drop = layer_norm(label=label), dropout(dropout_rate)

    def in_parts(x: oc.Tensor) -> oc.Tensor:
        return x if shard is None else oc.shard(x, shard)

    def whole(x: oc.Tensor) -> oc.Tensor:
        return x if shard is None else oc.shard(x, {})

    def apply(x: oc.Tensor, f: Layer, train_step: oc.TensorLike | None = None) -> oc.Tensor:
        x = in_parts(x)
        if pre_norm:
            return in_parts(x + drop(f(whole(norm(x))), train_step))
        return in_parts(norm(x + drop(f(whole(x)), train_step)))

    return apply


@oc.configurable
def encoder_layer(
    *,
    num_heads: int,
    d_k: int,
    d_v: int,
    d_ff: int,
    bias: bool = False,
    pre_norm: bool = True,
    activation: Layer = oc.relu,
    dropout_rate: float = 0.0,
    pos_embed: Layer | None = None,
    init: Init = None,
    shard: Mapping[Any, str] | None = None,
    label: str = "layer",
) -> MaskedLayer:
    """Self-attention, with biases if `bias`, then a feed-forward block: batch, position | features, shape
    kept. `init` is the initial value of all weights; `shard` divides positions as in `residual`.
    """
    with oc.scope(label):
        attend = multi_head_attention(
            num_heads=num_heads,
            d_k=d_k,
            d_v=d_v,
            bias=bias,
            dropout_rate=dropout_rate,
            pos_embed=pos_embed,
            init=init,
        )
        feed = feed_forward(d_ff=d_ff, activation=activation, dropout_rate=dropout_rate, init=init)
        first, second = (
            residual(pre_norm=pre_norm, dropout_rate=dropout_rate, shard=shard, label=f"norm{k}")
            for k in (1, 2)
        )

    def apply(
        x: oc.Tensor, mask: oc.Tensor | None = None, train_step: oc.TensorLike | None = None
    ) -> oc.Tensor:
        x = first(x, lambda h: attend(h, mask, train_step), train_step)
        return second(x, lambda h: feed(h, train_step), train_step)

    return apply


@oc.configurable
def decoder_layer(
    *,
    num_heads: int,
    d_k: int,
    d_v: int,
    d_ff: int,
    bias: bool = False,
    pre_norm: bool = True,
    activation: Layer = oc.relu,
    dropout_rate: float = 0.0,
    init: Init = None,
    shard: Mapping[Any, str] | None = None,
    label: str = "layer",
) -> Decoder:
    """Self-attention, attention to a memory, both with biases if `bias`, then a feed-forward block: batch,
    position | features, shape kept. `shard` divides positions as in `residual`.
    """
    heads: dict[str, Any] = {"num_heads": num_heads, "d_k": d_k, "d_v": d_v, "bias": bias}
    with oc.scope(label):
        attend = multi_head_attention(**heads, dropout_rate=dropout_rate, init=init)
        look = cross_attention(**heads, dropout_rate=dropout_rate, init=init, label="memory")
        feed = feed_forward(d_ff=d_ff, activation=activation, dropout_rate=dropout_rate, init=init)
        first, second, third = (
            residual(pre_norm=pre_norm, dropout_rate=dropout_rate, shard=shard, label=f"norm{k}")
            for k in (1, 2, 3)
        )

    def apply(
        x: oc.Tensor,
        memory: oc.Tensor,
        mask: oc.Tensor | None = None,
        memory_mask: oc.Tensor | None = None,
        train_step: oc.TensorLike | None = None,
    ) -> oc.Tensor:
        x = first(x, lambda h: attend(h, mask, train_step), train_step)
        x = second(x, lambda h: look(h, memory, memory_mask, train_step), train_step)
        return third(x, lambda h: feed(h, train_step), train_step)

    return apply


@oc.configurable
def transformer_encoder(
    num_layers: int,
    num_heads: int,
    d_k: int,
    d_v: int,
    d_ff: int,
    *,
    bias: bool = False,
    pre_norm: bool = True,
    last_norm: bool | None = None,
    activation: Layer = oc.relu,
    dropout_rate: float = 0.0,
    pos_embed: Layer | None = None,
    init: Init = None,
    shard: Mapping[Any, str] | None = None,
    label: str = "encoder",
) -> MaskedLayer:
    """Layers of self-attention; then a norm with `pre_norm`, or as `last_norm` says: batch, position |
    features, shape kept. `init` is the initial value of all weights; `shard` divides positions as in
    `residual`.
    """
    return _encoder(**locals())  # the arguments: no other is local yet


def _encoder(**settings: Any) -> MaskedLayer:
    layers, last = _stack(encoder_layer, **settings)

    @remembered
    def apply(
        x: oc.Tensor, mask: oc.Tensor | None = None, train_step: oc.TensorLike | None = None
    ) -> oc.Tensor:
        result = x
        for layer in layers:
            result = layer(result, mask, train_step)
        return last(result) if last else result

    return apply


def _stack(
    layer: Callable[..., L],
    *,
    num_layers: int,
    label: str,
    pre_norm: bool,
    last_norm: bool | None,
    **settings: Any,
) -> tuple[list[L], Layer | None]:
    """Layers with the same settings and, if asked for, a last norm."""
    is_normed = pre_norm if last_norm is None else last_norm
    integer(num_layers, "num_layers")
    with oc.scope(label):
        layers = [layer(pre_norm=pre_norm, label=f"layer{k}", **settings) for k in range(1, num_layers + 1)]
        return layers, layer_norm(label="norm") if is_normed else None


@oc.configurable
def transformer_decoder(
    num_layers: int,
    num_heads: int,
    d_k: int,
    d_v: int,
    d_ff: int,
    *,
    bias: bool = False,
    pre_norm: bool = True,
    last_norm: bool | None = None,
    activation: Layer = oc.relu,
    dropout_rate: float = 0.0,
    init: Init = None,
    shard: Mapping[Any, str] | None = None,
    label: str = "decoder",
) -> Decoder:
    """Layers of self-attention and of attention to a memory; then a norm with `pre_norm`, or as `last_norm`
    says: batch, position | features, shape kept. Without a mask, self-attention is causal. `shard` divides
    positions as in `residual`.
    """
    layers, last = _stack(decoder_layer, **locals())  # the arguments: no other is local yet

    @remembered
    def apply(
        x: oc.Tensor,
        memory: oc.Tensor,
        mask: oc.Tensor | None = None,
        memory_mask: oc.Tensor | None = None,
        train_step: oc.TensorLike | None = None,
    ) -> oc.Tensor:
        result = x
        seen = own_causal_mask(x) if mask is None else mask
        for layer in layers:
            result = layer(result, memory, seen, memory_mask, train_step)
        return last(result) if last else result

    return apply


@oc.configurable
def decoder_only(
    num_layers: int,
    num_heads: int,
    d_k: int,
    d_v: int,
    d_ff: int,
    *,
    bias: bool = False,
    pre_norm: bool = True,
    last_norm: bool | None = None,
    activation: Layer = oc.relu,
    dropout_rate: float = 0.0,
    pos_embed: Layer | None = None,
    init: Init = None,
    shard: Mapping[Any, str] | None = None,
    label: str = "decoder",
) -> MaskedLayer:
    """An encoder whose mask is causal unless one is given: batch, position | features, shape kept. `shard`
    divides positions as in `residual`.
    """
    encode = _encoder(**locals())  # the arguments: no other is local yet
    return remembered(
        lambda x, mask=None, train_step=None: encode(
            x, own_causal_mask(x) if mask is None else mask, train_step
        )
    )


class Transformer(Protocol):
    """An encoder of a source and a decoder of a target; they have dropout if there is a `train_step`."""

    def __call__(
        self,
        source: oc.Tensor,
        target: oc.Tensor,
        mask: oc.Tensor | None = None,
        source_mask: oc.Tensor | None = None,
        train_step: oc.TensorLike | None = None,
    ) -> oc.Tensor: ...


@oc.configurable
def transformer(
    num_layers: int,
    num_heads: int,
    d_k: int,
    d_v: int,
    d_ff: int,
    *,
    num_decoder_layers: int | None = None,
    num: int | None = None,
    source_num: int | None = None,
    dim: int | None = None,
    bias: bool = False,
    pre_norm: bool = True,
    last_norm: bool | None = None,
    activation: Layer = oc.relu,
    dropout_rate: float = 0.0,
    init: Init = None,
    label: str = "transformer",
) -> Transformer:
    """The encoder-decoder of Vaswani et al. (2017): batch, s | features and batch, t | features to batch, t |
    features. The decoder looks at the encoded source; its self-attention is causal without a `mask`.
    `source_mask` hides positions of the source from both. There are as many layers of the decoder as of the
    encoder, or `num_decoder_layers`. `bias` and `last_norm` are those of both.

    With `num`, source and target are ids (batch, position |) of vocabularies of `source_num`, by default also
    `num`, and `num`: parts `embed_source` and `embed` give vectors of `dim` features, to which sinusoidal
    positions are added, and `head` gives batch, t | num scores. Raises `ArgumentError` for `num` without
    `dim`.
    """
    if num is not None and dim is None:
        raise oc.ArgumentError("a transformer of ids has embeddings, whose `dim` is given")
    shared: dict[str, Any] = {
        "bias": bias,
        "pre_norm": pre_norm,
        "last_norm": last_norm,
        "activation": activation,
        "dropout_rate": dropout_rate,
        "init": init,
    }
    decoder_layers = num_layers if num_decoder_layers is None else num_decoder_layers
    with oc.scope(label):
        embed_source = (
            None
            if num is None
            else embedding(num=source_num or num, dim=dim, init=init, label="embed_source")
        )
        embed = None if num is None else embedding(num=num, dim=dim, init=init, label="embed")
        encoder = transformer_encoder(num_layers, num_heads, d_k, d_v, d_ff, **shared)
        decoder = transformer_decoder(decoder_layers, num_heads, d_k, d_v, d_ff, **shared)
        head = None if num is None else linear(out_dim=num, init=init, label="head")
    place = sinusoidal_positions()

    def apply(
        source: oc.Tensor,
        target: oc.Tensor,
        mask: oc.Tensor | None = None,
        source_mask: oc.Tensor | None = None,
        train_step: oc.TensorLike | None = None,
    ) -> oc.Tensor:
        if embed_source is not None and embed is not None:
            source, target = place(embed_source(source)), place(embed(target))
        memory = encoder(source, source_mask, train_step)
        result = decoder(target, memory, mask, source_mask, train_step)
        return result if head is None else head(result)

    return apply
