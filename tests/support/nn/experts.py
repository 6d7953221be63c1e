"""Mixtures of experts, and their references in NumPy and PyTorch, token by token."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from support.nn.check import Array, Case, arrays_of

from ocannl import nn


def torch() -> Any:
    return pytest.importorskip("torch")


def taken(probs: Array, top_k: int, capacity: int | None) -> list[tuple[int, int, int]]:
    """The choices of one group of tokens that find a place, each a number, a token and its expert: first all
    first ones.
    """
    order = np.argsort(-probs, axis=-1, kind="stable")[:, :top_k]
    counts = np.zeros(probs.shape[-1], int)
    found: list[tuple[int, int, int]] = []
    for choice in range(top_k):
        for token, expert in enumerate(order[:, choice]):
            if capacity is None or counts[expert] < capacity:
                found.append((choice, token, int(expert)))
            counts[expert] += 1
    return found


def capacity_of(factor: float | None, tokens: int, experts: int, top_k: int) -> int | None:
    return (
        None if factor is None else max(1, min(tokens, math.ceil(factor * top_k * tokens / experts - 1e-9)))
    )


def mixture(
    p: Mapping[str, Any], tokens: Any, softmax: Callable[[Any], Any], act: Callable[[Any], Any], settings: Any
) -> Any:
    """The sums of experts for one group of tokens, over arrays of NumPy or PyTorch."""
    top_k, factor, normalize = settings["top_k"], settings["factor"], settings["normalize"]
    probs = softmax(tokens @ p["moe.router"].T)
    plain = probs if isinstance(probs, np.ndarray) else probs.detach().numpy()
    best = np.argsort(-plain, axis=-1, kind="stable")[:, :top_k]
    rows: list[Any] = [0.0] * len(plain)
    tokens_in, experts = plain.shape
    for _, token, expert in taken(plain, top_k, capacity_of(factor, tokens_in, experts, top_k)):
        hidden = p["moe.w_in"][expert] @ tokens[token]
        hidden = hidden + p["moe.b_in"][expert] if "moe.b_in" in p else hidden
        given = p["moe.w_out"][expert] @ act(hidden)
        given = given + p["moe.b_out"][expert] if "moe.b_out" in p else given
        share = sum(probs[token, other] for other in best[token]) if normalize else 1.0
        rows[token] = rows[token] + given * (probs[token, expert] / share)
    size = p["moe.w_out"].shape[1]
    return [row if getattr(row, "shape", ()) else 0 * p["moe.w_out"][0, :size, 0] for row in rows]


def numpy_softmax(x: Array) -> Array:
    exps = np.exp(x - x.max(-1, keepdims=True))
    return exps / exps.sum(-1, keepdims=True)


def numpy_swiglu(x: Array) -> Array:
    gate, value = np.split(x, 2)
    return gate / (1 + np.exp(-gate)) * value


def case(x: Array, groups: int = 1, swiglu: bool = False, **settings: Any) -> Case:
    """A mixture over tokens, batch, tokens, features, in groups."""
    top_k = settings.get("top_k", 2)
    own = {
        "top_k": top_k,
        "factor": settings.get("capacity_factor"),
        "normalize": settings.get("normalize", top_k > 1),
    }

    def numpy(p: Mapping[str, Array], x: Array) -> Array:
        act = numpy_swiglu if swiglu else lambda h: np.maximum(h, 0)
        parts = x.reshape(-1, x.shape[-2] // groups, x.shape[-1])
        rows = [row for part in parts for row in mixture(p, part, numpy_softmax, act, own)]
        return np.stack(rows).reshape(*x.shape[:-1], -1)

    def by_torch(p: Mapping[str, Any], x: Any) -> Any:
        functional = torch().nn.functional

        def gated(h: Any) -> Any:
            gate, value = h.chunk(2)
            return functional.silu(gate) * value

        act = gated if swiglu else functional.relu
        parts = x.reshape(-1, x.shape[-2] // groups, x.shape[-1])
        rows = [row for part in parts for row in mixture(p, part, lambda s: s.softmax(-1), act, own)]
        return torch().stack(rows).reshape(*x.shape[:-1], -1)

    activation = {"activation": nn.swiglu} if swiglu else {}
    block = nn.moe(num_experts=4, d_ff=6, groups=groups, **activation, **settings)
    # The size of what it gives is that of its input, as in a residual sum.
    return Case(lambda x: block(x) + 0 * x, [x], numpy, by_torch)


X1, X2, LONG = arrays_of((6, 3), (2, 5, 3), (2, 12, 3))

CASES = {
    "experts, nothing dropped": case(X2),
    "experts, blocks": case(arrays_of((1, 1, 3))[0]),
    "experts, capacity": case(X2, capacity_factor=1.0),
    "experts, one group": case(X1, capacity_factor=0.75),
    "experts, one expert of each token": case(X2, capacity_factor=1.25, top_k=1),
    "experts, all": case(X1, top_k=4),
    "experts, not normalized": case(X2, capacity_factor=1.0, normalize=False),
    "experts, biases": case(X2, capacity_factor=1.0, bias=True),
    "experts, gated": case(X1, capacity_factor=2.0, swiglu=True),
    "experts, groups": case(LONG, capacity_factor=0.6, groups=3),
}
