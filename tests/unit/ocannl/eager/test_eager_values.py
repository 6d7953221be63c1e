"""Eager mode: values at once, which are those of compiled programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from support.tensors import Array, arrays_of

import ocannl as oc
from ocannl import nn, train


class TestValues:
    def test_printing_comparing_and_iterating(self):
        x = oc.tensor([1.0, 2.0, 3.0])
        y = x * x + 1
        assert str(y) == "[ 2.  5. 10.]"
        assert f"{y.sum():.2f}" == "17.00"
        assert repr(y).startswith("<")
        assert [part.item() for part in y] == [2, 5, 10]
        assert y.sum() > 16
        assert not y.sum() > 17
        np.testing.assert_array_equal(y, [2, 5, 10])

    def test_integers_where_python_takes_them(self):
        x = oc.tensor([1.0, 3.0, 2.0])
        best: Any = oc.argmax(x)
        assert ["a", "b", "c"][best] == "b"
        assert list(range(best)) == [0]
        is_first: Any = oc.eq(best, 0)
        with pytest.raises(oc.ArgumentError, match="needs an integer of Python"):
            range(is_first)
        number: Any = x.sum()
        with pytest.raises(oc.ArgumentError, match="needs an integer of Python"):
            range(number)
        oc.eager(False)
        with pytest.raises(oc.ArgumentError, match="needs an integer of Python"):
            range(best)

    def test_elements_in_it(self):
        x = oc.tensor([1.0, 3.0, 2.0])
        assert 3.0 in x
        assert 4.0 not in x
        assert x.max() in x
        for item in ([1.0, 3.0], "a", x):
            with pytest.raises(oc.ArgumentError, match=r"whether `.*` has a number among its elements"):
                print(item in x)
        oc.eager(False)
        with pytest.raises(oc.ArgumentError, match=r"oc\.any\(oc\.eq\(t, number\)\) does so in a program"):
            print(3.0 in x)

    def test_it_is_on_and_off(self):
        oc.eager(False)
        assert str(oc.data([1.0]) + 1).startswith("<")
        with oc.eager():
            assert str(oc.tensor([1.0]) + 1) == "[2.]"
        with pytest.raises(oc.ArgumentError, match="has no truth value yet"):
            bool(oc.data([1.0]) > 0)
        with pytest.raises(oc.OcannlError, match=r"backward\(\) runs at once, in eager mode"):
            oc.param("w", 1.0, output=1).backward()

    def test_parameters_get_values_by_the_seed(self, context: oc.Context):
        x = np.ones(3, np.float32)
        y = nn.linear(out_dim=2, label="l")(oc.data(x))
        value = y.numpy()
        oc.eager(False)
        y = nn.linear(out_dim=2, label="l")(oc.data(x))
        other = oc.Context.cpu()
        other.init_params(y, seed=1)
        np.testing.assert_array_equal(value, other[y])


def perceptron(look: bool) -> list[Array]:
    oc.seed(3)
    (points,) = arrays_of((12, 2))
    x, y = oc.data(points), oc.data(np.sign(points[:, :1] * points[:, 1:]))
    model = nn.mlp(hid_dims=[5], out_dim=1, label="model")
    seen: list[Array] = []
    params: Iterable[oc.Tensor] = ()

    def see(*tensors: oc.Tensor) -> None:
        if look:
            seen.extend(t.numpy() for t in tensors)

    for _ in range(4):
        scores = model(x)
        see(scores)
        margin = oc.relu(1 - y * scores)
        see(margin, scores)
        loss = margin.sum()
        see(loss)
        params = oc.params(loss).values()
        loss.backward()
        for p in params:
            see(p, p.grad)
            p -= 0.05 * p.grad
            see(p, loss)
            p.grad.zero()
    oc.seed(1)
    return [p.numpy() for p in params]


def test_looking_changes_nothing():
    for plain, looked in zip(perceptron(False), perceptron(True), strict=True):
        np.testing.assert_array_equal(plain, looked)


def test_eager_and_compiled_agree():
    eager = perceptron(False)
    oc.eager(False)
    (points,) = arrays_of((12, 2))
    model = nn.mlp(hid_dims=[5], out_dim=1, label="model")
    ctx = oc.Context.cpu()

    @oc.function(ctx=ctx)
    def step(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
        loss = oc.relu(1 - y * model(x)).sum()
        train.grad_update(loss)
        train.sgd_update(loss, learning_rate=0.05)
        return loss

    oc.seed(3)
    for _ in range(4):
        step(points, np.sign(points[:, :1] * points[:, 1:]))
    oc.seed(1)
    trained = oc.params(step.lower(points, points[:, :1]).results).values()
    for found, wanted in zip(eager, trained, strict=True):
        np.testing.assert_allclose(found, ctx[wanted], rtol=1e-5, atol=1e-6)


def test_optimizers_run_at_once(context: oc.Context):
    x, y = arrays_of((8, 3), (8, 1))
    values: list[Array] = []
    for eager in (True, False):
        oc.eager(eager)
        w = oc.param("w", np.ones((1, 3)))
        opt = train.adam(lr=0.1)

        def loss_of(x: oc.Tensor, y: oc.Tensor, w: oc.Tensor = w) -> oc.Tensor:
            return nn.mse(w @ x, y)

        def step(x: oc.Tensor, y: oc.Tensor, opt: Any = opt) -> oc.Tensor:
            loss = loss_of(x, y)
            opt.step(loss)
            return loss

        compiled = oc.function(step, ctx=context, static="opt")
        losses = [float(step(oc.data(x), oc.data(y)) if eager else compiled(x, y)) for _ in range(4)]
        values += [context[w], np.array(losses)]
    np.testing.assert_allclose(values[0], values[2], rtol=1e-12)
    np.testing.assert_allclose(values[1], values[3], rtol=1e-12)
