"""First and second derivatives of the functions of `nn` at kinks, at ties, at 0 and far out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn

Array = NDArray[Any]
Real = Any  # an mpmath number: the library has no types
TOTAL = "...|...->... => 0"
POINTS = np.array(
    [0.0, -0.0, 1e-300, -1e-9, 1e-3, -0.5, 1.0, -1.0, 3.0, 30.0, -30.0, 600.0, -600.0, 1e5, -1e5]
)


def derivatives(function: Callable[[oc.Tensor], oc.Tensor], x: Array) -> tuple[Array, Array, Array]:
    """The value of a sum of a function's elements, its gradient, and the gradient of the sum of that."""
    tensor = oc.data(x, axes="bo"[-x.ndim :], label="x")
    value = function(tensor)
    first = oc.grad(value.einsum(TOTAL), tensor)
    second = oc.grad(first.einsum(TOTAL), tensor)
    ctx = oc.Context.cpu(threads=1)
    step = ctx.compile(value.forward + first.forward + second.forward, name="derivatives")
    ctx.init_params(value)
    step()
    return np.asarray(ctx[value]), np.asarray(ctx[first]), np.asarray(ctx[second])


def sigmoid(x: Real) -> Real:
    return 1 / (1 + mpmath.exp(-x))


def slope(x: Real) -> Real:
    return sigmoid(x) * sigmoid(-x)


def gaussian(x: Real) -> Real:
    return mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)


POINTWISE: dict[str, tuple[Callable[[oc.Tensor], oc.Tensor], list[Callable[[Real], Real]]]] = {
    "sigmoid": (nn.sigmoid, [sigmoid, slope, lambda x: slope(x) * (1 - 2 * sigmoid(x))]),
    "softplus": (nn.softplus, [lambda x: mpmath.log1p(mpmath.exp(x)), sigmoid, slope]),
    "log_sigmoid": (
        nn.log_sigmoid,
        [lambda x: -mpmath.log1p(mpmath.exp(-x)), lambda x: sigmoid(-x), lambda x: -slope(x)],
    ),
    "silu": (
        nn.silu,
        [
            lambda x: x * sigmoid(x),
            lambda x: sigmoid(x) + x * slope(x),
            lambda x: slope(x) * (2 + x * (1 - 2 * sigmoid(x))),
        ],
    ),
    "gelu": (
        nn.gelu,
        [
            lambda x: x * mpmath.ncdf(x),
            lambda x: mpmath.ncdf(x) + x * gaussian(x),
            lambda x: gaussian(x) * (2 - x * x),
        ],
    ),
    "relu": (oc.relu, [lambda x: max(x, 0), lambda x: x > 0, lambda x: 0]),
    "tanh": (
        oc.tanh,
        [
            mpmath.tanh,
            lambda x: 1 - mpmath.tanh(x) ** 2,
            lambda x: -2 * mpmath.tanh(x) * (1 - mpmath.tanh(x) ** 2),
        ],
    ),
    "hinge": (nn.hinge, [lambda x: max(1 - x, 0), lambda x: -(x < 1), lambda x: 0]),
    "mse": (
        lambda x: nn.mse(x, oc.constant(1.0)),
        [lambda x: (x - 1) ** 2, lambda x: 2 * (x - 1), lambda x: 2],
    ),
    **{
        f"binary cross entropy with {t}": (
            lambda x, t=t: nn.bce_with_logits(x, oc.constant(t)),
            [lambda x, t=t: mpmath.log1p(mpmath.exp(x)) - t * x, lambda x, t=t: sigmoid(x) - t, slope],
        )
        for t in (0.0, 0.25, 1.0)
    },
}
LOSSES = {"hinge", "mse", *(name for name in POINTWISE if name.startswith("binary"))}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise(name: str):
    """Losses one by one: their mean is the element."""
    function, formulas = POINTWISE[name]
    if name in LOSSES:
        found = [
            np.concatenate([part.reshape(1) for part in each])
            for each in zip(
                *(derivatives(function, POINTS[i : i + 1]) for i in range(POINTS.size)), strict=True
            )
        ]
    else:
        found = derivatives(function, POINTS)
    with mpmath.workdps(400):
        for order, (got, formula) in enumerate(zip(found, formulas, strict=True)):
            exact = np.array([float(formula(mpmath.mpf(x))) for x in POINTS])
            np.testing.assert_allclose(got, exact, rtol=1e-14, atol=1e-14, err_msg=f"derivative {order}")


