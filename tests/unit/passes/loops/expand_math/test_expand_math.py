"""The expansions, run by NumPy operation by operation, against mpmath."""

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from support.arith_interpreter import Array, lowered, run
from xdsl.context import Context
from xdsl.dialects import arith, test
from xdsl.dialects.builtin import ModuleOp, f32, f64
from xdsl.dialects.math import ExpOp

from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.passes.loops.expand_math import ExpandMathPass

Real = Any  # an mpmath number: the library has no types
SAMPLES = 1500
RANDOM = np.random.default_rng(7)


def apply(name: str, *args: Array) -> Array:
    type_ = f32 if args[0].dtype == np.float32 else f64
    operator = SCALAR_OPS[name]
    return run(lowered(operator.emit, operator.arity, type_, ExpandMathPass()), args)


def ulps(got: Array, exact: list[Real]) -> float:
    """The largest error in units in the last place; results that overflow do not count."""
    info = np.finfo(got.dtype)
    worst = 0.0
    for value, reference in zip(got, exact, strict=True):
        if abs(reference) <= info.max:
            unit = float(np.spacing(got.dtype.type(abs(float(reference)))))
            worst = max(worst, float(abs(mpmath.mpf(float(value)) - reference)) / unit)
    return worst


def samples(dtype: type, low: float, high: float) -> Array:
    return RANDOM.uniform(low, high, SAMPLES).astype(dtype)


def log_samples(dtype: type, low: float, high: float) -> Array:
    return np.exp2(RANDOM.uniform(math.log2(low), math.log2(high), SAMPLES)).astype(dtype)


def signed(x: Array) -> Array:
    return np.concatenate([x, -x])


def sigmoid(x: Real) -> Real:
    return 1 / (1 + mpmath.exp(-x))


def tiny_and_max(dtype: type) -> tuple[float, float]:
    return float(np.finfo(dtype).tiny), float(np.finfo(dtype).max)


EXACT: dict[str, Callable[..., Real]] = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.power(2, x),
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "sigmoid": sigmoid,
    "tan": mpmath.tan,
    "asin": mpmath.asin,
    "acos": mpmath.acos,
    "atan": mpmath.atan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "expm1": mpmath.expm1,
    "log1p": mpmath.log1p,
    "log10": mpmath.log10,
}
BOUNDS = {
    "exp": 1.0,
    "exp2": 1.0,
    "log": 1.0,
    "log2": 2.0,
    "sin": 2.0,
    "cos": 2.0,
    "tanh": 3.0,
    "erf": 2.0,
    "sigmoid": 3.0,
    "tan": 4.0,
    "asin": 3.0,
    "acos": 2.0,
    "atan": 2.0,
    "sinh": 3.0,
    "cosh": 2.0,
    "expm1": 3.0,
    "log1p": 2.0,
    "log10": 2.0,
}
PERIODIC = ("sin", "cos", "tan")


def inputs(name: str, dtype: type) -> Array:
    tiny, largest = tiny_and_max(dtype)
    below = math.log2(np.finfo(dtype).smallest_subnormal) - 2
    single = dtype is np.float32
    exponent = 128.0 if single else 1024.0
    match name:
        case "exp" | "sigmoid":
            limit = exponent * math.log(2)
            underflow = samples(dtype, below * math.log(2), -limit)
            return np.concatenate(
                [samples(dtype, -limit, limit), underflow, signed(log_samples(dtype, tiny, 1))]
            )
        case "exp2":
            underflow = samples(dtype, below, -exponent)
            near_0 = signed(log_samples(dtype, tiny, 1))
            return np.concatenate([samples(dtype, -exponent, exponent), underflow, near_0])
        case "sinh" | "cosh" | "expm1":
            limit = (exponent - (name == "expm1")) * math.log(2)
            small = signed(log_samples(dtype, tiny, 1))
            return np.concatenate([samples(dtype, -limit, limit), samples(dtype, -3, 3), small])
        case "asin" | "acos":
            near_1 = 1 - log_samples(dtype, 2.0**-20, 0.5)
            return np.concatenate(
                [samples(dtype, -1, 1), signed(near_1), signed(log_samples(dtype, tiny, 1))]
            )
        case "atan":
            return np.concatenate([samples(dtype, -3, 3), signed(log_samples(dtype, tiny, largest))])
        case "log1p":
            near_0 = signed(log_samples(dtype, tiny, 0.99))
            return np.concatenate([log_samples(dtype, tiny, largest), samples(dtype, -0.99, 2), near_0])
        case "log" | "log2" | "log10":
            near_1 = samples(dtype, 0.5, 2)
            denormal = samples(dtype, 0, tiny)
            return np.concatenate([log_samples(dtype, tiny, largest), near_1, denormal[denormal > 0]])
        case "sin" | "cos" | "tan":
            multiples = np.arange(-400, 400) * (math.pi / 2)
            limit = float(np.finfo(dtype).max)
            wide = signed(log_samples(dtype, tiny, limit))
            # Nearer to a multiple of pi / 2 than all other numbers of their type.
            hardest = [16367173 * 2.0**72] if single else [6381956970095103 * 2.0**797]
            far = signed(np.array([*hardest, limit, 2.0**18, 2.0**45, 1e8, 1e22], dtype))
            return np.concatenate([samples(dtype, -7, 7), wide, multiples.astype(dtype), far])
        case _:
            return np.concatenate(
                [samples(dtype, -7, 7), samples(dtype, -1, 1), signed(log_samples(dtype, tiny, 20))]
            )


