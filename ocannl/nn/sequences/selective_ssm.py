"""Selective state spaces, the recurrence of Mamba (Gu and Dao, 2023)."""

from __future__ import annotations

import numpy as np

import ocannl as oc
from ocannl.nn.activations import softplus
from ocannl.nn.layer import Init, Layer

Pair = tuple[oc.Tensor, oc.Tensor]


@oc.configurable
def selective_ssm(
    dim: int, *, states: int = 16, rank: int | None = None, init: Init = None, label: str = "ssm"
) -> Layer:
    """A linear recurrence of `states` numbers for each feature, whose steps depend on the input, by a scan
    that runs in parallel: batch, position | dim, shape kept; of a known number of positions.

    With a step size `s = softplus(w_s @ w_r @ x + b_s)` for each feature, the state of a feature becomes
    `exp(-exp(a) s) h + s x w_b @ x`, and gives `(w_c @ x) . h + d x`. The parameters are `label.w_r`: dim ->
    rank, by default dim / 16, `label.w_s`: rank -> dim, `label.b_s`: dim, of steps of 0.01; `label.w_b` and
    `label.w_c`: dim -> states; `label.a`: dim, states, the logarithms of 1, 2, ...; `label.d`: dim, at 1.
    `init` is the initial value of the weights.
    """
    rank = max(dim // 16, 1) if rank is None else rank
    with oc.scope(label):
        w_r = oc.param("w_r", init, input=dim, output=rank)
        w_s = oc.param("w_s", init, input=rank, output=dim)
        b_s = oc.param("b_s", float(np.log(np.expm1(0.01))), input=[], output=dim)
        w_b = oc.param("w_b", init, input=dim, output=states)
        w_c = oc.param("w_c", init, input=dim, output=states)
        a = oc.param("a", oc.log(1 + oc.range(states)), input=[], output=[dim, states])
        d = oc.param("d", 1.0, input=[], output=dim)

    def apply(x: oc.Tensor) -> oc.Tensor:
        step = softplus(w_s @ (w_r @ x) + b_s)
        keep = oc.exp(-oc.einsum("... | d; d, n => ... | d, n", step, oc.exp(a)))
        new = oc.einsum("... | d; ... | n => ... | d, n", step * x, w_b @ x)
        _, h = oc.associative_scan(_after, (keep, new))
        return oc.einsum("... | d, n; ... | n => ... | d", h, w_c @ x) + d * x

    return apply


def _after(one: Pair, other: Pair) -> Pair:
    """The recurrence `h = keep h + new` of one, and then of the other."""
    return one[0] * other[0], other[0] * one[1] + other[1]