def test_softplus_trains_from_zero():
    """In forward mode too the slope at 0 is 1/2."""
    x = oc.data(np.zeros(3), axes="o", label="x")
    tangent = oc.jvp(nn.softplus(x), x, oc.data(np.ones(3), axes="o", label="t"))
    np.testing.assert_array_equal(oc.Context.cpu()[tangent], 0.5)


LOGITS = np.array(
    [[0.0, 0.0, 0.0], [1.0, 1.0, -1.0], [700.0, 0.0, -700.0], [1e5, 1e5, 0.0], [-1e5, -1e5, 0.0]]
)


def exact_softmax(x: Array) -> Array:
    with mpmath.workdps(60):
        exps = [[mpmath.exp(v) for v in row] for row in x]
        return np.array([[float(e / sum(row)) for e in row] for row in exps])


def test_cross_entropy_at_ties_and_far_out():
    """The gradient of the mean over the batch is (p - t) / batch, that of one of its columns p (d - p)."""
    ids = np.array([0, 1, 2, 1, 0])
    p, t = exact_softmax(LOGITS), np.eye(3)[ids]
    x = oc.data(LOGITS, axes="bo", label="x")
    loss = nn.cross_entropy(x, oc.data(ids, axes="b", label="ids"))
    first = oc.grad(loss, x)
    second = oc.grad(oc.einsum("b | 0 => 0", first), x)
    ctx = oc.Context.cpu(threads=1)
    ctx.compile(loss.forward + first.forward + second.forward, name="derivatives")()
    exact = LOGITS.max(1) + np.log(np.exp(LOGITS - LOGITS.max(1, keepdims=True)).sum(1))
    np.testing.assert_allclose(ctx[loss], [(exact - LOGITS[range(5), ids]).mean()], rtol=1e-15)
    np.testing.assert_allclose(ctx[first], (p - t) / 5, rtol=1e-15, atol=1e-16)
    np.testing.assert_allclose(ctx[second], p[:, :1] * (np.eye(3)[0] - p) / 5, rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("logarithm", [False, True])
def test_softmax_at_ties_and_far_out(logarithm: bool):
    """Of its first output: p0 (d - p), and of its logarithm d - p; the second derivatives of their sums."""
    layer = nn.log_softmax() if logarithm else nn.softmax()
    p, d = exact_softmax(LOGITS), np.eye(3)[0]
    _, first, second = derivatives(lambda x: oc.einsum("b | 0 => b |", layer(x)), LOGITS)
    p0 = p[:, :1]
    np.testing.assert_allclose(first, d - p if logarithm else p0 * (d - p), rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(second, 0, atol=1e-15)  # the gradient sums to 0 whatever the logits


@pytest.mark.parametrize("norm", [nn.layer_norm, nn.rms_norm], ids=["layer norm", "rms norm"])
def test_norms_of_equal_features(norm: Any):
    """With variance 0 the slope is 1 / sqrt(epsilon) times what it keeps, and nothing is NaN."""
    _, first, second = derivatives(
        lambda x: oc.einsum("b | 0 => b |", norm(epsilon=1e-4)(x) * 1.0), np.zeros((1, 4))
    )
    kept = np.eye(4)[:1] - (0.25 if norm is nn.layer_norm else 0)
    np.testing.assert_allclose(first, 100 * kept, rtol=1e-12)
    np.testing.assert_array_equal(second, 0)
