"""Derivatives are expressions: their forms, their values, what can be done with them, and their errors."""

from __future__ import annotations

import numpy as np
import pytest
from support.derivatives import clipped, data, product, refused, value, values
from support.tensors import total

import ocannl as oc
from ocannl import train
from ocannl.dialects.ir.locating_parser import LocatingParser
from ocannl.lowering.pipelines import PIPELINES, module_text, new_context, run_passes

RNG = np.random.default_rng(11)


def test_zero_where_nothing_depends():
    x, other = data(RNG.normal(size=3)), data(RNG.normal(size=(2, 2)))
    y = oc.sin(x)
    found = values(oc.vjp(y, other, 1.0), oc.jvp(y, other, other), oc.grad(total(oc.stop_gradient(y)), x))
    for array, shape in zip(found, [(2, 2), (3,), (3,)], strict=True):
        np.testing.assert_array_equal(array, np.zeros(shape))


def test_forms_of_several():
    a, b = RNG.normal(size=3), RNG.normal(size=3)
    x, y = data(a), data(b)
    loss = total(x * x * y)
    as_tuple, as_dict = oc.grad(loss, [x, y]), oc.grad(loss, {"x": x, "y": y})
    assert isinstance(as_tuple, tuple)
    assert list(as_dict) == ["x", "y"]
    found = values(*as_tuple, *as_dict.values())
    np.testing.assert_allclose(found, [2 * a * b, a * a] * 2)
    tangents = oc.jvp(as_dict, {"x": x, "y": y}, {"y": 1.0, "x": 0.0})
    np.testing.assert_allclose(values(tangents["x"], tangents["y"]), [2 * a, 0 * a])


def test_an_intermediate_tensor_is_changed_by_what_is_added_to_it():
    """So the gradients of it and of what it depends on are both total, and tangents add up."""
    a = RNG.normal(size=3)
    x = data(a)
    h = oc.exp(x)
    y = h * x
    found = values(*oc.grad(total(y), [x, h]), oc.jvp(y, [x, h], [1.0, 2.0]))
    np.testing.assert_allclose(found, [np.exp(a) * (1 + a), a, np.exp(a) * (1 + a) + 2 * a])


def test_of_itself_and_named():
    a = RNG.normal(size=3)
    x = data(a)
    w = data(a + 1, "w")
    same = oc.vjp(x, x, w).named("x_grad")
    twice = oc.vjp(x * x, x, w).named("w_grad")
    again = oc.vjp(x * x, x, w)
    moved = oc.jvp(x, x, w)
    found = values(same, twice, again, moved)
    np.testing.assert_allclose(found, [a + 1, 2 * a * (a + 1), 2 * a * (a + 1), a + 1])


def test_a_gradient_has_a_value_and_a_gradient_memory_of_its_own():
    a = RNG.normal(size=3)
    p = oc.param("p", a, dtype=np.float64)
    slope = oc.grad(total(p * p * p), p)
    loss = total(slope)
    kept, gradient = slope.value, slope.grad
    ctx = oc.Context.cpu()
    train.update_once(ctx, loss)
    np.testing.assert_allclose(ctx[kept], 3 * a * a)
    np.testing.assert_allclose(ctx[gradient], np.ones(3))
    np.testing.assert_allclose(ctx[p.grad], 6 * a)


def test_third_derivatives():
    a = RNG.normal(size=4)
    x = data(a)
    y = oc.sin(x) * x
    by_reverse = y
    for _ in range(3):
        by_reverse = oc.grad(total(by_reverse), x)
    mixed = oc.jvp(oc.grad(total(oc.jvp(y, x, 1.0)), x), x, 1.0)
    wanted = -3 * np.sin(a) - a * np.cos(a)
    np.testing.assert_allclose(values(by_reverse, mixed), [wanted, wanted])


def test_where_gives_zero_to_what_it_does_not_select():
    """A gradient of 0 goes on as a number, as in PyTorch and JAX, and may meet an infinite derivative."""
    x = oc.data(np.array([2.0, 0.0]))
    outside = oc.where(x > 0, oc.log(x * x), 0.0)
    inside = oc.where(x > 0, oc.log(oc.where(x > 0, x * x, 1.0)), 0.0)
    ctx = oc.Context.cpu(threads=1)
    np.testing.assert_array_equal(ctx[oc.grad(outside.sum(), x)], [1.0, np.nan])
    np.testing.assert_array_equal(ctx[oc.grad(inside.sum(), x)], [1.0, 0.0])


def test_precisions():
    """A gradient has the precision of what it is with respect to, a tangent that of the value."""
    a = RNG.normal(size=3)
    single, double = data(a.astype(np.float32)), data(a)
    y = total(single * double)
    found = values(*oc.grad(y, [single, double]), oc.jvp(y, single, 1.0))
    assert [f.dtype for f in found] == [np.float32, np.float64, np.float64]


