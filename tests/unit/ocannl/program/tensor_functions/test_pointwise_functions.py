"""A function of points is one operation, which computes what its operators compute one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.derivatives import data, value, values
from support.tensors import total

import ocannl as oc
from ocannl.dialects.texpr import ApplyOp
from ocannl.program.values import values_of

RNG = np.random.default_rng(5)


def spread(x: oc.Tensor, y: oc.TensorLike, rate: oc.TensorLike, least: float = 0.1) -> oc.Tensor:
    far = np.abs(x - y) * (1 - rate)
    return oc.where(x < y, oc.sqrt(far + least), -far) / (x * x + least) ** 2


one_operation = oc.pointwise(spread)


def test_it_is_one_operation_that_reads_each_tensor_once():
    x, y = data(RNG.normal(size=3)), data(RNG.normal(size=(2, 3)))
    op = one_operation(x, y, 0.5).ir_value.op
    assert isinstance(op, ApplyOp)
    assert values_of(op) == (x.ir_value, y.ir_value)


def adam(
    p: oc.Tensor, m: oc.Tensor, v: oc.Tensor, rate: oc.TensorLike, of_mean: oc.Tensor, decay: float
) -> oc.Tensor:
    return p - rate * (m / of_mean / (oc.sqrt(v / 0.5) + 1e-8) + decay * p)


@pytest.mark.parametrize("dtype", [oc.float32, oc.float64, oc.bfloat16, oc.float16])
def test_what_is_used_once_is_rounded_alike(dtype: Any):
    """To the bit, small floats and numbers included."""
    p, m, v, of_mean = (oc.data(RNG.random(size).astype(dtype)) for size in ((4, 5), (4, 5), (4, 5), ()))
    for rate in (oc.data(np.asarray(RNG.random(), dtype)), 0.25):
        found, expected = (value(f(p, m, v, rate, of_mean, 0.1)) for f in (oc.pointwise(adam), adam))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_values_are_those_of_its_operators(dtype: Any, tolerance: float):
    """To rounding: what is used twice is one value with several uses, or is part of each of them."""
    x, y, rate = (oc.data(RNG.normal(size=size).astype(dtype)) for size in ((4, 5), (5,), (4, 1)))
    for further in (rate, 0.25):
        found, expected = values(one_operation(x, y, further), spread(x, y, further))
        np.testing.assert_allclose(found, expected, rtol=tolerance)


def test_gradients_are_those_of_its_operators():
    x, y = data(RNG.normal(size=(2, 3))), data(RNG.normal(size=3))
    both = [oc.grad(total(f(x, y, rate=0.5)), [x, y]) for f in (one_operation, spread)]
    for found, expected in zip(*(values(*of) for of in both), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_in_eager_mode_it_is_the_function():
    with oc.eager():
        x = oc.tensor([1.0, 2.0])
        np.testing.assert_array_equal(one_operation(x, 3.0, 0.5).numpy(), spread(x, 3.0, 0.5).numpy())


def test_functions_of_points_use_each_other():
    @oc.pointwise
    def twice(x: oc.Tensor) -> oc.Tensor:
        return x + x

    @oc.pointwise
    def both(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
        return twice(x) * y

    x, y = data(RNG.normal(size=3)), data(RNG.normal(size=3))
    assert values_of(both(x, y).ir_value.op) == (x.ir_value, y.ir_value)
    found, expected = values(both(x, y), (x + x) * y)
    np.testing.assert_array_equal(found, expected)


def test_a_function_may_give_an_argument_or_a_number():
    x = data(RNG.normal(size=3))
    same: Callable[[oc.Tensor], oc.Tensor] = oc.pointwise(lambda x: x)
    assert same(x).ir_value is x.ir_value

    @oc.pointwise
    def three(x: oc.Tensor) -> Any:
        return 3.0

    np.testing.assert_array_equal(value(three(x)), 3.0)


def test_errors():
    x, y = data(RNG.normal(size=3)), data(RNG.normal(size=3))
    wrong: dict[str, Callable[[oc.Tensor], oc.Tensor]] = {
        "gets the tensors that it computes from as arguments": lambda x: x + y,
        "no products `@`": lambda x: x @ x,
        "a point has no `T`": lambda x: x.T,
        "found an object of type Point": lambda x: oc.einsum("a => ", x),
        "takes 2 operands, found 1|takes 2 tensors, found 1": lambda x: oc.maximum(x),
        "not by True and False": lambda x: oc.where(x < 0, True, x < 1),
        "no truth value": lambda x: x if x < 0 else -x,
    }
    for message, function in wrong.items():
        with pytest.raises(oc.ArgumentError, match=message):
            oc.pointwise(function)(x)
    with pytest.raises(
        oc.ArgumentError, match=r"test_pointwise_functions.py:\d+: .*missing a required argument: 'y'"
    ):
        oc.pointwise(lambda x, y: x * y)(x)  # pyright: ignore[reportCallIssue]
    with pytest.raises(oc.ArgumentError, match="makes an operation of a function, found 3"):
        oc.pointwise(3)  # pyright: ignore[reportArgumentType]
