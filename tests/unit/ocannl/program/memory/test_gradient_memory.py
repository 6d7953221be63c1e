"""The meaning of gradients' memory, and gradients at kinks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.differentiable import TOTAL, Array, arrays_of

import ocannl as oc
from ocannl import train


def param(name: str, array: Array, **rows: Any) -> oc.Tensor:
    given: dict[str, Any] = {"output": list(array.shape), "input": [], "batch": [], **rows}
    return oc.param(name, array, **given, dtype=np.float64)


def total(tensor: oc.Tensor) -> oc.Tensor:
    return tensor.einsum(TOTAL)


def test_stop_gradient():
    (a,) = arrays_of((3,))
    p = param("p", a)
    loss = total(p * oc.stop_gradient(p * p) + oc.stop_gradient(oc.exp(p)))
    ctx = oc.Context.cpu()
    train.update_once(ctx, loss)
    np.testing.assert_allclose(ctx[p.grad], a * a)


def test_gradients_stop_at_a_whole_expression():
    (a,) = arrays_of((3,))
    p, q = param("p", a), param("q", a)
    loss = total(q * oc.stop_gradient(p))
    ctx = oc.Context.cpu()
    train.update_once(ctx, loss)
    np.testing.assert_allclose(ctx[q.grad], a)
    if p.grad in ctx:
        np.testing.assert_array_equal(ctx[p.grad], np.zeros(3))


def test_two_backprops_add_up():
    (a,) = arrays_of((3,))
    p = param("p", a)
    loss = total(p * p)
    ctx = oc.Context.cpu()
    once = loss.forward + oc.set(loss.grad, 1) + loss.backprop
    step = ctx.compile(once, name="accumulate")
    zero = ctx.compile(loss.zero_grads, name="zero")
    ctx.init_params(loss)
    zero()
    step()
    step()
    np.testing.assert_allclose(ctx[p.grad], 4 * a)
    zero()
    np.testing.assert_array_equal(ctx[p.grad], np.zeros(3))
    step()
    np.testing.assert_allclose(ctx[p.grad], 2 * a)


def test_two_backprops_in_one_routine():
    (a,) = arrays_of((3,))
    p = param("p", a)
    loss = total(p * p)
    code = loss.zero_grads + oc.set(loss.grad, 1) + loss.backprop + loss.backprop
    ctx = oc.Context.cpu()
    routine = ctx.compile(loss.forward + code, name="twice")
    ctx.init_params(loss)
    routine()
    routine()
    np.testing.assert_allclose(ctx[p.grad], 4 * a)


def test_two_losses_add_up():
    (a,) = arrays_of((3,))
    p = param("p", a)
    one, two = total(p * p), total(oc.exp(p))
    code = one.zero_grads + two.zero_grads
    for loss in (one, two):
        code += loss.forward + oc.set(loss.grad, 1) + loss.backprop
    ctx = oc.Context.cpu()
    routine = ctx.compile(code, name="two_losses")
    ctx.init_params(one)
    routine()
    np.testing.assert_allclose(ctx[p.grad], 2 * a + np.exp(a))


@pytest.mark.parametrize("seed_gradient", [1, 2.5, -1])
def test_gradient_of_the_loss_is_a_factor(seed_gradient: float):
    (a,) = arrays_of((3,))
    p = param("p", a)
    loss = total(p * p)
    ctx = oc.Context.cpu()
    code = loss.forward + loss.zero_grads + oc.set(loss.grad, seed_gradient) + loss.backprop
    routine = ctx.compile(code, name="factor")
    ctx.init_params(loss)
    routine()
    np.testing.assert_allclose(ctx[p.grad], seed_gradient * 2 * a)
    np.testing.assert_array_equal(ctx[loss.grad].reshape(()), seed_gradient)


def test_vector_jacobian_product():
    """A result that is not a number, from a gradient given as an array of weights."""
    (a, w) = arrays_of((3,), (3,))
    p = param("p", a)
    result = oc.sin(p)
    ctx = oc.Context.cpu()
    code = result.forward + result.zero_grads + oc.set(result.grad, oc.data(w)) + result.backprop
    routine = ctx.compile(code, name="vjp")
    ctx.init_params(result)
    routine()
    np.testing.assert_allclose(ctx[p.grad], w * np.cos(a))


def test_gradient_of_the_loss_from_the_context():
    (a,) = arrays_of((3,))
    p = param("p", a)
    loss = total(p * p)
    ctx = oc.Context.cpu()
    routine = ctx.compile(loss.forward + loss.backprop, name="backprop")
    ctx.init_params(loss)
    ctx[p.grad] = np.ones(3)
    ctx[loss.grad] = 3
    routine()
    np.testing.assert_allclose(ctx[p.grad], 1 + 6 * a)


def test_gradient_of_an_intermediate():
    (a,) = arrays_of((3,))
    p = param("p", a)
    middle = oc.exp(p)
    loss = total(middle * middle)
    ctx = oc.Context.cpu()
    gradient = middle.grad
    train.update_once(ctx, loss)
    np.testing.assert_allclose(ctx[gradient], 2 * np.exp(a))
    np.testing.assert_allclose(ctx[p.grad], 2 * np.exp(2 * a))


def test_gradient_of_an_intermediate_asked_for_later():
    (a,) = arrays_of((3,))
    p = param("p", a)
    middle = oc.exp(p)
    loss = total(middle * middle)
    ctx = oc.Context.cpu()
    train.update_once(ctx, loss)
    with pytest.raises(oc.UninitializedError):
        _ = ctx[middle.grad]
    train.update_once(ctx, loss)
    np.testing.assert_allclose(ctx[middle.grad], 2 * np.exp(a))


def test_gradient_in_an_expression():
    """A gradient is memory: it can be read in an expression of the same routine."""
    (a,) = arrays_of((3,))
    p = param("p", a)
    loss = total(p * p)
    norm = total(p.grad * p.grad)
    ctx = oc.Context.cpu()
    routine = ctx.compile(train.grad_update(loss) + oc.forward(norm), name="norm")
    ctx.init_params(loss)
    routine()
    np.testing.assert_allclose(ctx[norm].reshape(()), np.sum(4 * a * a))


@pytest.mark.parametrize("memory", ["gradient", "value"])
def test_axes_of_what_is_computed_from_memory_of_a_tensor(memory: str):
    """The shape is known while the program is being built."""
    w = param("w", np.array([1.0, 2.0, 3.0]), output=3)
    squares = w * w
    own = w.grad if memory == "gradient" else squares.value
    twice = 2 * own
    assert len(twice) == 3
    part = twice[1:]
    kept = part.value
    ctx = oc.Context.cpu()
    step = ctx.compile(train.grad_update(total(squares)) + oc.forward(part))
    ctx.init_params(w)
    step()
    np.testing.assert_array_equal(ctx[kept], [8, 12] if memory == "gradient" else [8, 18])


def test_mixed_precisions_have_gradients_of_their_own_precision():
    (a, b) = arrays_of((3,), (3,))
    p, q = oc.param("p", output=3, input=[], dtype=np.float32), param("q", b)
    loss = total(p * q)
    ctx = oc.Context.cpu()
    routine = ctx.compile(train.grad_update(loss), name="mixed")
    ctx.init_params(loss)
    ctx[p] = a
    routine()
    assert ctx[p.grad].dtype == np.float32
    assert ctx[q.grad].dtype == np.float64
    np.testing.assert_allclose(ctx[p.grad], b, rtol=1e-6)
    np.testing.assert_allclose(ctx[q.grad], a, rtol=1e-6)


def test_data_and_integers_have_no_part_in_it():
    (a,) = arrays_of((3,))
    p = param("p", a)
    loss = total(p * oc.data(np.arange(3)) + oc.data(np.ones(3, bool)))
    ctx = oc.Context.cpu()
    train.update_once(ctx, loss)
    np.testing.assert_allclose(ctx[p.grad], np.arange(3), rtol=1e-6)


def test_gradients_through_a_static_slice():
    """A slice at an index of the routine: only that slice gets a gradient."""
    (a,) = arrays_of((4, 3))
    i = oc.index("i", 4)
    p = oc.param("p", a, batch=[4], output=[3], input=[], dtype=np.float64)
    loss = total(p[i] * p[i])
    ctx = oc.Context.cpu()
    routine = ctx.compile(train.grad_update(loss), name="slice")
    ctx.init_params(loss)
    for at in range(4):
        routine(i=at)
        wanted = np.zeros((4, 3))
        wanted[at] = 2 * a[at]
        np.testing.assert_allclose(ctx[p.grad], wanted)


def test_the_gradient_at_a_tie_goes_to_the_first_operand():
    a = np.array([1.0, 2.0, 3.0])
    p, q = param("p", a), param("q", a)
    loss = total(oc.maximum(p, q) + 10 * oc.minimum(p, q))
    ctx = oc.Context.cpu()
    train.update_once(ctx, loss)
    np.testing.assert_array_equal(ctx[p.grad], np.full(3, 11.0))
    np.testing.assert_array_equal(ctx[q.grad], np.zeros(3))


def test_gradients_at_kinks_are_finite():
    p = param("p", np.zeros(3))
    loss = total(oc.relu(p) + oc.abs(p) + oc.sat01(p) + p**2 + p**0 + p**1)
    ctx = oc.Context.cpu()
    train.update_once(ctx, loss)
    np.testing.assert_array_equal(ctx[p.grad], np.ones(3))


def mlp_loss() -> tuple[oc.Tensor, list[oc.Tensor]]:
    (x, y) = arrays_of((6, 5, 3), (6, 5, 1))
    i = oc.index("i", 6)
    w1, b1, w2 = oc.param("w1"), oc.param("b1", 0.1, output=7), oc.param("w2")
    out = w2 @ oc.tanh(w1 @ oc.data(x, label="x")[i] + b1)
    return total((out - oc.data(y, label="y")[i]) ** 2) / 5, [w1, b1, w2]


SPLITS = pytest.mark.parametrize("how", ["whole", "update apart", "all apart", "zero first"])


@SPLITS
def test_routines_apart_mean_the_same(how: str):
    """Forward with backprop, and the update, in one routine or in several."""
    results: list[list[Array]] = []
    for split in ("whole", how):
        loss, params = mlp_loss()
        ctx = oc.Context.cpu()
        seed = loss.zero_grads + oc.set(loss.grad, 1)
        update = train.sgd_update(loss, learning_rate=0.05, momentum=0.9, weight_decay=1e-2)
        parts = {
            "whole": [train.grad_update(loss) + update],
            "update apart": [train.grad_update(loss), update],
            "all apart": [loss.forward, seed, loss.backprop, update],
            "zero first": [seed, loss.forward + loss.backprop, update],
        }[split]
        routines = [ctx.compile(part, name=f"part{k}") for k, part in enumerate(parts)]
        ctx.init_params(loss, seed=5)
        for _ in range(3):
            for at in range(6):
                for routine in routines:
                    routine(**({"i": at} if any(index.name == "i" for index in routine.indices) else {}))
        results.append([ctx[p] for p in params])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_a_gradient_that_is_not_a_number_is_not_hidden_by_a_zero():
    """`d sqrt(q) * 0` is 0 times infinity at 0, as `0 / q` is not a number; constants have no derivative."""
    q = oc.data(np.array([0.0, 4.0]), axes="o", label="q")
    for loss, expected in (
        (oc.sqrt(q) * 0, [np.nan, 0.0]),
        (0 * oc.recip(q), [np.nan, 0.0]),
        (q * 0 + oc.sign(q) * oc.log(q), [np.nan, 0.25]),
        (oc.where(q, oc.sqrt(q), 0.0), [np.nan, 0.25]),
        (oc.floor(q) * np.inf, [0.0, 0.0]),
        (oc.relu(q - 4) * np.nan, [0.0, 0.0]),
    ):
        gradient = oc.grad(loss.einsum(TOTAL), q)
        np.testing.assert_array_equal(oc.Context.cpu()[gradient], expected)
