"""Elementary functions of floats in the table of scalar operators."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.ir import SSAValue

from ocannl.dialects.scalar import integer_lowerings as integers
from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.dialects.scalar.kinds import Kind
from ocannl.dialects.scalar.lowerings import emit_op
from ocannl.dialects.scalar.remainder_op import RemainderOp
from ocannl.dialects.scalar.scalar_op import binary, unary
from ocannl.dialects.scalar.term_type import ONE, ZERO, Arg, app

A, B, C = Arg(0), Arg(1), Arg(2)


def _emit_isinf(b: ArithBuilder, x: SSAValue) -> SSAValue:
    return b.cmp("oeq", b.float_op(math_dialect.AbsFOp, x), b.const(math.inf))


def _emit_isfinite(b: ArithBuilder, x: SSAValue) -> SSAValue:
    return b.cmp("olt", b.float_op(math_dialect.AbsFOp, x), b.const(math.inf))


def _emit_asinh(b: ArithBuilder, x: SSAValue) -> SSAValue:
    """`log(a + sqrt(a * a + 1))` of the magnitude, whose root less 1 is `a * a / (1 + sqrt(a * a + 1))`."""
    a = b.float_op(math_dialect.AbsFOp, x)
    square = b.mul(a, a)
    root = b.float_op(math_dialect.SqrtOp, b.add(square, b.const(1.0)))
    near = b.add(a, b.div(square, b.add(root, b.const(1.0))))
    return b.float_op(math_dialect.CopySignOp, _log1p_or_log_of_double(b, near, a), x)


def _emit_acosh(b: ArithBuilder, x: SSAValue) -> SSAValue:
    """`log(x + sqrt(x * x - 1))`, by `t = x - 1`: the root is `sqrt(t) * sqrt(t + 2)`, NaN below 1."""
    t = b.sub(x, b.const(1.0))
    further = b.float_op(math_dialect.SqrtOp, b.add(t, b.const(2.0)))
    near = b.add(t, b.mul(b.float_op(math_dialect.SqrtOp, t), further))
    return _log1p_or_log_of_double(b, near, x)


def _log1p_or_log_of_double(b: ArithBuilder, near: SSAValue, x: SSAValue) -> SSAValue:
    """`log(1 + near)`, or `log(2 * x)` for large numbers, whose squares are infinite."""
    far = b.add(b.float_op(math_dialect.LogOp, x), b.const(math.log(2)))
    return b.select(b.cmp("ogt", x, b.const(1e9)), far, b.float_op(math_dialect.Log1pOp, near))


def _emit_atanh(b: ArithBuilder, x: SSAValue) -> SSAValue:
    """`log((1 + a) / (1 - a)) / 2` of the magnitude."""
    a = b.float_op(math_dialect.AbsFOp, x)
    ratio = b.div(b.add(a, a), b.sub(b.const(1.0), a))
    half = b.mul(b.const(0.5), b.float_op(math_dialect.Log1pOp, ratio))
    return b.float_op(math_dialect.CopySignOp, half, x)


def _emit_logaddexp(b: ArithBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """The greater, and `log1p(exp(-d))` for the distance d, which is 0 of equal infinities."""
    distance = b.select(b.cmp("oeq", x, y), b.const(0.0), b.float_op(math_dialect.AbsFOp, b.sub(x, y)))
    small = b.float_op(math_dialect.ExpOp, b.neg(distance))
    return b.add(b.float_op(arith.MaximumfOp, x, y), b.float_op(math_dialect.Log1pOp, small))


def _fmod_of_integers(b: ArithBuilder, unsigned: bool, x: SSAValue, y: SSAValue) -> SSAValue:
    safe, _, _ = integers.divisor(b, unsigned, y)
    return b.bit_op(arith.RemUIOp if unsigned else arith.RemSIOp, x, safe)


UNARY_FUNCTIONS = (
    unary("tan", np.tan, app("add", 1, app("mul", B, B)), emit_op(math_dialect.TanOp)),
    unary(
        "asin", np.arcsin, app("recip_sqrt", app("sub", 1, app("mul", A, A))), emit_op(math_dialect.AsinOp)
    ),
    unary(
        "acos",
        np.arccos,
        app("neg", app("recip_sqrt", app("sub", 1, app("mul", A, A)))),
        emit_op(math_dialect.AcosOp),
    ),
    unary("atan", np.arctan, app("recip", app("add", 1, app("mul", A, A))), emit_op(math_dialect.AtanOp)),
    unary("sinh", np.sinh, app("cosh", A), emit_op(math_dialect.SinhOp)),
    unary("cosh", np.cosh, app("sinh", A), emit_op(math_dialect.CoshOp)),
    unary("asinh", np.arcsinh, app("recip_sqrt", app("add", app("mul", A, A), 1)), _emit_asinh),
    unary("acosh", np.arccosh, app("recip_sqrt", app("sub", app("mul", A, A), 1)), _emit_acosh),
    unary("atanh", np.arctanh, app("recip", app("sub", 1, app("mul", A, A))), _emit_atanh),
    unary("log1p", np.log1p, app("recip", app("add", 1, A)), emit_op(math_dialect.Log1pOp)),
    unary("expm1", np.expm1, app("add", B, 1), emit_op(math_dialect.ExpM1Op)),
    unary("log10", np.log10, app("div", 1 / math.log(10), A), emit_op(math_dialect.Log10Op)),
    unary(
        "trunc",
        np.trunc,
        ZERO,
        emit_op(math_dialect.TruncOp),
        kind=Kind.CHOICE,
        integers=lambda b, unsigned, x: x,
    ),
    unary("isnan", np.isnan, ZERO, lambda b, x: b.cmp("une", x, x), kind=Kind.TEST),
    unary("isinf", np.isinf, ZERO, _emit_isinf, kind=Kind.TEST),
    unary("isfinite", np.isfinite, ZERO, _emit_isfinite, kind=Kind.TEST),
)

SQUARE = app("add", app("mul", A, A), app("mul", B, B))

BINARY_FUNCTIONS = (
    binary(
        "atan2",
        np.arctan2,
        (app("div", B, SQUARE), app("neg", app("div", A, SQUARE))),
        emit_op(math_dialect.Atan2Op),
    ),
    binary(  # as in PyTorch, the derivative at zero is zero
        "copysign",
        np.copysign,
        (app("mul", app("sign", A), app("copysign", 1, B)), ZERO),
        emit_op(math_dialect.CopySignOp),
    ),
    binary(  # with the sign of the dividend
        "fmod",
        np.fmod,
        (ONE, app("neg", app("trunc", app("div", A, B)))),
        lambda b, x, y: b.bit_op(RemainderOp, x, y),
        Kind.ARITHMETIC,
        _fmod_of_integers,
    ),
    binary(
        "logaddexp",
        np.logaddexp,
        (app("sigmoid", app("sub", A, B)), app("sigmoid", app("sub", B, A))),
        _emit_logaddexp,
    ),
)
