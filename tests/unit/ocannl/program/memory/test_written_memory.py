"""A gradient does not vanish in memory that the same code has set from what it is taken with respect to."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train

TOTAL = "...|...->... => 0"


def parts() -> tuple[oc.Context, oc.Tensor, oc.Tensor]:
    ctx, w, m = oc.Context.cpu(), oc.param("w", output=3), oc.node("m", output=3)
    ctx[w] = [1.0, 2.0, 3.0]
    return ctx, w, m


LOST = r"the derivative with respect to `w` would be lost in `m`, .* set at .*test_written_memory\.py:\d+"


def test_memory_that_was_set_from_a_parameter():
    ctx, w, m = parts()
    with oc.code("copy") as copy:
        m[...] = w * 2
    loss = (m * m * w).einsum(TOTAL)
    with pytest.raises(oc.OcannlError, match=LOST):
        ctx.compile(copy + train.grad_update(loss), name="step")
    ctx.compile(train.grad_update(loss), name="alone")
    ctx.compile(train.grad_update(loss) + copy, name="copied after")
    constant = (oc.stop_gradient(m) ** 2 * w).einsum(TOTAL)
    step = ctx.compile(copy + train.grad_update(constant), name="step")
    step()
    np.testing.assert_allclose(ctx[w.grad], [4.0, 16.0, 36.0])


def test_through_other_memory_and_sums():
    ctx, w, m = parts()
    n = oc.node("n", output=3)
    with oc.code("copies") as copies:
        n[...] = w
        m[...] = 1.0
        m += oc.relu(n)
    loss = (m * w).einsum(TOTAL)
    with pytest.raises(oc.OcannlError, match=LOST):
        ctx.compile(copies + train.grad_update(loss))
    with oc.code("overwritten") as overwritten:
        oc.run(copies)
        m[...] = 3.0
    step = ctx.compile(overwritten + train.grad_update(loss))
    step()
    np.testing.assert_allclose(ctx[w.grad], [3, 3, 3])


def test_the_kept_value_of_an_expression():
    ctx, w, _ = parts()
    y = (w * w).named("y")
    loss = (y.value * w).einsum(TOTAL)
    with pytest.raises(oc.OcannlError, match="would be lost in `y_value`, which is memory"):
        ctx.compile(oc.forward(y) + train.grad_update(loss))


def test_derivatives_that_are_expressions():
    ctx, w, m = parts()
    with oc.code("meta") as meta:
        m[...] = w * 2
        w.grad[...] = oc.grad((m * w).einsum(TOTAL), w)
    with pytest.raises(oc.OcannlError, match=LOST):
        ctx.compile(meta)
    with oc.code("fine") as fine:
        m[...] = w * 2
        w.grad[...] = oc.grad((m * w).einsum(TOTAL), m)
    step = ctx.compile(fine)
    step()
    np.testing.assert_allclose(ctx[w.grad], [1, 2, 3])


def test_what_has_its_own_gradient_is_where_it_ends():
    ctx, w, m = parts()
    with oc.code("copy") as copy:
        m[...] = w * 2
    loss = (m * w).einsum(TOTAL)
    _ = m.grad
    step = ctx.compile(copy + train.grad_update(loss))
    step()
    np.testing.assert_allclose(ctx[w.grad], [2, 4, 6])
    np.testing.assert_allclose(ctx[m.grad], [1, 2, 3])


def test_several_steps_in_one_routine():
    ctx, w, _ = parts()
    loss = (w * w).einsum(TOTAL)
    step = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.25)
    twice = ctx.compile(step + step)
    twice()
    np.testing.assert_allclose(ctx[w], [0.25, 0.5, 0.75])


def test_running_statistics_are_no_loss():
    ctx, x = oc.Context.cpu(), oc.data(np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32))
    norm, layer = nn.batch_norm1d(), nn.linear(out_dim=3)
    loss = (norm(layer(x), train_step=oc.index("n")) ** 3).einsum(TOTAL)
    ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1))