def test_gradients_of_one_moment_in_code():
    """An expression is computed from present values; what it left in memory stays."""
    a, b = RNG.normal(size=3), RNG.normal(size=3)
    p, q = oc.param("p", a, dtype=np.float64), oc.param("q", b, dtype=np.float64)
    loss = total(p * q)
    gradients = oc.grad(loss, [p, q])
    with oc.code("one after the other") as step:
        for g in gradients:
            oc.forward(g)
        p -= 0.1 * gradients[0].value
        q -= 0.1 * gradients[1].value
        q -= gradients[1]
    ctx = oc.Context.cpu()
    routine = ctx.compile(step)
    ctx.init_params(loss)
    routine()
    np.testing.assert_allclose(ctx[p], a - 0.1 * b)
    np.testing.assert_allclose(ctx[q], b - 0.1 * a - (a - 0.1 * b))


def test_text_is_compiled_as_the_program_is():
    """From the program as built, and from its text."""
    x, b = data(RNG.normal(size=(2, 3))), data(RNG.normal(size=3), "b")
    y = total(product(x, b) * oc.tanh(x))
    gradients = oc.grad(y, [x, b])
    code = sum(map(oc.forward, (*gradients, *oc.jvp(gradients, [x, b], [x, b]))), oc.Code())
    module = LocatingParser(new_context(), code.ir(), "program").parse_module()
    run_passes(module, PIPELINES["cpu"])
    assert module_text(module) == code.ir("loops")


def test_forward_mode_in_code():
    """A tangent in the routine of a training step."""
    a = RNG.normal(size=3)
    p = oc.param("p", a, dtype=np.float64)
    loss = total(p * p)
    ctx = oc.Context.cpu()
    rate = oc.jvp(loss, p, -p.grad)
    step = ctx.compile(train.grad_update(loss) + oc.forward(rate) + train.sgd_update(loss, learning_rate=0.1))
    ctx.init_params(loss)
    step()
    np.testing.assert_allclose(ctx[rate], [-np.sum(4 * a * a)])
    np.testing.assert_allclose(ctx[p], 0.8 * a)


def test_the_memory_of_a_gradient_has_a_gradient_too():
    w = oc.param("w", [1.0, 2.0, 3.0], output=3)
    loss = oc.einsum("... => 0", w * w * w)
    slope = w.grad
    penalty = oc.einsum("... => 0", slope * slope)
    ctx = oc.Context.cpu()
    step = ctx.compile(train.grad_update(loss) + oc.set(slope.grad, 0) + oc.forward(penalty))
    back = ctx.compile(oc.set(penalty.grad, 1) + penalty.backprop)
    ctx.init_params(loss)
    step()
    back()
    np.testing.assert_array_equal(ctx[slope], [3, 12, 27])
    np.testing.assert_array_equal(ctx[slope.grad], [6, 24, 54])


def test_cotangents_and_tangents_have_to_fit():
    x = data(RNG.normal(size=3))
    y = oc.sin(x)
    with pytest.raises(oc.ShapeError, match=r"vjp\(sin, x\)"):
        oc.vjp(y, x, data(np.ones(4)))
    with pytest.raises(oc.ShapeError, match=r"jvp\(sin, x\)"):
        oc.jvp(y, x, data(np.ones(4)))
    with pytest.raises(oc.ShapeError):
        oc.custom_gradient(lambda a: (a, lambda ct: data(np.ones(4))))(x)
    np.testing.assert_allclose(value(oc.grad(total(y), x)), np.cos(value(x)))


def test_errors_when_compiled():
    x, i = data(RNG.normal(size=3)), oc.data(np.arange(3), axes="o", label="ids")
    assert "this tensor has the shape 3: take its sum" in refused(oc.grad(oc.sin(x), x))
    assert "`ids` holds integers (i64)" in refused(oc.grad(total(x * i), i))
    assert "`ids` holds integers (i64)" in refused(oc.jvp(x * i, i, i))
    assert "not linear in the cotangent" in refused(oc.jvp(clipped(x), x, 1.0))
    assert all("test_derivatives.py:" in refused(t) for t in (oc.grad(oc.sin(x), x), oc.grad(x, i)))


@pytest.mark.parametrize(("xs", "tangents"), [(2, 1), (1, 2)])
def test_each_x_has_a_tangent(xs: int, tangents: int):
    x = data(np.ones(3))
    with pytest.raises(ValueError, match="each x has one tangent"):
        oc.jvp(x, [x] * xs, [x] * tangents)
