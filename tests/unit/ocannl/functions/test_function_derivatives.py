"""Derivatives of functions of arrays, against finite differences and by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.tensors import Array, arrays_of, param, total

import ocannl as oc
from ocannl import nn, train

CTX = oc.Context.cpu(threads=1)
X, Y = arrays_of((3,), (2, 3))


def product(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
    return total(oc.sin(x) * y).einsum("0 => ")


def tensors(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
    return oc.sin(x) * y * y


F = oc.function(product, ctx=CTX)
G = oc.function(tensors, ctx=CTX)


def test_gradients():
    of_x, of_y = (np.cos(X) * Y).sum(0), np.sin(X) * np.ones_like(Y)
    np.testing.assert_allclose(oc.grad(F)(X, Y), of_x)
    np.testing.assert_allclose(oc.grad(F, argnums=1)(X, y=Y), of_y)
    np.testing.assert_allclose(oc.grad(F, 1)(X, Y), of_y)
    with pytest.raises(oc.ArgumentError, match="numbers of arguments once"):
        oc.grad(F, 1, argnums=0)
    both = oc.grad(F, argnums=(0, 1))(X, Y)
    np.testing.assert_allclose(both[0], of_x)
    np.testing.assert_allclose(both[1], of_y)
    value, slope = F.value_and_grad(X, Y)
    np.testing.assert_allclose(value, (np.sin(X) * Y).sum())
    np.testing.assert_allclose(slope, of_x)
    np.testing.assert_allclose(
        oc.grad(oc.grad(lambda x: oc.sin(x)))(0.5), -np.sin(np.float32(0.5)), rtol=1e-6
    )


def test_arguments_without_names_have_numbers():
    """Those of `*xs`, of which each is one of the function."""
    f = oc.function(lambda *xs: product(*xs), ctx=CTX)
    of_x, of_y = F.vjp((X, Y))
    np.testing.assert_array_equal(oc.grad(f)(X, Y), of_x)
    np.testing.assert_array_equal(oc.grad(f, argnums=1)(X, Y), of_y)
    for found, wanted in zip(oc.grad(f, argnums=(-1, 0))(X, Y), (of_y, of_x), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(f.jvp((X, Y), (X, Y)), F.jvp((X, Y), (X, Y)))
    g = oc.function(lambda x, *more: oc.sin(x) * more[0] * more[1], ctx=CTX)
    np.testing.assert_array_equal(oc.jacobian(g, argnums=2)(X, Y, Y), oc.jacobian(g, argnums=1)(X, Y, Y))
    by_name = oc.function(lambda x, y, z: oc.sin(x) * y * z, ctx=CTX)
    np.testing.assert_array_equal(oc.jacobian(g, 1)(X, Y, Y), oc.jacobian(by_name, 1)(X, Y, Y))
    with pytest.raises(oc.ArgumentError, match="has 2 arguments, so none of number 2"):
        oc.grad(f, argnums=2)(X, Y)


def test_gradients_of_tensors_stay():
    w = param("w", X)
    CTX.init_params(w)
    np.testing.assert_allclose(CTX[oc.grad(product(w, oc.data(Y)), w)], (np.cos(X) * Y).sum(0))
    np.testing.assert_allclose(CTX[oc.jvp(w * w, w, 1.0)], 2 * X)
    np.testing.assert_allclose(CTX[oc.vjp(w * w, w, 3.0)], 6 * X)


def test_gradients_in_the_form_of_arguments():
    loss = oc.function(lambda p, scale: scale * total(p["a"] * p["b"][0]).einsum("0 => "), ctx=CTX)
    found = oc.grad(loss)({"a": X, "b": [X + 1]}, 2.0)
    np.testing.assert_allclose(found["a"], 2 * (X + 1))
    np.testing.assert_allclose(found["b"][0], 2 * X)


def test_products_with_vectors():
    dx, dy = arrays_of((3,), (2, 3), seed=5)
    (cotangent,) = arrays_of((2, 3), seed=7)
    slopes = np.cos(X) * Y * Y, 2 * np.sin(X) * Y
    for several in (tuple, list):
        found = G.jvp(several((X, Y)), several((dx, dy)))
        np.testing.assert_allclose(found, slopes[0] * dx + slopes[1] * dy)
    for found in (G.vjp((X, Y), cotangent), oc.vjp(G, (X, Y), cotangent), G.vjp([X, Y], cotangent)):
        np.testing.assert_allclose(found[0], (cotangent * slopes[0]).sum(0))
        np.testing.assert_allclose(found[1], cotangent * slopes[1])
    one = oc.function(lambda x: {"twice": 2 * x, "square": x * x}, ctx=CTX)
    found = oc.jvp(one, X, dx)
    np.testing.assert_allclose(found["square"], 2 * X * dx)
    np.testing.assert_allclose(one.vjp(X, {"twice": dx, "square": X}), 2 * dx + 2 * X * X)


def test_integers_beside_floats_have_no_gradients():
    """Labels, flags and static arguments: None stands for them, and for what does not change."""
    (x,) = arrays_of((4, 3))
    ids, of_ids = np.array([0, 2, 1, 1]), (np.eye(3)[[0, 2, 1, 1]] - softmax(x)) / -4

    def loss(x: oc.Tensor, ids: oc.Tensor, reduction: str = "mean") -> oc.Tensor:
        return nn.cross_entropy(x, ids, reduction=reduction)

    f = oc.function(loss, ctx=CTX)
    for args in ((x, ids), (x, ids, "mean")):
        found = f.vjp(args, 2.0)
        np.testing.assert_allclose(found[0], 2 * of_ids)
        assert all(gradient is None for gradient in found[1:])
    np.testing.assert_allclose(oc.jacobian(f)(x, ids), of_ids)
    np.testing.assert_allclose(f.jvp((x, ids), (x, None)), (x * of_ids).sum())
    batch = oc.function(lambda batch: loss(batch["x"], batch["ids"]), ctx=CTX)
    found = oc.grad(batch)({"x": x, "ids": ids})
    np.testing.assert_allclose(found["x"], of_ids)
    assert found["ids"] is None
    kept = oc.function(lambda x, keep: oc.where(keep, x, 0.0), ctx=CTX)
    np.testing.assert_allclose(kept.vjp((x, x > 0), x)[0], np.maximum(x, 0))
    for call in (lambda: f.jvp((x, ids), (x, ids)), lambda: oc.grad(f, 1)(x, ids)):
        with pytest.raises(oc.OcannlError, match="`ids` holds integers"):
            call()


def softmax(x: Array) -> Array:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


@pytest.mark.parametrize("shape", [(3,), (2, 5), ()])
def test_a_cotangent_of_another_size(shape: tuple[int, ...]):
    with pytest.raises(oc.ShapeError, match=r"of the result, 2\|3; found one of \d+ elements") as caught:
        G.vjp((X, Y), np.ones(shape))
    assert str(caught.value).startswith(f"{__file__}:")


def test_a_cotangent_that_is_turned():
    message = r"`cotangent` has the shape \(2, 3\), found an array of \(3, 2\)"
    with pytest.raises(oc.ShapeError, match=message):
        G.vjp((X, Y), np.ones((3, 2)))


def test_axes_are_those_of_the_function():
    (image, weights) = arrays_of((2, 4, 4, 3), (3, 5))
    w = oc.param("w", weights.T, dtype=np.float64)
    f = oc.function(lambda x: w @ x, ctx=CTX, axes={"x": "bbbo"})
    np.testing.assert_allclose(f.jvp(image, image), image @ weights)
    np.testing.assert_allclose(f.vjp(image, image @ weights), image @ weights @ weights.T)


@pytest.mark.parametrize("result", ["more", "fewer"])
def test_jacobians(result: str):
    (a,) = arrays_of((5, 3) if result == "more" else (2, 3))
    w = oc.param("w", a, dtype=np.float64)
    f = oc.function(lambda x: oc.sin(w @ x), ctx=CTX)
    np.testing.assert_allclose(oc.jacobian(f)(X), np.cos(a @ X)[:, None] * a)


def test_a_jacobian_of_several_axes():
    found = oc.jacobian(G, argnums=1)(X, Y)
    wanted = np.zeros((2, 3, 2, 3))
    for place in np.ndindex(2, 3):
        wanted[place + place] = 2 * np.sin(X[place[1]]) * Y[place]
    np.testing.assert_allclose(found, wanted)


def test_a_hessian():
    (a,) = arrays_of((3, 3))
    w = oc.param("w", a, dtype=np.float64)
    f = oc.function(lambda x: total(x * (w @ x) + x**3).einsum("0 => "), ctx=CTX)
    np.testing.assert_allclose(oc.hessian(f)(X), a + a.T + np.diag(6 * X))
    assert oc.hessian(oc.function(lambda x: x * x * x, ctx=CTX))(np.array(0.5)).tolist() == 3.0


def wrong(value: object) -> Any:
    """A value of a type that is not taken."""
    return value


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: oc.grad(oc.function(lambda x: [x], ctx=CTX))(1.0), "found that <lambda> returns a list"),
        (lambda: oc.grad(F, argnums=2)(X, Y), "product has 2 arguments, so none of number 2"),
        (lambda: oc.grad(F, argnums=wrong("y"))(X, Y), "the number of an argument"),
        (lambda: oc.jacobian(G, argnums=wrong(1.5)), "the number of an argument"),
        (lambda: oc.checkpoint(wrong(3)), "oc.checkpoint takes a function of tensors, found 3"),
        (lambda: G.jvp((X, Y), (X,)), "each argument has one tangent; found 2 and 1"),
        (lambda: G.jvp((X, Y), (X, [Y])), "the tangents have the form of the arguments of tensors"),
        (lambda: G.vjp((X, Y), [Y, Y]), "each result has one cotangent; found 1 and 2"),
        (lambda: oc.jacobian(G)(oc.data(X), Y), "a Jacobian is computed from arrays: in expressions"),
        (lambda: oc.jacobian(G, argnums=2)(X, Y), "tensors has 2 arguments, so none of number 2"),
        (lambda: oc.jacobian(G)([X], Y), "a Jacobian is with respect to one array"),
        (lambda: oc.jacobian(oc.function(lambda x: [x], ctx=CTX))(X), "<lambda> returns a list"),
    ],
)
def test_misuse(call: Any, message: str):
    with pytest.raises(oc.ArgumentError, match=message) as caught:
        call()
    assert str(caught.value).startswith(f"{__file__}:")


def network(checkpointed: bool) -> tuple[list[Array], str]:
    layers = [nn.mlp_layer(hid_dim=8, label=f"l{k}") for k in range(3)]
    w = param("scale", np.array([1.5]))

    def block(x: oc.Tensor) -> oc.Tensor:
        for layer in layers:
            x = layer(x)
        return x * w

    apply = oc.checkpoint(block) if checkpointed else block
    ctx = oc.Context.cpu(threads=1)

    def loss(x: oc.Tensor) -> oc.Tensor:
        return total(apply(apply(x + w)) ** 2).einsum("0 => ")

    (x,) = arrays_of((4, 8))
    f = oc.function(loss, ctx=ctx, name="loss")
    every = oc.function(lambda x: oc.grad(loss(x), oc.params(loss(x), trained=True)), ctx=ctx)
    return [f(x), oc.grad(f)(x), *every(x).values()], f.lower(x).ir()


Function = Callable[[oc.Tensor], oc.Tensor]


def nested(again: Callable[[Function], Function], x: oc.Tensor) -> oc.Tensor:
    """A function in a function, and both in a scan. The weight is read before them and inside."""
    w = param("weight", np.array([0.7]))

    def inner(x: oc.Tensor) -> oc.Tensor:
        return oc.sin(w * x) * x

    def cell(carry: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        y = again(lambda x: again(inner)(x) * oc.exp(carry) + w)(x * w)
        return oc.tanh(y), y

    return oc.scan(cell, 0.1, x)[0]


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("wrt", ["data", "parameter"])
def test_a_checkpoint_has_the_same_second_derivatives(wrt: str):
    """They go through what the first derivatives computed again."""
    direction, found = np.array([[0.5, -1.0, 2.0]]), list[list[Array]]()
    for again in (oc.checkpoint, lambda f: f):
        x = oc.data(np.array([[0.3, -0.2, 0.9]]), axes="bb", label="x")
        loss = nested(again, x).sum()
        at = x if wrt == "data" else oc.params(loss)["weight"]
        slope = oc.grad(loss, at)
        by = oc.data(direction, axes="bb") if wrt == "data" else 1.0
        second = oc.grad((slope * by).sum(), at)
        CTX.init_params(second)
        found.append([CTX[t] for t in (slope, second, oc.jvp(slope, at, by))])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert np.abs(found[0][1]).min() > 1e-3


@pytest.mark.parametrize("where", ["call", "scan", "own counter"])
def test_a_checkpoint_leaves_out_what_dropout_has_left_out(where: str):
    """The gradient of what is 0 is 0, and that of what is kept is twice the factor."""

    def dropped(x: oc.Tensor, k: oc.Tensor) -> oc.Tensor:
        return nn.dropout(rate=0.5)(2 * x, train_step=k + 1 if where == "own counter" else k)

    def apply(x: oc.Tensor, k: oc.Tensor) -> oc.Tensor:
        if where == "scan":
            return oc.scan(lambda c, x: (c, dropped(x, k)), 0.0, x)[0]
        return dropped(x, k)

    @oc.function(axes={"x": "b"}, ctx=CTX)
    def both(x: oc.Tensor, k: oc.Tensor):
        y = oc.checkpoint(apply)(x, k)
        return y, oc.grad(y.sum(), x)

    y, slope = both(np.ones(64), 3)
    assert 0 < (y == 0).sum() < 64
    np.testing.assert_array_equal(slope, y)


def test_a_checkpoint_of_what_are_no_tensors():
    """A function of arrays is called with them, and what it returns beside tensors stays as it is."""
    squares = oc.function(lambda x: (x * x).sum(), ctx=CTX)
    assert oc.checkpoint(squares)(np.ones(3)) == 3
    y, number = oc.checkpoint(lambda x: (x * x, 1.5))(oc.data(np.ones(3)))
    assert (y.label, number) == ("checkpoint", 1.5)


def test_a_checkpoint_updates_statistics_once():
    found = list[Array]()
    for again in (oc.checkpoint, lambda f: f):
        norm = nn.batch_norm1d(momentum=0.5, label="norm")
        k, x = oc.index("k"), oc.data(arrays_of((6, 3))[0], label="x")
        y = again(lambda x, k, norm=norm: norm(x, train_step=k))(x, k)
        ctx = oc.Context.cpu(1)
        step = ctx.compile(oc.forward(y) + oc.updates(y.sum()))
        ctx.init_params(y)
        step(k=0)
        found.append(np.concatenate([ctx[t].ravel() for t in oc.state(y).values()]))
    np.testing.assert_array_equal(found[0], found[1])


def arena(apart: Callable[[Callable[..., Any]], Callable[..., Any]]) -> int:
    """The bytes of intermediate values of a training step of eight layers, of which two are a part."""
    layers = [nn.mlp_layer(hid_dim=16, label=f"layer{k}") for k in range(8)]
    y = oc.data(np.ones((64, 16), np.float32))
    for first, second in zip(layers[::2], layers[1::2], strict=True):
        y = apart(oc.Block(lambda x, first=first, second=second: second(first(x))))(y)
    step = CTX.compile(train.grad_update((y * y).mean()))
    (found,) = re.findall(r"an arena of (\d+)", str(step.memory()))
    return int(found)


def test_a_checkpoint_saves_memory():
    assert arena(oc.checkpoint) < 0.7 * arena(lambda f: f)


def test_a_checkpoint_has_the_same_derivatives():
    plain, checkpointed = network(False), network(True)
    for found, wanted in zip(checkpointed[0], plain[0], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert "texpr.custom" in checkpointed[1]
