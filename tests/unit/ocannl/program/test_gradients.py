"""Gradients against central differences in f64, away from kinks; and what gradient memory means."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from support.differentiable import FORMS, FUNCTIONS, LOGICS, TOTAL, Array, arrays_of
from support.operators import FLOAT_OPERATORS
from support.tensor_programs import Program, Val, programs, rows_of

import ocannl as oc
from ocannl import train
from ocannl.dialects import texpr
from ocannl.dialects.shapes import spec, spec_parser
from ocannl.program.extract import needed

RANDOM = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    derandomize=True,
)
PUBLIC = {"max": "maximum", "min": "minimum", "or": "logical_or", "and": "logical_and", "not": "logical_not"}
STEP = 1e-5


def projected(result: Val, weights: Array) -> float:
    return float(np.sum(result.array * weights))


def weighted_sum(result: oc.Tensor, val: Val, weights: Array) -> oc.Tensor:
    """A number of the result in which every cell counts by its weight."""
    axes = "".join(letter * len(row) for letter, row in zip("boi", val.rows, strict=True))
    return (result * oc.data(weights, axes=axes, label="weights")).einsum(TOTAL)


def differences(program: Program, leaf: int, direction: Array, weights: Array, step: float) -> float:
    """The derivative of the weighted sum in a direction of one leaf."""

    def at(distance: float) -> float:
        leaves = list(program.leaves)
        leaves[leaf] = Val(leaves[leaf].array + distance * direction, leaves[leaf].rows)
        return projected(program.values(leaves)[-1], weights)

    return (at(step) - at(-step)) / (2 * step)


@RANDOM
@given(programs(smooth=True), st.integers(0, 2**16))
def test_random_programs(program: Program, seed: int):
    note(repr(program))
    rng = np.random.default_rng(seed)
    assume(program.steps)
    params = [
        oc.param(f"p{k}", v.array, **rows_of(v), dtype=np.float64) for k, v in enumerate(program.leaves)
    ]
    last = program.values(program.leaves)[-1]
    weights = np.asarray(rng.uniform(0.5, 1.5, last.array.shape))
    loss = weighted_sum(program.tensors(params)[-1], last, weights)
    ctx = oc.Context.cpu(threads=1)
    train.update_once(ctx, loss)
    np.testing.assert_allclose(float(ctx[loss].reshape(())), projected(last, weights), rtol=1e-9, atol=1e-9)
    used = oc.params(loss).values()
    for k, param in enumerate(params):
        direction = np.asarray(rng.standard_normal(program.leaves[k].array.shape))
        wanted, again = (differences(program, k, direction, weights, h) for h in (STEP, STEP / 4))
        assert wanted == pytest.approx(again, rel=1e-5, abs=1e-5), f"p{k} is at a kink"
        found = float(np.sum(ctx[param.grad] * direction)) if param in used else 0.0
        assert found == pytest.approx(wanted, rel=2e-5, abs=2e-5), f"p{k}"


def numeric_gradient(function: Callable[..., Array], arrays: Sequence[Array], k: int) -> Array:
    """Of the weighted sum of a function's result, by one of its arrays, cell by cell."""
    gradient = np.zeros_like(arrays[k])
    for cell in np.ndindex(gradient.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = [a.copy() for a in arrays]
            moved[k][cell] += step
            result = function(*moved)
            ends.append(np.sum(result * weights_like(result)))
        gradient[cell] = (ends[0] - ends[1]) / (2 * STEP)
    return gradient


def weights_like(result: Array) -> Array:
    return 1 + 0.1 * np.sin(1 + np.arange(result.size)).reshape(result.shape)


def check_gradients(
    build: Callable[..., oc.Tensor],
    function: Callable[..., Array],
    arrays: Sequence[Array],
    rows: Sequence[str] | None = None,
):
    """Gradients of `build` over parameters agree with differences of `function` over arrays.

    `rows` has the axes of each parameter, as `axes=` of `oc.data`; without it they are output axes.
    """
    rows = rows or ["o" * a.ndim for a in arrays]
    names = {"batch": "b", "output": "o", "input": "i"}
    params: list[oc.Tensor] = []
    for k, (array, axes) in enumerate(zip(arrays, rows, strict=True)):
        sizes = {
            n: [s for s, a in zip(array.shape, axes, strict=True) if a == letter]
            for n, letter in names.items()
        }
        params.append(oc.param(f"p{k}", array, **sizes, dtype=np.float64))
    result = build(*params)
    oc.infer(result)
    axes = "b" * len(result.shape.batch) + "o" * len(result.shape.output) + "i" * len(result.shape.input)
    wanted = np.asarray(function(*arrays))
    weights = np.asarray(weights_like(wanted))
    loss = (result * oc.data(weights, axes=axes)).einsum(TOTAL)
    ctx = oc.Context.cpu(threads=1)
    train.update_once(ctx, loss)
    np.testing.assert_allclose(ctx[loss].reshape(()), np.sum(wanted * weights), rtol=1e-9)
    for k, param in enumerate(params):
        numeric = numeric_gradient(function, arrays, k)
        np.testing.assert_allclose(ctx[param.grad], numeric, rtol=1e-5, atol=2e-6, err_msg=f"p{k}")


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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FLOAT_OPERATORS)
@pytest.mark.parametrize("shapes", [[(2, 3)] * 3, [(2, 1), (3,), ()]], ids=["equal", "broadcast"])
def test_operators(name: str, shapes: list[tuple[int, ...]]):
    """Every operator; the steps and gates have gradients too, mostly zero."""
    op = FLOAT_OPERATORS[name]
    low = 0.3 if name in POSITIVE else -2
    arrays = arrays_of(*shapes[: op.arity], low=low)
    if name in BELOW_ONE:
        arrays = [0.4 * a for a in arrays]
    if name == "acosh":
        arrays = [1 + a for a in arrays]
    check_gradients(
        getattr(oc, PUBLIC.get(name, name)), lambda *args: op.reference(*np.broadcast_arrays(*args)), arrays
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", LOGICS | FORMS | FUNCTIONS)
def test_logics(name: str):
    build, function, shapes, rows = (LOGICS | FORMS | FUNCTIONS)[name]
    check_gradients(build, function, arrays_of(*shapes), rows)


def test_no_logic_and_no_function_of_tensors_is_left_out():
    """A new logic, form of axis or public function needs a line in the tables."""
    logics: set[str] = set()
    forms: set[type] = set()
    called: set[str] = set()
    for build, _, shapes, rows in (LOGICS | FORMS).values():
        called |= set(build.__code__.co_names)
        tensors = [oc.data(np.ones(shape), axes=axes) for shape, axes in zip(shapes, rows, strict=True)]
        for op in needed(oc.forward(build(*tensors)).statements):
            if isinstance(op, texpr.SliceOp):
                logics.add("slice")
            elif isinstance(op, texpr.ApplyOp) and op.logic is not None:
                logics.add(op.logic.data if op.logic.data in ".@T" else "spec")
                if op.logic.data not in ".@T":
                    slots = spec_parser.parse_spec(op.logic.data).slots
                    forms |= {type(axis) for slot in slots for row in slot.rows for axis in row.axes}
    assert logics == {".", "@", "T", "slice", "spec"}
    assert forms == set(get_args(spec.Axis))
    for build, *_ in FUNCTIONS.values():
        called |= set(build.__code__.co_names)
    assert tensor_functions() - called == {
        *("all", "any", "argmax", "argmin", "argsort"),  # of truth values and positions, without gradients
        "as_tensor",
        "cast",  # that to smaller floats is tested with them
        *("materialize", "virtual"),  # the same expression
        *("normal", "uniform", "threefry4x32", "to_uint4x32"),  # random words, without gradients
        *("uint4x32_to_prec_uniform", "uint4x32_to_prec_uniform1"),
        "one_hot",
        "stop_gradient",
    }


def tensor_functions() -> set[str]:
    """The public functions that make a tensor of tensors; those of the table of operators are apart."""
    found: set[str] = set()
    for name in oc.__all__:
        function = getattr(oc, name)
        if inspect.isfunction(function):
            signature = inspect.signature(function)
            given = " ".join(str(p.annotation) for p in signature.parameters.values())
            if signature.return_annotation == "Tensor" and "TensorLike" in given:
                found.add(name)
    return found


def param(name: str, array: Array, **rows: Any) -> oc.Tensor:
    return oc.param(
        name, array, **({"output": list(array.shape), "input": [], "batch": []} | rows), dtype=np.float64
    )


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
