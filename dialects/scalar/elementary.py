"""Elementary functions of floats in the table of scalar operators."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects import math as math_dialect
from xdsl.ir import SSAValue

from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.dialects.scalar.kinds import Kind
from ocannl.dialects.scalar.lowerings import emit_op
from ocannl.dialects.scalar.scalar_op import binary, unary
from ocannl.dialects.scalar.term_type import ZERO, Arg, app

A, B, C = Arg(0), Arg(1), Arg(2)


def _emit_isinf(b: ArithBuilder, x: SSAValue) -> SSAValue:
    return b.cmp("oeq", b.float_op(math_dialect.AbsFOp, x), b.const(math.inf))


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
)
