"""Derivatives as expressions, against finite differences and JAX in f64; gradients of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.operators import FLOAT_OPERATORS
from support.spec_cases import sized_cases
from support.spec_meaning import Case
from support.tensor_programs import Program, axes_of, programs

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.ir.locating_parser import LocatingParser
from ocannl.lowering.pipelines import PIPELINES, module_text, new_context, run_passes
from ocannl.program.functions import PUBLIC_NAMES

Array = NDArray[Any]
TOTAL = "...|...->... => 0"
RNG = np.random.default_rng(11)
RANDOM = settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    derandomize=True,
)
STEP = 1e-5


def data(array: Array, label: str = "x") -> oc.Tensor:
    return oc.data(array, axes="o" * np.ndim(array), label=label)


def number(tensor: oc.Tensor) -> oc.Tensor:
    return tensor.einsum(TOTAL)


def values(*tensors: oc.Tensor) -> list[Array]:
    """All of them by one routine."""
    ctx = oc.Context.cpu(threads=1)
    ctx.compile(sum((oc.forward(t) for t in tensors), oc.Code()), name="values")()
    return [ctx[t] for t in tensors]


def value(tensor: oc.Tensor) -> Array:
    return values(tensor)[0]


# Scalar operators.

POSITIVE = {
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "recip_sqrt",
    "pow",
    "recip",
    "div",
    "mod",
    "fmod",
    "acosh",
}
BELOW_ONE = {"asin", "acos", "atanh"}


def smooth_points(name: str) -> list[Array]:
    """Operands away from the kinks, which lie at multiples of 1/2, and from each other."""
    random = np.random.default_rng(3)
    arity = FLOAT_OPERATORS[name].arity
    magnitude = random.uniform(0.1, 0.4, (arity, 7)) + random.integers(0, 4, (arity, 7)) / 2
    if name in BELOW_ONE:
        magnitude *= 0.4
    if name == "acosh":
        magnitude += 1
    sign = 1.0 if name in POSITIVE else random.choice([-1.0, 1.0], (arity, 7))
    return list(magnitude * sign)


def differences(function: Callable[[list[Array]], Array], arrays: list[Array], steps: list[Array]) -> Array:
    """The derivative of a function in a direction."""
    ends = [function([a + sign * STEP * s for a, s in zip(arrays, steps, strict=True)]) for sign in (1, -1)]
    return (ends[0].astype(np.float64) - ends[1]) / (2 * STEP)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FLOAT_OPERATORS)
def test_operators_twice(name: str):
    """Tangents and gradients are slopes, and so are the tangents and gradients of gradients."""
    op, arrays = FLOAT_OPERATORS[name], smooth_points(name)
    steps = [RNG.normal(size=7) for _ in arrays]
    xs, ts = [data(a) for a in arrays], [data(s, "step") for s in steps]
    weight = RNG.normal(size=7)
    y = getattr(oc, PUBLIC_NAMES.get(name, name))(*xs)
    gradients = oc.vjp(y, xs, data(weight))
    tangent = oc.jvp(y, xs, ts)
    forward = oc.jvp(gradients, xs, ts)
    along = sum((g * t for g, t in zip(gradients, ts, strict=True)), oc.constant(0.0))
    reverse = oc.grad(number(along), xs)
    first, *rest = values(tangent, *gradients, *forward, *reverse)
    count = op.arity
    wanted = differences(lambda a: op.reference(*a), arrays, steps)
    np.testing.assert_allclose(first, wanted, rtol=1e-6, atol=1e-7)
    total = sum(g * s for g, s in zip(rest[:count], steps, strict=True))
    np.testing.assert_allclose(total, weight * wanted, rtol=1e-6, atol=1e-7)

    def slopes(a: list[Array], wrt: int) -> Array:
        def unit(k: int) -> Array:
            return np.full(7, float(k == wrt))

        exact = [data(x) for x in a]
        moved = getattr(oc, PUBLIC_NAMES.get(name, name))(*exact)
        return weight * value(oc.jvp(moved, exact, [data(unit(k)) for k in range(count)]))

    for wrt in range(count):
        second = differences(lambda a, wrt=wrt: slopes(a, wrt), arrays, steps)
        np.testing.assert_allclose(rest[count + wrt], second, rtol=1e-5, atol=1e-6)
    sums = [float(np.sum(a * s)) for a, s in zip(rest[count : 2 * count], steps, strict=True)]
    others = [float(np.sum(a * s)) for a, s in zip(rest[2 * count :], steps, strict=True)]
    assert sum(sums) == pytest.approx(sum(others), rel=1e-9, abs=1e-9)


# Forward mode is the transpose of reverse mode.


def check_transposed(y: oc.Tensor, xs: list[oc.Tensor], arrays: list[Array], seed: int):
    """<jvp(x, t), ct> = <t, vjp(ct)>, of the first derivative and of that of the gradient."""
    random = np.random.default_rng(seed)
    oc.infer(y)
    weight = random.normal(size=y.shape.array)
    steps = [random.normal(size=a.shape) for a in arrays]
    cotangent = oc.data(weight, axes=letters(y), label="ct")
    ts = [oc.data(s, axes=letters(x), label="step", dtype=np.float64) for s, x in zip(steps, xs, strict=True)]
    gradients = oc.vjp(y, xs, cotangent)
    again = sum((number(g * t) for g, t in zip(gradients, ts, strict=True)), oc.constant(0.0))
    found = values(oc.jvp(y, xs, ts), *gradients, *oc.jvp(gradients, xs, ts), *oc.grad(again, xs))
    tangent, rest = found[0], found[1:]
    firsts, forwards, reverses = (rest[k * len(xs) : (k + 1) * len(xs)] for k in range(3))
    right = [float(np.sum(g * s)) for g, s in zip(firsts, steps, strict=True)]
    size = 1 + sum(map(abs, right)) + float(np.sum(np.abs(tangent * weight)))
    assert abs(float(np.sum(tangent * weight)) - sum(right)) < 1e-9 * size
    for forward, reverse in zip(forwards, reverses, strict=True):
        np.testing.assert_allclose(
            forward, reverse, rtol=1e-8, atol=1e-8 * (1 + np.max(np.abs(forward), initial=0))
        )


def letters(x: oc.Tensor) -> str:
    return "b" * len(x.shape.batch) + "o" * len(x.shape.output) + "i" * len(x.shape.input)


@RANDOM
@given(programs(most_steps=5), st.integers(0, 2**16))
def test_transposes_of_random_programs(program: Program, seed: int):
    """With ties and kinks."""
    note(repr(program))
    assume(program.steps)
    arrays = [np.asarray(v.array, np.float64) for v in program.leaves]
    xs = [oc.data(a, axes=axes_of(v)) for a, v in zip(arrays, program.leaves, strict=True)]
    assume(np.isfinite(program.values(program.leaves)[-1].array).all())
    check_transposed(program.tensors(xs)[-1], xs, arrays, seed)


SPECS: dict[str, Callable[..., oc.Tensor]] = {
    "einsum": oc.einsum,
    "einmax": oc.einmax,
    "tropical": oc.tropical,
    "outer_sum": oc.outer_sum,
}


@RANDOM
@given(sized_cases(), st.sampled_from(sorted(SPECS)), st.integers(0, 9))
def test_transposes_of_specs(sized: tuple[Case, dict[str, int]], function: str, seed: int):
    """Squares of specs of all forms; integers, so that maxima have ties."""
    case, sizes = sized
    note(case.text)
    random = np.random.default_rng(seed)
    arrays = [random.integers(-2, 3, case.shape(slot)).astype(np.float64) for slot in case.operands]
    slots = zip(arrays, case.operands, strict=True)
    xs = [oc.data(a, axes=case.letters(slot), label="x") for a, slot in slots]
    y = SPECS[function](case.text, *xs, use_padding=case.use_padding, **sizes)
    finite = oc.where(oc.abs(y) < 1e6, y, 0.0)
    check_transposed(finite * finite, xs, arrays, seed)


def test_transposes_of_other_operations():
    """Slices, fixed positions, stacks, stopped gradients."""
    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))
    xs = [oc.data(a, label="a"), oc.data(b, label="b")]
    n = oc.index("n", 3)
    x, y = xs
    one = x[n] * oc.einsum("... | 2 => ... |", y)[1] + oc.stop_gradient(x[0]) * y[2]
    stacked = oc.stack([one, oc.exp(y[0])], axis="output").einsum("... s o => ... o s")
    check_transposed(stacked * stacked, xs, [a, b], 5)


# What expressions mean.


def test_zero_where_nothing_depends():
    x, other = data(RNG.normal(size=3)), data(RNG.normal(size=(2, 2)))
    y = oc.sin(x)
    found = values(oc.vjp(y, other, 1.0), oc.jvp(y, other, other), oc.grad(number(oc.stop_gradient(y)), x))
    for array, shape in zip(found, [(2, 2), (3,), (3,)], strict=True):
        np.testing.assert_array_equal(array, np.zeros(shape))


def test_forms_of_several():
    a, b = RNG.normal(size=3), RNG.normal(size=3)
    x, y = data(a), data(b)
    loss = number(x * x * y)
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
    found = values(*oc.grad(number(y), [x, h]), oc.jvp(y, [x, h], [1.0, 2.0]))
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
    slope = oc.grad(number(p * p * p), p)
    loss = number(slope)
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
        by_reverse = oc.grad(number(by_reverse), x)
    mixed = oc.jvp(oc.grad(number(oc.jvp(y, x, 1.0)), x), x, 1.0)
    wanted = -3 * np.sin(a) - a * np.cos(a)
    np.testing.assert_allclose(values(by_reverse, mixed), [wanted, wanted])


def test_precisions():
    """A gradient has the precision of what it is with respect to, a tangent that of the value."""
    a = RNG.normal(size=3)
    single, double = data(a.astype(np.float32)), data(a)
    y = number(single * double)
    found = values(*oc.grad(y, [single, double]), oc.jvp(y, single, 1.0))
    assert [f.dtype for f in found] == [np.float32, np.float64, np.float64]


def test_gradients_of_one_moment_in_code():
    """An expression is computed from present values; what it left in memory stays."""
    a, b = RNG.normal(size=3), RNG.normal(size=3)
    p, q = oc.param("p", a, dtype=np.float64), oc.param("q", b, dtype=np.float64)
    loss = number(p * q)
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
    y = number(product(x, b) * oc.tanh(x))
    gradients = oc.grad(y, [x, b])
    code = sum(map(oc.forward, (*gradients, *oc.jvp(gradients, [x, b], [x, b]))), oc.Code())
    module = LocatingParser(new_context(), code.ir(), "program").parse_module()
    run_passes(module, PIPELINES["cpu"])
    assert module_text(module) == code.ir("loops")


def test_forward_mode_in_code():
    """A tangent in the routine of a training step."""
    a = RNG.normal(size=3)
    p = oc.param("p", a, dtype=np.float64)
    loss = number(p * p)
    ctx = oc.Context.cpu()
    rate = oc.jvp(loss, p, -p.grad)
    step = ctx.compile(train.grad_update(loss) + oc.forward(rate) + train.sgd_update(loss, learning_rate=0.1))
    ctx.init_params(loss)
    step()
    np.testing.assert_allclose(ctx[rate], [-np.sum(4 * a * a)])
    np.testing.assert_allclose(ctx[p], 0.8 * a)


# Models.


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
    along = sum((number(g * directions[k]) for k, g in gradients.items()), oc.constant(0.0))
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
    loss = number(error * error)
    gradient = oc.grad(loss, w)

    def product(v: oc.Tensor) -> oc.Tensor:
        return oc.jvp(gradient, w, v) + 1e-9 * v

    step, rest = oc.constant(0.0), -gradient
    direction = rest
    for _ in range(4):
        curved = product(direction)
        size = number(rest * rest)
        rate = size / number(direction * curved)
        step, rest = step + rate * direction, rest - rate * curved
        direction = rest + number(rest * rest) / size * direction
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
    slope = oc.grad(number(score), x)
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


# Gradients of the user's own.


@oc.custom_gradient
def straight_through(x: oc.Tensor):
    return oc.round(x), lambda ct: ct


@oc.custom_gradient
def clipped(x: oc.Tensor, *, most: float = 1.0):
    return x, lambda ct: oc.maximum(-most, oc.minimum(most, ct))


@oc.custom_gradient
def product(x: oc.Tensor, y: oc.Tensor):
    """With the gradients of a product, twice for `y`."""
    return x * y, lambda ct: (ct * y, 2 * ct * x)


def test_straight_through():
    a = RNG.normal(size=5) * 3
    x = data(a)
    y = straight_through(x)
    found = values(y, oc.grad(number(y * y), x), oc.jvp(y * y, x, 1.0))
    np.testing.assert_allclose(found, [np.rint(a), 2 * np.rint(a), 2 * np.rint(a)])


def test_clipped_gradients():
    a = np.array([0.1, -5.0, 3.0])
    x = data(a)
    narrow = clipped(x, most=2.0)
    loss = number(narrow * narrow)
    (gradient,) = values(oc.grad(loss, x))
    np.testing.assert_allclose(gradient, np.clip(2 * a, -2, 2))
    p = oc.param("p", a, dtype=np.float64)
    ctx = oc.Context.cpu()
    train.update_once(ctx, number(clipped(p) * clipped(p)))
    np.testing.assert_allclose(ctx[p.grad], 2 * np.clip(a, -1, 1))


def test_several_arguments_are_reached_beside_other_paths():
    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=4)
    x, y = data(a), data(b)
    z = product(x, y) + x * y
    gx, gy, again = oc.vjp(z, x, 1.0), oc.vjp(z, y, 1.0), oc.grad(number(oc.vjp(z, y, x)), x)
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
    first = oc.grad(number(cubed(x)), x)
    second = oc.grad(number(first), x)
    third = oc.grad(number(second), x)
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
    found = values(gradient, oc.jvp(y, x, 3.0), oc.grad(number(gradient), x))
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
    found = values(oc.grad(number(y), x), oc.jvp(y, x, x))
    weights = np.exp(a - a.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    np.testing.assert_allclose(found[0], weights, atol=1e-12)
    np.testing.assert_allclose(found[1], np.sum(weights * a, axis=1, keepdims=True), rtol=1e-9)


# Errors.


def test_cotangents_and_tangents_have_to_fit():
    x = data(RNG.normal(size=3))
    y = oc.sin(x)
    with pytest.raises(oc.ShapeError, match=r"vjp\(sin, x\)"):
        oc.vjp(y, x, data(np.ones(4)))
    with pytest.raises(oc.ShapeError, match=r"jvp\(sin, x\)"):
        oc.jvp(y, x, data(np.ones(4)))
    with pytest.raises(oc.ShapeError):
        oc.custom_gradient(lambda a: (a, lambda ct: data(np.ones(4))))(x)
    np.testing.assert_allclose(value(oc.grad(number(y), x)), np.cos(value(x)))


def refused(tensor: oc.Tensor) -> str:
    with pytest.raises(oc.OcannlError) as error:
        value(tensor)
    return str(error.value)


def test_errors_when_compiled():
    x, i = data(RNG.normal(size=3)), oc.data(np.arange(3), axes="o", label="ids")
    assert "found 3: give a cotangent" in refused(oc.grad(oc.sin(x), x))
    assert "`ids` holds integers (i64)" in refused(oc.grad(number(x * i), i))
    assert "`ids` holds integers (i64)" in refused(oc.jvp(x * i, i, i))
    assert "not linear in the cotangent" in refused(oc.jvp(clipped(x), x, 1.0))
    assert all("test_derivatives.py:" in refused(t) for t in (oc.grad(oc.sin(x), x), oc.grad(x, i)))


def test_a_cotangent_does_not_leave_its_rule():
    kept: list[oc.Tensor] = []

    def leak(x: oc.Tensor):
        return x, lambda ct: kept.append(ct) or ct

    y = oc.custom_gradient(leak)(data(np.ones(3)))
    assert "only inside its pullback" in refused(kept[0])
    np.testing.assert_allclose(value(y), np.ones(3))


@pytest.mark.parametrize(("xs", "tangents"), [(2, 1), (1, 2)])
def test_each_x_has_a_tangent(xs: int, tangents: int):
    x = data(np.ones(3))
    with pytest.raises(ValueError, match="each x has one tangent"):
        oc.jvp(x, [x] * xs, [x] * tangents)


def test_a_pullback_gives_one_tensor_for_each_argument():
    x = data(np.ones(3))
    with pytest.raises(ValueError, match="one tensor for each of 2 arguments, found 1"):
        oc.custom_gradient(lambda a, b: (a * b, lambda ct: ct))(x, x)


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
