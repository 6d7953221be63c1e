"""Scores of attention on a GPU that are kept before a factor scales them."""

from __future__ import annotations

import numpy as np
import pytest
from support.attention import Array, numbers
from support.nests import parse_module
from xdsl.dialects import arith

import ocannl as oc
from ocannl import nn
from ocannl.dialects.loops import GroupOp, ReduceOp

LENGTH, FEATURES = 128, 16
ROWS = "... | ... t -> ... => ... | ... 0 -> ..."


def program(scale: float, hidden: float, shows_maxima: bool = False) -> list[oc.Tensor]:
    """Attention whose first row sees nothing, with gradients, and perhaps the maxima of its scores."""
    q, k, v, g = (
        oc.data(numbers(1, LENGTH, 1, FEATURES, seed=seed), axes="bboo", label=label)
        for seed, label in enumerate("qkvg")
    )
    seen = oc.data(np.tri(LENGTH, k=-1) > 0, axes="bi", label="seen")
    maxima: list[oc.Tensor] = []

    def weights(scores: oc.Tensor) -> oc.Tensor:
        masked = oc.where(seen, scores, hidden)
        maxima.append(oc.stop_gradient(oc.einmax(ROWS, masked)))
        exps = oc.exp(masked - maxima[0])
        return exps / oc.einsum(ROWS, exps)

    y = nn.dot_product_attention(q, k, v, weights_of=weights, scale=scale)
    return [y, *oc.vjp(y, [q, k, v], g), *(maxima if shows_maxima else [])]


def run(ctx: oc.Context, results: list[oc.Tensor]) -> tuple[oc.Routine, list[Array]]:
    step = ctx.compile(sum(map(oc.forward, results), oc.Code()), name="step")
    step()
    return step, [np.asarray(ctx[result]) for result in results]


def scaled_sums(step: oc.Routine) -> int:
    """How many sums of products are scaled in groups."""
    groups = [op for op in parse_module(step.ir("loops")).walk() if isinstance(op, GroupOp)]
    products = [op for group in groups for op in group.walk() if isinstance(op, arith.MulfOp)]
    assert len(groups) == 3
    return sum(isinstance(op.lhs.owner, ReduceOp) for op in products)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("scale", "hidden", "shows_maxima", "count"),
    [
        (0.221, -1e9, False, 0),
        (0.25, float("-inf"), False, 0),
        # The user sees scaled maxima; the constants of this mask overflow.
        (0.221, -1e9, True, 3),
        (0.221, -3e38, False, 3),
    ],
)
def test_groups(scale: float, hidden: float, shows_maxima: bool, count: int):
    step, found = run(oc.Context.emulated_gpu(), program(scale, hidden, shows_maxima))
    assert scaled_sums(step) == count
    _, expected = run(oc.Context.cpu(threads=1), program(scale, hidden, shows_maxima))
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)
