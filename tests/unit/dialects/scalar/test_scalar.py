"""Every entry of the table of scalar operators, and terms over them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arith_interpreter import Array, lowered, run
from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Attribute, SSAValue

from ocannl.dialects.scalar import SCALAR_OPS, UNARY, ScalarOp, accumulators
from ocannl.dialects.scalar.arith_builder import ArithBuilder, ScalarType
from ocannl.dialects.scalar.kinds import TRUTHS, WHOLE
from ocannl.dialects.scalar.term_lowering import TermLowering, converted
from ocannl.dialects.scalar.terms import (
    App,
    Arg,
    Const,
    Term,
    arguments,
    derivative,
    evaluate,
    simplify,
    substitute,
)
from ocannl.passes.loops.expand_math import ExpandMathPass

FLOAT_OPS = [op for op in SCALAR_OPS.values() if op.kind not in WHOLE]
TABLE = pytest.mark.parametrize("op", FLOAT_OPS, ids=[op.name for op in FLOAT_OPS])
TYPES = pytest.mark.parametrize(
    ("type_", "dtype"), [(f32, np.float32), (f64, np.float64)], ids=["f32", "f64"]
)
POSITIVE = {"acosh", "log", "log10", "log1p", "log2", "sqrt", "recip_sqrt", "pow"}
NEAR_ZERO = {"asin", "acos", "atanh", "tan"}
"""Their slopes are infinite at 1, or at pi / 2."""
X, Y, Z = Arg(0), Arg(1), Arg(2)


def app(op: str, *args: Term) -> App:
    return App(op, args)


def whole(op: ScalarOp) -> App:
    return App(op.name, tuple(map(Arg, range(op.arity))))


def smooth_points(op: ScalarOp, count: int = 200) -> list[Array]:
    """Operands away from the kinks, which all lie at multiples of 1/2."""
    random = np.random.default_rng(3)
    magnitude = random.uniform(0.1, 0.4, (op.arity, count)) + random.integers(0, 4, (op.arity, count)) / 2
    sign = 1.0 if op.name in POSITIVE else random.choice([-1.0, 1.0], (op.arity, count))
    return list(magnitude * sign / (2.0 if op.name in NEAR_ZERO else 1.0) + (op.name == "acosh"))


def derived(term: Term, wrt: int, result: int | None = None) -> Term:
    """The derivative, as a number where it is identically zero."""
    found = derivative(term, wrt, result)
    return Const(0.0) if found is None else found


def slope(term: Term, args: list[Array], wrt: int) -> Array:
    """The central finite difference."""
    h = 1e-6
    sides = ([a + s * h if i == wrt else a for i, a in enumerate(args)] for s in (1, -1))
    above, below = (evaluate(term, side) for side in sides)
    return (above - below) / (2 * h)


@TABLE
def test_derivatives_are_slopes(op: ScalarOp) -> None:
    args = smooth_points(op)
    result = evaluate(whole(op), args)
    assert len(op.derivative) == op.arity
    for wrt, partial in enumerate(op.derivative):
        expected = np.broadcast_to(slope(whole(op), args, wrt), result.shape)
        value = np.broadcast_to(evaluate(partial, [*args, result]), result.shape)
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-6)


@TABLE
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reference_keeps_the_dtype(op: ScalarOp, dtype: type) -> None:
    args = [a.astype(dtype) for a in smooth_points(op)]
    is_truth = op.kind in TRUTHS
    assert op.reference(*args).dtype == (np.bool_ if is_truth else dtype)


SPECIAL = [0.0, -0.0, 0.25, -0.25, 0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.0, 7.0, math.inf, -math.inf, math.nan]


def emitter(term: Term, type_: ScalarType) -> Callable[..., SSAValue]:
    """Appends the operations of a term over floats of one type."""

    def emit(builder: ArithBuilder, *operands: SSAValue) -> SSAValue:
        def operand(index: int, wanted: Attribute) -> SSAValue:
            return converted(builder, operands[index], type_, wanted)

        return TermLowering(builder, [type_] * len(operands), operand).value(term, type_)

    return emit


@pytest.mark.sampled(3)
@TABLE
@TYPES
def test_lowering_is_the_reference(op: ScalarOp, type_: Any, dtype: type) -> None:
    args = [a.ravel() for a in np.meshgrid(*[np.array(SPECIAL, dtype)] * op.arity)]
    result = run(lowered(emitter(whole(op), type_), op.arity, type_, ExpandMathPass()), args)
    with np.errstate(all="ignore"):
        expected = op.reference(*args)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(result, expected, rtol=3 * eps, atol=eps)


@pytest.mark.parametrize("op", accumulators(), ids=lambda op: op.name)
def test_neutral_elements_are_neutral(op: ScalarOp) -> None:
    logical = op.name in ("or", "and")
    x = np.array([0.0, 1.0] if logical else [0.0, 1.5, -2.0, math.inf, -math.inf, math.nan])
    neutral = np.full_like(x, op.neutral)
    np.testing.assert_array_equal(op.reference(neutral, x), x)
    np.testing.assert_array_equal(op.reference(x, neutral), x)


def test_accumulators() -> None:
    assert {op.name for op in accumulators()} == {"add", "mul", "max", "min", "or", "and"}


@TYPES
def test_remainders_are_exact(type_: Any, dtype: type) -> None:
    """Of operands of all magnitudes, near and far apart, and of those that are multiples."""
    random = np.random.default_rng(5)
    info = np.finfo(dtype)
    low, high = np.log2(info.smallest_subnormal), np.log2(info.max)

    def numbers(low: float, high: float) -> Array:
        sign = random.choice([-1.0, 1.0], 3000)
        return (np.exp2(random.uniform(low, high, 3000)) * sign).astype(dtype)

    x = np.concatenate([numbers(low, high), numbers(-3, 13), numbers(low, high)])
    y = np.concatenate([numbers(low, high), numbers(-3, 5), np.full(3000, 3, dtype)])
    with np.errstate(all="ignore"):
        x, y = np.append(x, y * 7), np.append(y, y)
        expected = np.mod(x, y)
    result = run(lowered(SCALAR_OPS["mod"].emit, 2, type_, ExpandMathPass()), [x, y])
    assert same_bits(result, expected)
    by_3 = run(
        lowered(lambda b, x: SCALAR_OPS["mod"].emit(b, x, b.const(3.0)), 1, type_, ExpandMathPass()), [x]
    )
    with np.errstate(all="ignore"):
        assert same_bits(by_3, np.mod(x, dtype(3)))


FUNCTIONS = ["neg", "sin", "cos", "tanh", "sigmoid", "erf", "id"]
LEAVES = st.sampled_from([X, Y, Z, Const(0.0), Const(1.0), Const(-1.0), Const(0.5)])


def larger(terms: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    return st.one_of(
        st.builds(app, st.sampled_from(FUNCTIONS), terms),
        st.builds(app, st.sampled_from(["add", "sub", "mul", "fst", "snd"]), terms, terms),
        st.builds(app, st.sampled_from(["fma", "mul3"]), terms, terms, terms),
        st.builds(lambda t, n: app("pow", t, Const(n)), terms, st.sampled_from([0.0, 1.0, 2.0, 3.0])),
    )


TERMS = st.recursive(LEAVES, larger, max_leaves=6)
POINTS = [np.array(p) for p in ([0.3, -0.7, 0.9], [-0.2, 0.8, 0.4], [0.6, 0.5, -0.3])]


@settings(deadline=None)
@given(TERMS, st.integers(0, 2))
def test_chain_rule(term: Term, wrt: int) -> None:
    expected = np.broadcast_to(slope(term, POINTS, wrt), (3,))
    value = evaluate(derived(term, wrt), POINTS)
    np.testing.assert_allclose(np.broadcast_to(value, (3,)), expected, rtol=1e-5, atol=1e-5)
    with_result = evaluate(derived(term, wrt, result=3), [*POINTS, evaluate(term, POINTS)])
    np.testing.assert_allclose(with_result, value, rtol=1e-9, atol=1e-9)


@settings(deadline=None)
@given(TERMS)
def test_simplified_terms_are_equal(term: Term) -> None:
    smaller = simplify(term)
    assert simplify(smaller) == smaller
    assert arguments(smaller) <= arguments(term)
    np.testing.assert_allclose(evaluate(smaller, POINTS), evaluate(term, POINTS), rtol=1e-12, atol=1e-12)


def same_bits(found: Array, expected: Array) -> bool:
    """Whether numbers are equal with the signs of zeros; all NaNs are equal."""
    numbers = ~np.isnan(expected)
    return np.array_equal(found, expected, equal_nan=True) and np.array_equal(
        np.signbit(found[numbers]), np.signbit(expected[numbers])
    )


ROUNDED_OTHERWISE = {"pow", "mul3", *(op.name for op in UNARY)}
"""Functions of constants are computed in double precision, powers by multiplication."""


@TABLE
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constants_are_folded_for_all_operands(op: ScalarOp, dtype: type) -> None:
    """Each operand as a constant, each other one with every special value."""
    info = np.finfo(dtype)
    values = [*SPECIAL, *(float(x) for x in (info.tiny, info.smallest_subnormal, info.max, -info.max))]
    args = [a.ravel() for a in np.meshgrid(*[np.array(values, dtype)] * op.arity)]
    for place in range(op.arity):
        for value in values:
            constant = app(op.name, *(Const(value) if i == place else Arg(i) for i in range(op.arity)))
            expected = np.broadcast_to(evaluate(constant, args), args[0].shape)
            found = np.broadcast_to(evaluate(simplify(constant), args), args[0].shape)
            if op.name in ROUNDED_OTHERWISE:
                with np.errstate(over="ignore"):
                    np.testing.assert_allclose(found, expected, rtol=4 * info.eps, atol=info.tiny)
            else:
                assert same_bits(found, expected), (str(constant), str(simplify(constant)))


@pytest.mark.parametrize(
    "term",
    [
        app("neg", app("sub", X, Y)),
        app("neg", app("mul", Const(2.0), X)),
        app("add", app("neg", X), Y),
        app("sub", X, app("neg", Y)),
        app("mul", app("lt", X, Y), Const(0.0)),
        app("mul", app("lt", X, Y), Const(-0.0)),
        app("mul", app("mul", Const(0.0), X), Const(3.0)),
        app("mul", app("mul", Const(1e200), X), Const(1e200)),
        app("mul", app("mul", Const(1e-200), X), Const(1e-200)),
        app("fma", X, Const(0.0), Y),
        app("fma", X, Y, Const(0.0)),
        app("fma", X, Const(1.0), Const(0.0)),
        app("mul3", X, Y, Const(0.0)),
        app("where", X, Const(0.0), Const(-0.0)),
        app("relu_gate", X, Const(-0.0)),
        app("sub", Const(0.0), app("sub", X, Y)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_simplified_terms_are_equal_at_special_values(term: Term, dtype: type) -> None:
    args = [a.ravel() for a in np.meshgrid(*[np.array(SPECIAL, dtype)] * 2)]
    found, expected = (np.broadcast_to(evaluate(t, args), args[0].shape) for t in (simplify(term), term))
    assert same_bits(found, expected), str(simplify(term))


def test_constants_are_equal_as_they_are_written() -> None:
    assert Const(0.0) != Const(-0.0)
    assert Const(math.nan) == Const(float("nan"))
    signs = app("add", app("div", X, Const(0.0)), app("div", X, Const(-0.0)))
    np.testing.assert_array_equal(evaluate(signs, [np.ones(1)]), [math.nan])


@settings(deadline=None)
@given(TERMS)
def test_lowered_terms_are_equal(term: Term) -> None:
    result = run(lowered(emitter(term, f64), 3, f64, ExpandMathPass()), POINTS)
    expected = np.broadcast_to(evaluate(term, POINTS), result.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (app("relu", X), "relu_gate($0, 1.0)"),
        (app("relu", app("add", X, app("mul", X, Y))), "relu_gate(add($0, mul($0, $1)), add(1.0, $1))"),
        (app("pow", X, Const(2.0)), "mul(2.0, $0)"),
        (app("div", X, Y), "recip($1)"),
        (app("floor", X), "None"),
        (app("mul", Y, Z), "None"),
        (app("mul", X, Const(0.0)), "0.0"),
        (app("pow", X, Const(0.0)), "None"),
        (app("mul", app("floor", X), app("log", Y)), "None"),
        (app("exp", app("neg", X)), "neg(exp(neg($0)))"),
        (app("where", Y, app("tanh", X), Z), "where($1, sub(1.0, mul(tanh($0), tanh($0))), 0.0)"),
    ],
    ids=str,
)
def test_derivatives_are_simple(term: Term, expected: str) -> None:
    assert str(derivative(term, 0)) == expected


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("exp", "$1"),
        ("relu", "relu_gate($1, 1.0)"),
        ("sqrt", "div(0.5, $1)"),
        ("recip", "neg(mul($1, $1))"),
        ("tanh", "sub(1.0, mul($1, $1))"),
        ("sigmoid", "mul($1, sub(1.0, $1))"),
    ],
)
def test_derivatives_reuse_the_result(op: str, expected: str) -> None:
    assert str(derivative(app(op, X), 0, result=1)) == expected


def test_terms_print_and_substitute() -> None:
    term = app("mul", X, app("neg", app("div", Y, Z)))
    assert str(term) == "mul($0, neg(div($1, $2)))"
    assert str(substitute(term, {0: Y, 1: X})) == "mul($1, neg(div($0, $2)))"
    assert arguments(term) == {0, 1, 2}


def test_power_has_the_derivatives_of_pytorch() -> None:
    base, exponent = np.array([0.0, 0.0, 0.0, 2.0]), np.array([0.0, 2.0, 1.0, 0.0])
    power = app("pow", X, Y)
    np.testing.assert_array_equal(evaluate(derived(power, 0), [base, exponent]), [0, 0, 1, 0])
    np.testing.assert_allclose(evaluate(derived(power, 1), [base, exponent]), [0, 0, 0, math.log(2)])


@pytest.mark.parametrize("op", ["max", "min"])
def test_ties_give_their_gradient_to_the_first_operand(op: str) -> None:
    tie = [np.array([2.0]), np.array([2.0])]
    partials = [evaluate(derived(app(op, X, Y), wrt), tie) for wrt in (0, 1)]
    np.testing.assert_array_equal(partials, [[1.0], [0.0]])
