"""Products with the Hessian of a model, against JAX and differences; steps and losses made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.derivatives import data, letters
from support.tensors import Array, total

import ocannl as oc
from ocannl import nn, train

RNG = np.random.default_rng(11)
STEP = 1e-5


def mlp_and_attention() -> dict[str, Callable[[Any, Any], Any]]:
    """The losses of two models in JAX, over a dictionary of parameters."""
    jnp = pytest.importorskip("jax.numpy")
    jax = pytest.importorskip("jax")

    def mlp(p: Any, x: Any) -> Any:
        h = jnp.tanh(x @ p["layer1.w"].T + p["layer1.b"])
        return jnp.mean((h @ p["layer2.w"].T + p["layer2.b"]) ** 2)

    def attention(p: Any, x: Any) -> Any:
        q, k, v = (jnp.einsum("hdi,bsi->bshd", p[f"attention.w_{n}"], x) for n in "qkv")
        scores = jnp.einsum("bshd,bthd->bsht", q, k) / np.sqrt(3)
        mixed = jnp.einsum("bsht,bthd->bshd", jax.nn.softmax(scores), v)
        return jnp.mean(jnp.einsum("ohd,bshd->bso", p["attention.w_o"], mixed) ** 2)

    return {"mlp": mlp, "attention": attention}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["mlp", "attention"])
def test_products_with_the_hessian(name: str):
    """Forward over reverse and reverse over reverse, against JAX."""
    jax = pytest.importorskip("jax")
    function = mlp_and_attention()[name]
    x = RNG.normal(size=(3, 4) if name == "mlp" else (2, 3, 4))
    if name == "mlp":
        first, second = nn.linear(out_dim=5, label="layer1"), nn.linear(out_dim=2, label="layer2")
        result = second(oc.tanh(first(oc.data(x))))
    else:
        result = nn.multi_head_attention(num_heads=2, d_k=3, d_v=3, out_dim=4)(oc.data(x))
    loss = nn.mean(result * result)
    params = oc.params(loss)
    oc.infer(loss)
    arrays = {k: RNG.normal(size=p.shape.array) for k, p in params.items()}
    steps = {k: RNG.normal(size=a.shape) for k, a in arrays.items()}
    directions = {k: oc.data(s, axes=letters(params[k]), label="v") for k, s in steps.items()}
    gradients = oc.grad(loss, params)
    forward = oc.jvp(gradients, params, directions)
    along = sum((total(g * directions[k]) for k, g in gradients.items()), oc.constant(0.0))
    reverse = oc.grad(along, params)
    ctx = oc.Context.cpu()
    code = [oc.forward(t) for t in (*gradients.values(), *forward.values(), *reverse.values())]
    routine = ctx.compile(sum(code, oc.Code()))
    for key, param in params.items():
        ctx[param] = arrays[key]
    routine()
    with jax.enable_x64(True):
        first, second = jax.jvp(lambda p: jax.grad(function)(p, x), (arrays,), (steps,))
    for key in params:
        np.testing.assert_allclose(ctx[gradients[key]], first[key], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(ctx[forward[key]], second[key], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(ctx[reverse[key]], second[key], rtol=1e-9, atol=1e-12)


def image_loss() -> oc.Tensor:
    images = oc.data(RNG.normal(size=(2, 4, 4, 2)), axes="bbbo")
    pooled = nn.max_pool2d()(oc.tanh(nn.conv2d(out_channels=3)(images)))
    return nn.mean(nn.linear(out_dim=2)(pooled) ** 3)


def word_loss() -> oc.Tensor:
    ids = oc.data(RNG.integers(0, 5, (2, 3)), axes="bb")
    weight = oc.data(np.ones(1), label="in f64")
    return nn.cross_entropy(nn.linear(out_dim=5)(nn.embedding(num=5, dim=4)(ids) * weight), ids)


def test_second_derivatives_of_products_with_zeros():
    """Rows with no zero, one, two of both signs, three."""
    array = np.array([[2.0, 3.0, -1.0], [2.0, 0.0, 3.0], [0.0, 3.0, -0.0], [0.0, 0.0, 0.0]])
    steps = np.array([1.0, -2.0, 0.5])
    x, directions = oc.data(array), oc.data(steps)
    slope = oc.grad(oc.prod(x, axes=1).sum(), x)
    forward, reverse = oc.jvp(slope, x, directions), oc.grad((slope * directions).sum(), x)
    ctx = oc.Context.cpu(1)
    ctx.compile(forward.forward + reverse.forward)()
    a, b, c = array.T
    t, u, v = steps
    wanted = np.stack([u * c + v * b, t * c + v * a, t * b + u * a], axis=1)
    np.testing.assert_allclose([ctx[forward], ctx[reverse]], [wanted, wanted], atol=1e-14)


@pytest.mark.parametrize("make", [image_loss, word_loss])
def test_products_with_the_hessian_are_differences_of_gradients(make: Callable[[], oc.Tensor]):
    loss = make()
    params = oc.params(loss)
    oc.infer(loss)
    arrays = {k: RNG.normal(size=p.shape.array) for k, p in params.items()}
    steps = {k: RNG.normal(size=a.shape) for k, a in arrays.items()}
    directions = {k: oc.data(s, axes=letters(params[k]), label="v") for k, s in steps.items()}
    products = oc.jvp(oc.grad(loss, params), params, directions)
    ctx = oc.Context.cpu()
    backward = ctx.compile(train.grad_update(loss))
    routine = ctx.compile(sum(map(oc.forward, products.values()), oc.Code()))

    def gradients(distance: float) -> dict[str, Array]:
        for key, param in params.items():
            ctx[param] = arrays[key] + distance * steps[key]
        backward()
        return {key: ctx[param.grad] for key, param in params.items()}

    above, below = gradients(STEP), gradients(-STEP)
    gradients(0)
    routine()
    for key, found in products.items():
        np.testing.assert_allclose(ctx[found], (above[key] - below[key]) / (2 * STEP), rtol=1e-5, atol=1e-7)


def test_a_hessian_free_step():
    """Conjugate gradients with products of the Hessian, as one routine: one step solves a quadratic loss."""
    root, goal = RNG.normal(size=(4, 4)), RNG.normal(size=4)
    w = oc.param("w", np.zeros(4), dtype=np.float64)
    error = oc.data(root, axes="oi") @ w - data(goal)
    loss = total(error * error)
    gradient = oc.grad(loss, w)

    def product(v: oc.Tensor) -> oc.Tensor:
        return oc.jvp(gradient, w, v) + 1e-9 * v

    step, rest = oc.constant(0.0), -gradient
    direction = rest
    for _ in range(4):
        curved = product(direction)
        size = total(rest * rest)
        rate = size / total(direction * curved)
        step, rest = step + rate * direction, rest - rate * curved
        direction = rest + total(rest * rest) / size * direction
    ctx = oc.Context.cpu()
    routine = ctx.compile(oc.set(w, w + step))
    ctx.init_params(loss)
    routine()
    np.testing.assert_allclose(ctx[w], np.linalg.solve(root, goal), rtol=1e-4)


def test_a_gradient_penalty_trains():
    """The norm of a gradient with respect to the inputs is a loss, also alone: then biases get zeros."""
    x = oc.data(RNG.normal(size=(16, 3)), label="x")
    hidden, out = nn.linear(out_dim=8, label="hidden"), nn.linear(out_dim=1, label="out")
    score = out(oc.tanh(hidden(x)))
    slope = oc.grad(total(score), x)
    norm = oc.sqrt(oc.einsum("... | o => ... | 0", slope * slope) + 1e-12)
    penalty = nn.mean((norm - 1) * (norm - 1))
    ctx = oc.Context.cpu()
    step = ctx.compile(train.grad_update(penalty) + train.sgd_update(penalty, learning_rate=0.1))
    ctx.init_params(penalty, seed=1)
    losses: list[float] = []
    for _ in range(30):
        step()
        losses.append(float(ctx[penalty]))
    assert losses[-1] < 0.5 * losses[0]
    assert not np.any(ctx[oc.params(penalty)["out.b"].grad])
