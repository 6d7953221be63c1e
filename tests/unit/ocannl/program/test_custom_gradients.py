"""Gradients of the user's own: what they mean, also twice, and their errors."""

from __future__ import annotations

import numpy as np
import pytest
from support.derivatives import clipped, data, product, refused, value, values
from support.tensors import total

import ocannl as oc
from ocannl import train

RNG = np.random.default_rng(11)


@oc.custom_gradient
def straight_through(x: oc.Tensor):
    return oc.round(x), lambda ct: ct


def test_straight_through():
    a = RNG.normal(size=5) * 3
    x = data(a)
    y = straight_through(x)
    found = values(y, oc.grad(total(y * y), x), oc.jvp(y * y, x, 1.0))
    np.testing.assert_allclose(found, [np.rint(a), 2 * np.rint(a), 2 * np.rint(a)])


def test_clipped_gradients():
    a = np.array([0.1, -5.0, 3.0])
    x = data(a)
    narrow = clipped(x, most=2.0)
    loss = total(narrow * narrow)
    (gradient,) = values(oc.grad(loss, x))
    np.testing.assert_allclose(gradient, np.clip(2 * a, -2, 2))
    p = oc.param("p", a, dtype=np.float64)
    ctx = oc.Context.cpu()
    train.update_once(ctx, total(clipped(p) * clipped(p)))
    np.testing.assert_allclose(ctx[p.grad], 2 * np.clip(a, -1, 1))


def test_several_arguments_are_reached_beside_other_paths():
    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=4)
    x, y = data(a), data(b)
    z = product(x, y) + x * y
    gx, gy, again = oc.vjp(z, x, 1.0), oc.vjp(z, y, 1.0), oc.grad(total(oc.vjp(z, y, x)), x)
    found = values(z, gx, gy, again, oc.jvp(z, [x, y], [1.0, 1.0]))
    wanted = [2 * a * b, 0 * a + 2 * b, 3 * a.sum(0), 6 * a, 2 * b + 3 * a]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other)


def test_gradients_of_gradients_go_through_the_rule():
    """By its expression, which has another custom gradient in it; and within the rule's own."""
    a = RNG.normal(size=4)

    @oc.custom_gradient
    def cubed(x: oc.Tensor):
        return x * x * x, lambda ct: product(ct, 3 * x * x)

    x = data(a)
    first = oc.grad(total(cubed(x)), x)
    second = oc.grad(total(first), x)
    third = oc.grad(total(second), x)
    np.testing.assert_allclose(values(first, second), [3 * a * a, 12 * a])
    np.testing.assert_allclose(value(third), np.full(4, 12.0))


def test_a_rule_may_use_derivatives():
    a = RNG.normal(size=4)

    @oc.custom_gradient
    def halved(x: oc.Tensor):
        y = oc.sin(x)
        return y, lambda ct: oc.vjp(y, x, ct) / 2

    x = data(a)
    y = halved(x)
    gradient = oc.vjp(y, x, 3.0)
    found = values(gradient, oc.jvp(y, x, 3.0), oc.grad(total(gradient), x))
    np.testing.assert_allclose(found, [1.5 * np.cos(a), 1.5 * np.cos(a), -1.5 * np.sin(a)])


def test_nothing_reaches_what_a_rule_leaves_out():
    a = RNG.normal(size=4)
    x, hidden = data(a), data(a + 1)

    @oc.custom_gradient
    def of_two(x: oc.Tensor, y: oc.Tensor):
        return x * y * hidden, lambda ct: (ct, None)

    y = of_two(x, x)
    np.testing.assert_allclose(values(*oc.vjp(y, [x, hidden], 2.0)), [np.full(4, 2.0), np.zeros(4)])
    np.testing.assert_allclose(value(oc.jvp(oc.stop_gradient(y), x, 1.0)), np.zeros(4))


def test_a_stable_logarithm_of_a_sum():
    a = np.array([[1000.0, 1000.0, -1000.0], [-3.0, 0.0, 2.0]])

    @oc.custom_gradient
    def logsumexp(x: oc.Tensor):
        top = oc.einmax("... | o => ... | 0", x)
        weights = oc.exp(x - top)
        total = oc.einsum("... | o => ... | 0", weights)
        return oc.log(total) + top, lambda ct: ct * weights / total

    x = oc.data(a)
    y = logsumexp(x)
    found = values(oc.grad(total(y), x), oc.jvp(y, x, x))
    weights = np.exp(a - a.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    np.testing.assert_allclose(found[0], weights, atol=1e-12)
    np.testing.assert_allclose(found[1], np.sum(weights * a, axis=1, keepdims=True), rtol=1e-9)


def test_a_cotangent_does_not_leave_its_rule():
    kept: list[oc.Tensor] = []

    def leak(x: oc.Tensor):
        return x, lambda ct: kept.append(ct) or ct

    y = oc.custom_gradient(leak)(data(np.ones(3)))
    assert "only inside its pullback" in refused(kept[0])
    np.testing.assert_allclose(value(y), np.ones(3))


def test_a_pullback_gives_one_tensor_for_each_argument():
    x = data(np.ones(3))
    with pytest.raises(ValueError, match="one tensor for each of 2 arguments, found 1"):
        oc.custom_gradient(lambda a, b: (a * b, lambda ct: ct))(x, x)
