"""Attention with masks, groups of heads and dropout, as steps with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn

Array = NDArray[Any]
Attention = Callable[[oc.Tensor, oc.Tensor, oc.Tensor], oc.Tensor]

BATCH, QUERIES, KEYS, HEADS, FEATURES = 2, 48, 192, 4, 5


def numbers(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def leaf(label: str, value: Array) -> oc.Tensor:
    """A parameter whose first two axes are batch axes, and the others outputs."""
    return oc.param(label, value, batch=value.shape[:2], output=value.shape[2:], input=[])


def step_of(attend: Attention, kv_heads: int = HEADS, *, keys: int = KEYS, gradients: bool = True) -> oc.Code:
    q = leaf("q", numbers(BATCH, QUERIES, HEADS, FEATURES, seed=1))
    k, v = (leaf(label, numbers(BATCH, keys, kv_heads, FEATURES, seed=s)) for s, label in enumerate("kv", 2))
    y = attend(q, k, v).named("y")
    zeros = sum((oc.set(p.grad, 0) for p in (q, k, v)), oc.Code())
    return oc.forward(y) + zeros + y.backprop if gradients else oc.forward(y)


def mask(visible: Array) -> oc.Tensor:
    return oc.param("mask", visible.astype(np.float32), batch=[QUERIES], output=[], input=[KEYS])


def some_hidden() -> Array:
    """Whole blocks of keys are hidden from some rows, and all keys from one."""
    visible = np.random.default_rng(7).random((QUERIES, KEYS)) < 0.5
    visible[3:20, :64], visible[30, :] = False, False
    return visible


def dropped(q: oc.Tensor, k: oc.Tensor, v: oc.Tensor) -> oc.Tensor:
    drop = nn.dropout(0.3)
    weights = nn.softmax(spec="... | ... t -> ...", temperature=2.0)
    return nn.dot_product_attention(q, k, v, weights_of=lambda scores: drop(weights(scores), 3))


CASES: dict[str, tuple[Attention, int]] = {
    "plain": (nn.dot_product_attention, HEADS),
    "causal": (lambda q, k, v: nn.dot_product_attention(q, k, v, nn.causal_mask()), HEADS),
    "masked": (lambda q, k, v: nn.dot_product_attention(q, k, v, mask(some_hidden())), HEADS),
    "grouped": (lambda q, k, v: nn.dot_product_attention(q, k, v, num_kv_heads=2), 2),
    "grouped, causal": (
        lambda q, k, v: nn.dot_product_attention(q, k, v, nn.causal_mask(), num_kv_heads=2),
        2,
    ),
    "capped": (lambda q, k, v: nn.dot_product_attention(q, k, v, soft_cap=3.0), HEADS),
    "dropped": (dropped, HEADS),
}
