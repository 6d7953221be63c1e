"""Entries of the table of scalar operators for elementary functions of floats: name, NumPy reference,
derivatives, lowering.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import math as math_dialect
from xdsl.ir import SSAValue

from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.dialects.scalar.lowerings import EmitBinary, EmitUnary, emit_op
from ocannl.dialects.scalar.term_type import ZERO, Arg, Term, app

Array: TypeAlias = NDArray[Any]
UnaryEntry: TypeAlias = tuple[str, Callable[[Array], Array], Term, EmitUnary]
BinaryEntry: TypeAlias = tuple[str, Callable[[Array, Array], Array], tuple[Term, Term], EmitBinary]

A, B, C = Arg(0), Arg(1), Arg(2)


def _emit_isnan(b: ArithBuilder, x: SSAValue) -> SSAValue:
    return b.truth(b.cmp("une", x, x))


def _emit_isinf(b: ArithBuilder, x: SSAValue) -> SSAValue:
    return b.truth(b.cmp("oeq", b.float_op(math_dialect.AbsFOp, x), b.const(math.inf)))


UNARY_ENTRIES: tuple[UnaryEntry, ...] = (
    ("tan", np.tan, app("add", 1, app("mul", B, B)), emit_op(math_dialect.TanOp)),
    ("asin", np.arcsin, app("recip_sqrt", app("sub", 1, app("mul", A, A))), emit_op(math_dialect.AsinOp)),
    (
        "acos",
        np.arccos,
        app("neg", app("recip_sqrt", app("sub", 1, app("mul", A, A)))),
        emit_op(math_dialect.AcosOp),
    ),
    ("atan", np.arctan, app("recip", app("add", 1, app("mul", A, A))), emit_op(math_dialect.AtanOp)),
    ("sinh", np.sinh, app("cosh", A), emit_op(math_dialect.SinhOp)),
    ("cosh", np.cosh, app("sinh", A), emit_op(math_dialect.CoshOp)),
    ("log1p", np.log1p, app("recip", app("add", 1, A)), emit_op(math_dialect.Log1pOp)),
    ("expm1", np.expm1, app("add", B, 1), emit_op(math_dialect.ExpM1Op)),
    ("log10", np.log10, app("div", 1 / math.log(10), A), emit_op(math_dialect.Log10Op)),
    ("trunc", np.trunc, ZERO, emit_op(math_dialect.TruncOp)),
    ("isnan", lambda x: np.asarray(np.isnan(x), np.asarray(x).dtype), ZERO, _emit_isnan),
    ("isinf", lambda x: np.asarray(np.isinf(x), np.asarray(x).dtype), ZERO, _emit_isinf),
)

SQUARE = app("add", app("mul", A, A), app("mul", B, B))

BINARY_ENTRIES: tuple[BinaryEntry, ...] = (
    (
        "atan2",
        np.arctan2,
        (app("div", B, SQUARE), app("neg", app("div", A, SQUARE))),
        emit_op(math_dialect.Atan2Op),
    ),
    (  # as in PyTorch, the derivative at zero is zero
        "copysign",
        np.copysign,
        (app("mul", app("sign", A), app("copysign", 1, B)), ZERO),
        emit_op(math_dialect.CopySignOp),
    ),
)
