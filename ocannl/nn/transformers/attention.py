"""Scaled dot-product attention between the positions of sequences (Vaswani et al., 2017)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import ocannl as oc
from ocannl.nn.dropout import dropout
from ocannl.nn.layer import Init, Layer, MaskedLayer, PositionalLayer
from ocannl.nn.softmax import softmax
from ocannl.nn.transformers.kv_cache import KVCache
from ocannl.program.arguments.checks import integer
from ocannl.program.eager.setting import is_eager
from ocannl.program.location import here
from ocannl.program.tensor_functions.remembered import remembered

MASKED = -1e9
"""The score of a masked position; finite, so that a row in which all are masked is no NaN."""

# Scores, and sums of values by their weights; the heads of queries are groups of those of keys and values.
PLAIN = "... s|hd; ... t|hd => ... s|t->h", "... s|t->h; ... t|hd => ... s|hd"
GROUPED = (
    "..., s | g&r, d; ..., t | g, d => ..., s | t -> g&r",
    "..., s | t -> g&r; ..., t | g, d => ..., s | g&r, d",
)


SEEN = "... | ... t -> ..."
"""The axis of scores over which weights sum to 1."""


class CrossAttention(Protocol):
    """Attention of the positions of `x` to those of `memory`; it has dropout if there is a `train_step`."""

    def __call__(
        self,
        x: oc.Tensor,
        memory: oc.Tensor,
        mask: oc.Tensor | None = None,
        train_step: oc.TensorLike | None = None,
    ) -> oc.Tensor: ...


def causal_mask(seq_len: int | None = None) -> oc.Tensor:
    """1 where a position may attend to another, which is where the other is not later; else 0: the shape is
    position | other position -> .

    Without `seq_len` its axes are as long as the sequences that it is used with.
    """
    seen = oc.einsum("t => t -> ", oc.range(seq_len or oc.Dim("seen")))
    own = oc.einsum("s => s | ", oc.range(seq_len or oc.Dim("own")))
    return (seen <= own).named("causal_mask")


def own_causal_mask(x: oc.Tensor) -> oc.Tensor:
    """The causal mask of a sequence for itself: batch, position | features. In eager mode it has the size
    that is known now, so that it is found again.
    """
    last = x.shape.batch[-1:] if is_eager() else ()
    return causal_mask(next((size for size in last if isinstance(size, int)), None))


@remembered
def dot_product_attention(
    queries: oc.Tensor,
    keys: oc.Tensor,
    values: oc.Tensor,
    mask: oc.Tensor | None = None,
    *,
    num_kv_heads: int | None = None,
    scale: float | None = None,
    soft_cap: float | None = None,
    weights_of: Layer | None = None,
) -> oc.Tensor:
    """Sums of values by the softmax of the products of queries and keys: batch, s | heads, d and twice batch,
    t | heads, d to batch, s | heads, d.

    A mask is s | t -> , with batch axes in front of `s` if there are any; where it is 0, `s` does not attend
    to `t`. Scores are multiplied by `scale`, by default `1 / sqrt(d)`; with `soft_cap` they become
    `soft_cap * tanh(score / soft_cap)` (Gemma 2). With `num_kv_heads`, heads of keys and values are fewer,
    each for a group of queries that follow each other. `weights_of` is a function of the scores in place of
    their softmax.
    """
    specs = PLAIN if num_kv_heads is None else GROUPED
    groups: dict[str, Any] = {} if num_kv_heads is None else {"g": num_kv_heads}
    scores = oc.einsum(specs[0], queries, keys, **groups)
    scores = scores / math.sqrt(queries.shape.array[-1]) if scale is None else scores * scale
    if soft_cap is not None:
        scores = soft_cap * oc.tanh(scores / soft_cap)
    if mask is not None:
        _check_mask(mask, scores)
        scores = oc.where(mask, scores, MASKED)
    weights = softmax(spec=SEEN)(scores) if weights_of is None else weights_of(scores)
    return oc.einsum(specs[1], weights, values, **groups)


def _check_mask(mask: oc.Tensor, scores: oc.Tensor) -> None:
    """Raises `ShapeError` for a mask without positions that are seen: an array in which these are the output
    axis, or one of padding whose positions would be those that look; and for one of another length.
    """
    ends = (*mask.shape.input[-1:], *scores.shape.input[-1:])
    lengths = [size for size in ends if isinstance(size, int)]
    if len({1, *lengths}) == 3:
        raise oc.ShapeError(
            here(
                f"the mask `{mask.label}` has {lengths[0]} positions that are seen, and there are "
                f"{lengths[1]} keys"
                "\n  hint: nn.causal_mask() without a length is as long as its use"
            )
        )
    if mask.shape.input == () and (mask.shape.batch or mask.shape.output):
        raise oc.ShapeError(
            here(
                f"a mask is `batch, s | t ->`, and {mask} has no input axis, the positions that are seen"
                '\n  hint: for an array of batch, s, t it is oc.data(array, axes="bbi"), or of an argument '
                '@oc.function(axes={"mask": "bbi"}); for padding, batch, t, '
                'oc.rearrange(seen, "b t -> b 1 t", axes="bbi")'
            )
        )


@oc.configurable
def cross_attention(
    *,
    num_heads: int,
    d_k: int,
    d_v: int,
    out_dim: oc.RowSizes | None = None,
    num_kv_heads: int | None = None,
    bias: bool = False,
    bias_kv: bool = False,
    zero_attn: bool = False,
    temperature: float = 1.0,
    dropout_rate: float = 0.0,
    pos_embed: Layer | PositionalLayer | None = None,
    init: Init = None,
    label: str = "attention",
) -> CrossAttention:
    """Multi-head attention of the positions of `x` to those of `memory`: batch, s | features and batch, t |
    other features to batch, s | out.

    Parameters: `label.w_q`: features -> num_heads, d_k, `label.w_k`: other features -> num_heads, d_k,
    `label.w_v`: other features -> num_heads, d_v, `label.w_o`: num_heads, d_v -> out; with `bias`, `b_q`,
    `b_k`, `b_v` and `b_o` of their output rows. With `bias_kv`, all attend to one position more, of the key
    `label.bias_k` and the value `label.bias_v`, which are parameters; with `zero_attn`, to one of zeros after
    that. Without `out_dim`, `out` is inferred from its use, such as a residual sum. With `num_kv_heads`, a
    divisor of `num_heads`, there are as many heads of keys and values, each for a group of queries that
    follow each other (Ainslie et al., 2023).

    Scores are divided by the square root of `d_k` and by `temperature`. `pos_embed` is applied to queries and
    keys. A mask is s | t -> , with batch axes in front of `s` if there are any; where it is 0, `s` does not
    attend to `t`. `dropout_rate` is that of the attention weights, `init` the initial value of all weights.
    """
    return _attention(
        num_heads=num_heads,
        d_k=d_k,
        d_v=d_v,
        out_dim=out_dim,
        num_kv_heads=num_kv_heads,
        bias=bias,
        bias_kv=bias_kv,
        zero_attn=zero_attn,
        temperature=temperature,
        dropout_rate=dropout_rate,
        pos_embed=pos_embed,
        init=init,
        label=label,
    )


@oc.configurable
def multi_head_attention(
    *,
    num_heads: int,
    d_k: int,
    d_v: int,
    out_dim: oc.RowSizes | None = None,
    num_kv_heads: int | None = None,
    bias: bool = False,
    bias_kv: bool = False,
    zero_attn: bool = False,
    temperature: float = 1.0,
    dropout_rate: float = 0.0,
    pos_embed: Layer | PositionalLayer | None = None,
    cache: KVCache | None = None,
    init: Init = None,
    label: str = "attention",
) -> MaskedLayer:
    """`cross_attention` of a sequence to itself: batch, position | features -> batch, position | out.

    With a `cache`, in code, `x` has the next positions of sequences, any number of them; each attends to
    itself and all before it, whose keys and values the cache keeps. A mask then is s | all positions -> .
    """
    attend = _attention(
        num_heads=num_heads,
        d_k=d_k,
        d_v=d_v,
        out_dim=out_dim,
        num_kv_heads=num_kv_heads,
        bias=bias,
        bias_kv=bias_kv,
        zero_attn=zero_attn,
        temperature=temperature,
        dropout_rate=dropout_rate,
        pos_embed=pos_embed,
        cache=cache,
        init=init,
        label=label,
    )
    return lambda x, mask=None, train_step=None: attend(x, x, mask, train_step)


def _same(x: oc.Tensor, positions: oc.Tensor | None = None) -> oc.Tensor:
    return x


def _with_one_more(
    keys: oc.Tensor, values: oc.Tensor, mask: oc.Tensor | None, key: oc.TensorLike, value: oc.TensorLike
) -> tuple[oc.Tensor, oc.Tensor, oc.Tensor | None]:
    """Keys, values and mask with one position behind the others, to which all positions attend."""

    def longer(of: oc.Tensor, one: oc.TensorLike) -> oc.Tensor:
        return oc.concat("... t | h, d; one | h, d => ... t^one | h, d", of, one, one=1)

    if mask is not None:
        mask = oc.concat("... s | t -> ; | one -> => ... s | t^one -> ", mask, 1, one=1)
    return longer(keys, key), longer(values, value), mask


def _attention(
    *,
    num_heads: int,
    d_k: int,
    d_v: int,
    out_dim: oc.RowSizes | None,
    num_kv_heads: int | None,
    bias: bool,
    bias_kv: bool,
    zero_attn: bool,
    temperature: float,
    dropout_rate: float,
    pos_embed: Layer | PositionalLayer | None,
    init: Init,
    label: str,
    cache: KVCache | None = None,
) -> CrossAttention:
    kv_heads = num_heads if num_kv_heads is None else integer(num_kv_heads, "num_kv_heads", 1)
    if integer(num_heads, "num_heads", 1) % kv_heads:
        raise oc.ArgumentError(f"{num_heads} heads are no groups of {kv_heads}")
    if cache is not None and (bias_kv or zero_attn):
        raise oc.ArgumentError("a cache keeps no position of bias_kv or zero_attn")
    d_k, d_v = integer(d_k, "d_k", 1), integer(d_v, "d_v", 1)
    with oc.scope(label):
        w_q = oc.param("w_q", init, output=[num_heads, d_k])
        w_k = oc.param("w_k", init, output=[kv_heads, d_k])
        w_v = oc.param("w_v", init, output=[kv_heads, d_v])
        w_o = oc.param("w_o", init, output=out_dim)
        b_q = oc.param("b_q", 0.0, output=[num_heads, d_k]) if bias else None
        b_k = oc.param("b_k", 0.0, output=[kv_heads, d_k]) if bias else None
        b_v = oc.param("b_v", 0.0, output=[kv_heads, d_v]) if bias else None
        b_o = oc.param("b_o", 0.0, output=out_dim) if bias else None
        bias_k = oc.param("bias_k", init, output=[kv_heads, d_k], input=[]) if bias_kv else None
        bias_v = oc.param("bias_v", init, output=[kv_heads, d_v], input=[]) if bias_kv else None
    weights_of = softmax(spec=SEEN, temperature=temperature, label=f"{label}_weights")
    drop = dropout(dropout_rate)
    embed: Callable[..., oc.Tensor] = _same if pos_embed is None else pos_embed
    groups = None if kv_heads == num_heads else kv_heads

    def linear(w: oc.Tensor, x: oc.Tensor, b: oc.Tensor | None) -> oc.Tensor:
        return w @ x if b is None else w @ x + b

    def more(
        keys: oc.Tensor, values: oc.Tensor, mask: oc.Tensor | None
    ) -> tuple[oc.Tensor, oc.Tensor, oc.Tensor | None]:
        if bias_k is not None and bias_v is not None:
            key, value = (oc.einsum("| h, d => one | h, d", b, one=1) for b in (bias_k, bias_v))
            keys, values, mask = _with_one_more(keys, values, mask, key, value)
        return _with_one_more(keys, values, mask, 0.0, 0.0) if zero_attn else (keys, values, mask)

    def attended(
        x: oc.Tensor, memory: oc.Tensor, mask: oc.Tensor | None
    ) -> tuple[oc.Tensor, oc.Tensor, oc.Tensor, oc.Tensor | None]:
        """Queries, keys, values and mask."""
        queries, keys, values = linear(w_q, x, b_q), linear(w_k, memory, b_k), linear(w_v, memory, b_v)
        if cache is None:
            return embed(queries), *more(embed(keys), values, mask)
        oc.infer(keys)
        if not keys.shape.batch:
            raise oc.ArgumentError(f"attention with a cache is along the last batch axis, found {x.shape}")
        count = keys.shape.array[-3]
        own = cache.next(w_k, count)
        place = (own.positions(count),) if pos_embed else ()
        seen = own.extended(w_k, embed(keys, *place), values)
        both = seen.mask if mask is None else oc.logical_and(seen.mask, mask)
        return embed(queries, *place), seen.keys, seen.values, both

    def all_heads(
        x: oc.Tensor,
        memory: oc.Tensor,
        mask: oc.Tensor | None = None,
        train_step: oc.TensorLike | None = None,
    ) -> oc.Tensor:
        result = dot_product_attention(
            *attended(x, memory, mask),
            num_kv_heads=groups,
            scale=1 / math.sqrt(d_k),
            weights_of=lambda scores: drop(weights_of(scores), train_step),
        )
        return linear(w_o, result, b_o)

    @remembered
    def pure(x: oc.Tensor, memory: oc.Tensor, mask: oc.Tensor | None) -> oc.Tensor:
        return all_heads(x, memory, mask)

    def apply(
        x: oc.Tensor,
        memory: oc.Tensor,
        mask: oc.Tensor | None = None,
        train_step: oc.TensorLike | None = None,
    ) -> oc.Tensor:
        is_dropped = train_step is not None and dropout_rate > 0
        is_pure = cache is None and pos_embed is None and not is_dropped
        return pure(x, memory, mask) if is_pure else all_heads(x, memory, mask, train_step)

    return apply