@pytest.mark.exhaustive
@pytest.mark.sampled(9)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", EXACT)
def test_error_of_unary(name: str, dtype: type) -> None:
    x = inputs(name, dtype)
    with mpmath.workdps(400 if name in PERIODIC else 60):
        exact = [EXACT[name](mpmath.mpf(float(v))) for v in x]
        assert ulps(apply(name, x), exact) <= BOUNDS[name]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_error_of_pow(dtype: type) -> None:
    tiny, largest = tiny_and_max(dtype)
    base = np.concatenate([log_samples(dtype, tiny, largest), samples(dtype, 0.5, 2)])
    limit = 127 if dtype is np.float32 else 1023
    below = math.log2(np.finfo(dtype).smallest_subnormal) - 2
    y = (RANDOM.uniform(below, limit, base.size) / np.abs(np.log2(base.astype(np.float64)))).astype(dtype)
    with mpmath.workdps(60):
        exact = [mpmath.power(float(a), float(c)) for a, c in zip(base, y, strict=True)]
        assert ulps(apply("pow", base, y), exact) <= 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_that_are_numbers_are_exact(dtype: type) -> None:
    """Whole bases to whole exponents, and powers of two, also denormal."""
    limit = 2 ** (np.finfo(dtype).nmant + 1)
    base, exponent = np.meshgrid(np.arange(1.0, 1000), np.arange(0.0, 60))
    whole = base**exponent <= limit
    base, exponent = np.append(base[whole], 5 * 2.0**40), np.append(exponent[whole], 2)
    scaled = np.concatenate([base, base * 0.25, base * -8])
    exponents = np.concatenate([exponent] * 3)
    with np.errstate(over="ignore", under="ignore"):
        expected = (scaled**exponents).astype(dtype)
    found = apply("pow", scaled.astype(dtype), exponents.astype(dtype))
    np.testing.assert_array_equal(found, expected)
    tiny = float(np.finfo(dtype).smallest_subnormal)
    powers = np.array([1.0, math.log2(tiny), math.log2(tiny) + 3])
    expected = np.array([2.0, tiny, tiny * 8], dtype)
    np.testing.assert_array_equal(apply("pow", np.full(3, 2.0, dtype), powers.astype(dtype)), expected)
    ends = np.array([tiny, tiny * 5, tiny * 1234567, np.finfo(dtype).max], dtype)
    np.testing.assert_array_equal(apply("pow", ends, np.ones(4, dtype)), ends)


