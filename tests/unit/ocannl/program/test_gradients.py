"""Gradients against central differences in f64, away from kinks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from support.differentiable import FORMS, FUNCTIONS, LOGICS, TOTAL, Array, arrays_of
from support.operators import BELOW_ONE, FLOAT_OPERATORS, POSITIVE
from support.tensor_programs import Program, programs, rows_of
from support.tensor_values import Val

import ocannl as oc
from ocannl import train
from ocannl.dialects import texpr
from ocannl.dialects.shapes import spec, spec_parser
from ocannl.program.module.needed import needed

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
        sizes: dict[str, Any] = {
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


@pytest.mark.sampled(7)
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
        # In tests of their own.
        *("fixed_point", "logcumsumexp", "put_along_axis", "take_along_axis", "unfold"),
        "cast",  # that to smaller floats is tested with them
        *("materialize", "virtual"),  # the same expression
        *("normal", "uniform", "threefry4x32", "to_uint4x32"),  # random words, without gradients
        *("uint4x32_to_prec_uniform", "uint4x32_to_prec_uniform1"),
        "one_hot",
        "shard",
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
