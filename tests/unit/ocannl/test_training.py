"""Training in one routine or in several is the update rule's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.tensors import Array, arrays_of, param, run, total

import ocannl as oc
from ocannl import nn, train


def torch_sgd(
    p: Array,
    gradients: Callable[[Array], Array],
    steps: int,
    rate: float,
    momentum: float,
    decay: float,
    nesterov: bool,
) -> Array:
    """The update rule of PyTorch's `optim.SGD`, as its documentation has it."""
    buffer = None
    for _ in range(steps):
        g = gradients(p) + decay * p
        if momentum:
            buffer = g.copy() if buffer is None else momentum * buffer + g
            g = g + momentum * buffer if nesterov else buffer
        p = p - rate * g
    return p


class TestTraining:
    @pytest.mark.parametrize("apart", [False, True], ids=["one routine", "two routines"])
    @pytest.mark.parametrize(
        ("momentum", "decay", "nesterov"),
        [
            (0, 0, False),
            (0, 0.1, False),
            (0.9, 0, False),
            (0.9, 0.1, False),
            (0.9, 0, True),
            (0.5, 0.1, True),
        ],
    )
    def test_sgd(self, momentum: float, decay: float, nesterov: bool, apart: bool):
        a, x, y = arrays_of((2, 3), (5, 3), (5, 2))
        w = oc.param("w", a, output=2, input=3)
        loss = total((w @ oc.data(x) - oc.data(y)) ** 2) / 5
        update = train.sgd_update(
            loss, learning_rate=0.05, momentum=momentum, weight_decay=decay, nesterov=nesterov
        )
        ctx = oc.Context.cpu()
        parts = [train.grad_update(loss), update] if apart else [train.grad_update(loss) + update]
        routines = [ctx.compile(part, name="step") for part in parts]
        ctx.init_params(loss)
        for _ in range(7):
            for routine in routines:
                routine()
        wanted = torch_sgd(a, lambda p: 2 / 5 * (x @ p.T - y).T @ x, 7, 0.05, momentum, decay, nesterov)
        np.testing.assert_allclose(ctx[w], wanted, rtol=1e-10)

    def test_momenta_of_two_contexts_are_their_own(self):
        p = param("p", np.ones(3))
        loss = total(p * p)
        code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1, momentum=0.9)
        results = []
        for steps in (3, 5, 3):
            ctx = oc.Context.cpu()
            routine = ctx.compile(code, name="step")
            ctx.init_params(loss)
            for _ in range(steps):
                routine()
            results.append(ctx[p])
        np.testing.assert_array_equal(results[0], results[2])
        assert not np.array_equal(results[0], results[1])

    def test_the_update_of_the_original(self):
        """The code block of the API's page, with a node that is written twice."""
        p = param("p", np.array([1.0, -2.0]))
        loss = total(p * p)
        momentum, nesterov, rate = 0.9, True, 0.1
        with oc.code("sgd step") as sgd:
            delta = oc.node("sgd_delta", like=p)
            delta[...] = p.grad + 0.01 * p
            m = oc.node("sgd_momentum", like=p)
            m[...] = momentum * m + delta
            delta[...] = (delta + momentum * m) if nesterov else m
            p -= rate * delta
        ctx = oc.Context.cpu()
        routine = ctx.compile(train.grad_update(loss) + sgd, name="step")
        ctx.init_params(loss)
        for _ in range(4):
            routine()
        wanted = torch_sgd(np.array([1.0, -2.0]), lambda q: 2 * q, 4, rate, momentum, 0.01, nesterov)
        np.testing.assert_allclose(ctx[p], wanted)

    def test_forward_once_and_update_once(self):
        x = oc.data(np.ones((4, 3)), label="x")
        y = nn.mlp(hid_dims=[5, 6], out_dim=2)(x)
        loss = total(y * y)
        ctx = oc.Context.cpu()
        train.forward_once(ctx, y)
        first = ctx[y]
        assert first.shape == (4, 2)
        train.update_once(ctx, loss)
        np.testing.assert_allclose(float(ctx[loss]), np.sum(first * first))
        for label, p in oc.params(loss).items():
            assert ctx[p.grad].shape == ctx[p].shape, label

    def test_training_one_set_and_looking_at_another(self):
        """The same blocks over other data, in a routine of their own."""
        (x,) = arrays_of((20, 2))
        layer = nn.mlp_layer(hid_dim=4, label="l1")
        one = layer(oc.data(x[:10]))
        other = layer(oc.data(x[10:]))
        ctx = oc.Context.cpu()
        train.forward_once(ctx, one)
        before = ctx[other]
        loss = total(one)
        run(ctx, train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1))
        after = ctx[other]
        assert before.shape == after.shape == (10, 4)
        assert not np.array_equal(before, after)
        assert len(oc.params(one + 0)) == 2