INF, NAN = math.inf, math.nan
SPECIAL: dict[str, dict[float, float]] = {
    "exp": {0.0: 1, -INF: 0, INF: INF, NAN: NAN, 1e4: INF, -1e4: 0},
    "exp2": {0.0: 1, -INF: 0, INF: INF, NAN: NAN, 1e4: INF, -1e4: 0, 10.0: 1024, -3.0: 0.125},
    "log": {0.0: -INF, 1.0: 0, INF: INF, NAN: NAN, -1.0: NAN, -INF: NAN},
    "log2": {0.0: -INF, 1.0: 0, 8.0: 3, 0.25: -2, INF: INF, NAN: NAN, -1.0: NAN, -INF: NAN},
    "sin": {0.0: 0, INF: NAN, -INF: NAN, NAN: NAN},
    "cos": {0.0: 1, INF: NAN, -INF: NAN, NAN: NAN},
    "tanh": {0.0: 0, 30.0: 1, INF: 1, -INF: -1, NAN: NAN},
    "erf": {0.0: 0, 30.0: 1, INF: 1, -INF: -1, NAN: NAN},
    "sigmoid": {0.0: 0.5, INF: 1, -INF: 0, NAN: NAN, -1e4: 0, 1e4: 1},
    "tan": {0.0: 0, INF: NAN, -INF: NAN, NAN: NAN},
    "asin": {0.0: 0, 1.0: math.pi / 2, -1.0: -math.pi / 2, 1.5: NAN, -INF: NAN, NAN: NAN},
    "acos": {0.0: math.pi / 2, 1.0: 0, -1.0: math.pi, 1.5: NAN, INF: NAN, NAN: NAN},
    "atan": {0.0: 0, INF: math.pi / 2, -INF: -math.pi / 2, 1.0: math.pi / 4, NAN: NAN},
    "sinh": {0.0: 0, INF: INF, -INF: -INF, 1e4: INF, -1e4: -INF, NAN: NAN},
    "cosh": {0.0: 1, INF: INF, -INF: INF, -1e4: INF, NAN: NAN},
    "expm1": {0.0: 0, INF: INF, -INF: -1, 1e4: INF, -1e4: -1, NAN: NAN},
    "log1p": {0.0: 0, -1.0: -INF, INF: INF, -1.5: NAN, -INF: NAN, NAN: NAN},
    "log10": {0.0: -INF, 1.0: 0, INF: INF, NAN: NAN, -1.0: NAN, -INF: NAN},
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str, dtype: type) -> None:
    x = np.array(list(SPECIAL[name]), dtype)
    np.testing.assert_array_equal(apply(name, x), np.array(list(SPECIAL[name].values()), dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["sin", "tan", "asin", "atan", "sinh", "tanh", "expm1", "log1p", "erf"])
def test_odd_functions_keep_the_sign_of_zero(name: str, dtype: type) -> None:
    result = apply(name, np.array([-0.0, 0.0], dtype))
    np.testing.assert_array_equal(np.signbit(result), [True, False])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_values_of_pow(dtype: type) -> None:
    values = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 2.5, -2.5, INF, -INF, NAN]
    values += [float(np.finfo(dtype).smallest_subnormal), -float(np.finfo(dtype).smallest_subnormal)]
    x, y = (a.ravel() for a in np.meshgrid(np.array(values, dtype), np.array(values, dtype)))
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    result = apply("pow", x, y)
    np.testing.assert_allclose(result, expected, rtol=2 * np.finfo(dtype).eps)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_atan2(dtype: type) -> None:
    """Of points at all distances, and of zeros, infinities and NaN with either sign."""
    tiny, largest = tiny_and_max(dtype)
    y = np.concatenate([signed(log_samples(dtype, tiny, largest)), samples(dtype, -1, 1)])
    x = RANDOM.permutation(y)
    with mpmath.workdps(60):
        exact = [mpmath.atan2(float(a), float(c)) for a, c in zip(y, x, strict=True)]
        assert ulps(apply("atan2", y, x), exact) <= 3.0
    values = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, np.finfo(dtype).smallest_subnormal], dtype)
    y, x = (a.ravel() for a in np.meshgrid(values, values))
    found, expected = apply("atan2", y, x), np.arctan2(y, x)
    np.testing.assert_allclose(found, expected, rtol=2 * np.finfo(dtype).eps)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("type_", [f32, f64])
def test_constants_are_shared_in_a_block(type_: Any) -> None:
    source = test.TestOp(result_types=[type_])
    first = ExpOp(source.results[0])
    second = ExpOp(first)
    module = ModuleOp([source, first, second])
    ExpandMathPass().apply(Context(), module)
    module.verify()
    constants = [op.value for op in module.walk() if isinstance(op, arith.ConstantOp)]
    assert len(constants) == len(set(constants))
