"""Scaled dot-product attention between the positions of sequences (Vaswani et al., 2017)."""

from __future__ import annotations

import math
from typing import Protocol

import ocannl as oc
from ocannl.nn.dropout import dropout
from ocannl.nn.layer import Layer, MaskedLayer
from ocannl.nn.softmax import softmax

MASKED = -1e9
"""The score of a masked position; finite, so that a row in which all are masked is no NaN."""


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


def cross_attention(
    *,
    num_heads: int,
    d_k: int,
    d_v: int,
    out_dim: oc.RowSizes | None = None,
    dropout_rate: float = 0.0,
    pos_embed: Layer | None = None,
    label: str = "attention",
) -> CrossAttention:
    """Multi-head attention of the positions of `x` to those of `memory`: batch, s | features and batch, t |
    other features to batch, s | out.

    Parameters, without biases: `label.w_q`: features -> num_heads, d_k, `label.w_k`: other features ->
    num_heads, d_k, `label.w_v`: other features -> num_heads, d_v, `label.w_o`: num_heads, d_v -> out. Without
    `out_dim`, `out` is inferred from its use, such as a residual sum. `pos_embed` is applied to queries and
    keys. A mask is s | t -> , with batch axes in front of `s` if there are any; where it is 0, `s` does not
    attend to `t`. `dropout_rate` is that of the attention weights.
    """
    with oc.scope(label):
        w_q, w_k = oc.param("w_q", output=[num_heads, d_k]), oc.param("w_k", output=[num_heads, d_k])
        w_v, w_o = oc.param("w_v", output=[num_heads, d_v]), oc.param("w_o", output=out_dim)
    weights_of = softmax(spec="... | ... t -> ...", label=f"{label}_weights")
    drop = dropout(dropout_rate)
    embed: Layer = pos_embed or (lambda x: x)

    def apply(
        x: oc.Tensor,
        memory: oc.Tensor,
        mask: oc.Tensor | None = None,
        train_step: oc.TensorLike | None = None,
    ) -> oc.Tensor:
        queries, keys, values = embed(w_q @ x), embed(w_k @ memory), w_v @ memory
        scores = oc.einsum("... s|hd; ... t|hd => ... s|t->h", queries, keys) / math.sqrt(d_k)
        if mask is not None:
            scores = oc.where(mask, scores, MASKED)
        weights = drop(weights_of(scores), train_step)
        return w_o @ oc.einsum("... s|t->h; ... t|hd => ... s|hd", weights, values)

    return apply


def multi_head_attention(
    *,
    num_heads: int,
    d_k: int,
    d_v: int,
    out_dim: oc.RowSizes | None = None,
    dropout_rate: float = 0.0,
    pos_embed: Layer | None = None,
    label: str = "attention",
) -> MaskedLayer:
    """`cross_attention` of a sequence to itself: batch, position | features -> batch, position | out."""
    attend = cross_attention(
        num_heads=num_heads,
        d_k=d_k,
        d_v=d_v,
        out_dim=out_dim,
        dropout_rate=dropout_rate,
        pos_embed=pos_embed,
        label=label,
    )
    return lambda x, mask=None, train_step=None: attend(x, x, mask, train_step)
