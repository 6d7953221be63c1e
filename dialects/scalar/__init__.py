"""The table of scalar operators.

To add an operator is to add one entry to `SCALAR_OPS`. Every level and every target reads this table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.scalar.arith_builder import ArithBuilder, ScalarType
from ocannl.dialects.scalar.elementary import BINARY_ENTRIES, UNARY_ENTRIES
from ocannl.dialects.scalar.lowerings import (
    EmitBinary,
    EmitTernary,
    EmitUnary,
    emit_compare,
    emit_logic,
    emit_mod,
    emit_op,
    emit_recip,
    emit_relu_gate,
    emit_sat01,
    emit_sat01_gate,
    emit_sigmoid,
    emit_sign,
    is_nonzero,
)
from ocannl.dialects.scalar.term_type import ONE, ZERO, App, Arg, Const, Term, app

__all__ = [
    "BINARY",
    "ONE",
    "SCALAR_OPS",
    "TERNARY",
    "TRUTH_VALUES",
    "UNARY",
    "ZERO",
    "App",
    "Arg",
    "Array",
    "Const",
    "ScalarOp",
    "Term",
    "accumulators",
]

Array: TypeAlias = NDArray[Any]


Unary: TypeAlias = Callable[[Array], Array]
Binary: TypeAlias = Callable[[Array, Array], Array]
Ternary: TypeAlias = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True)
class ScalarOp:
    """One scalar operator.

    `reference` and `emit` have NumPy's semantics: NaN and infinities propagate, comparisons and logic give
    0 or 1 in the operands' dtype. `derivative` has one term per operand, over the operands `Arg(0)` ..
    `Arg(arity - 1)` and the result `Arg(arity)`.
    """

    name: str
    arity: int
    reference: Callable[..., Array]
    """NumPy arrays of one float dtype to an array of that dtype."""
    derivative: tuple[Term, ...]
    emit: Callable[..., SSAValue]
    """An `ArithBuilder` and the operands' values to the result's value."""
    symbol: str | None = None
    """Infix notation."""
    neutral: float | None = None
    """The neutral element, where the operator is associative and can accumulate."""

    def lower(self, operands: Sequence[SSAValue], type: ScalarType) -> list[Operation]:
        """New `arith` and `math` operations; the last one's result is the value.

        Empty for an operator that passes an operand through (`id`, `fst`, `snd`): `emit` has its value.
        """
        builder = ArithBuilder(type)
        self.emit(builder, *operands)
        return builder.ops


def _unary(name: str, reference: Unary, derivative: Term, emit: EmitUnary) -> ScalarOp:
    return ScalarOp(name, 1, reference, (derivative,), emit)


def _binary(
    name: str,
    reference: Binary,
    derivative: tuple[Term, Term],
    emit: EmitBinary,
    symbol: str | None = None,
    neutral: float | None = None,
) -> ScalarOp:
    return ScalarOp(name, 2, reference, derivative, emit, symbol, neutral)


def _ternary(
    name: str, reference: Ternary, derivative: tuple[Term, Term, Term], emit: EmitTernary
) -> ScalarOp:
    return ScalarOp(name, 3, reference, derivative, emit)


A, B, C = Arg(0), Arg(1), Arg(2)


def _truth(result: Array, like: Array) -> Array:
    return np.asarray(result, np.asarray(like).dtype)


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), np.asarray(x).dtype)


UNARY = (
    _unary("id", reference=np.positive, derivative=ONE, emit=lambda b, x: x),
    _unary(
        "relu",
        reference=lambda x: np.maximum(x, 0),
        derivative=app("relu_gate", B, 1),
        emit=lambda b, x: b.float_op(arith.MaximumfOp, x, b.const(0.0)),
    ),
    _unary(
        "sat01",
        reference=lambda x: np.minimum(np.maximum(x, 0), 1),
        derivative=app("sat01_gate", B, 1),
        emit=emit_sat01,
    ),
    _unary("exp", reference=np.exp, derivative=B, emit=emit_op(math_dialect.ExpOp)),
    _unary("log", reference=np.log, derivative=app("recip", A), emit=emit_op(math_dialect.LogOp)),
    _unary(
        "exp2", reference=np.exp2, derivative=app("mul", B, math.log(2)), emit=emit_op(math_dialect.Exp2Op)
    ),
    _unary(
        "log2",
        reference=np.log2,
        derivative=app("div", 1 / math.log(2), A),
        emit=emit_op(math_dialect.Log2Op),
    ),
    _unary("sin", reference=np.sin, derivative=app("cos", A), emit=emit_op(math_dialect.SinOp)),
    _unary("cos", reference=np.cos, derivative=app("neg", app("sin", A)), emit=emit_op(math_dialect.CosOp)),
    _unary("sqrt", reference=np.sqrt, derivative=app("div", 0.5, B), emit=emit_op(math_dialect.SqrtOp)),
    _unary("recip", reference=lambda x: 1 / x, derivative=app("neg", app("mul", B, B)), emit=emit_recip),
    _unary(
        "recip_sqrt",
        reference=lambda x: 1 / np.sqrt(x),
        derivative=app("mul", -0.5, app("mul3", B, B, B)),
        emit=lambda b, x: emit_recip(b, b.float_op(math_dialect.SqrtOp, x)),
    ),
    _unary("neg", reference=np.negative, derivative=Const(-1.0), emit=emit_op(arith.NegfOp)),
    _unary(
        "tanh",
        reference=np.tanh,
        derivative=app("sub", 1, app("mul", B, B)),
        emit=emit_op(math_dialect.TanhOp),
    ),
    _unary("abs", reference=np.abs, derivative=app("sign", A), emit=emit_op(math_dialect.AbsFOp)),
    _unary("sign", reference=np.sign, derivative=ZERO, emit=emit_sign),
    _unary("floor", reference=np.floor, derivative=ZERO, emit=emit_op(math_dialect.FloorOp)),
    _unary("ceil", reference=np.ceil, derivative=ZERO, emit=emit_op(math_dialect.CeilOp)),
    _unary(  # half to even
        "round", reference=np.rint, derivative=ZERO, emit=emit_op(math_dialect.RoundEvenOp)
    ),
    _unary(  # x == 0
        "not",
        reference=lambda x: _truth(np.equal(x, 0), x),
        derivative=ZERO,
        emit=lambda b, x: b.truth(b.cmp("oeq", x, b.const(0.0))),
    ),
    _unary("sigmoid", reference=_sigmoid, derivative=app("mul", B, app("sub", 1, B)), emit=emit_sigmoid),
    _unary(
        "erf",
        reference=_erf,
        derivative=app("mul", 2 / math.sqrt(math.pi), app("exp", app("neg", app("mul", A, A)))),
        emit=emit_op(math_dialect.ErfOp),
    ),
    *(_unary(*entry) for entry in UNARY_ENTRIES),
)

BINARY = (
    _binary("fst", reference=lambda x, y: np.positive(x), derivative=(ONE, ZERO), emit=lambda b, x, y: x),
    _binary("snd", reference=lambda x, y: np.positive(y), derivative=(ZERO, ONE), emit=lambda b, x, y: y),
    _binary(
        "add", symbol="+", neutral=0.0, reference=np.add, derivative=(ONE, ONE), emit=emit_op(arith.AddfOp)
    ),
    _binary(
        "sub", symbol="-", reference=np.subtract, derivative=(ONE, Const(-1.0)), emit=emit_op(arith.SubfOp)
    ),
    _binary(
        "mul", symbol="*", neutral=1.0, reference=np.multiply, derivative=(B, A), emit=emit_op(arith.MulfOp)
    ),
    _binary(
        "div",
        symbol="/",
        reference=np.divide,
        derivative=(app("recip", B), app("neg", app("div", C, B))),
        emit=emit_op(arith.DivfOp),
    ),
    _binary(
        "pow",
        symbol="**",
        reference=np.power,
        # As in PyTorch, the derivative at an exponent of zero, and at zero to a positive exponent, is zero.
        derivative=(
            app("where", B, app("mul", B, app("pow", A, app("sub", B, 1))), 0),
            app("where", app("and", app("not", A), app("le", 0, B)), 0, app("mul", C, app("log", A))),
        ),
        emit=emit_op(math_dialect.PowFOp),
    ),
    _binary(  # y where x > 0, else 0
        "relu_gate",
        reference=lambda x, y: np.where(np.greater(x, 0), y, np.zeros_like(y)),
        derivative=(ZERO, app("relu_gate", A, 1)),
        emit=emit_relu_gate,
    ),
    _binary(  # y where 0 < x < 1, else 0
        "sat01_gate",
        reference=lambda x, y: np.where(np.greater(x, 0) & np.less(x, 1), y, np.zeros_like(y)),
        derivative=(ZERO, app("sat01_gate", A, 1)),
        emit=emit_sat01_gate,
    ),
    _binary(
        "lt",
        symbol="<",
        reference=lambda x, y: _truth(np.less(x, y), x),
        derivative=(ZERO, ZERO),
        emit=emit_compare("olt"),
    ),
    _binary(
        "le",
        symbol="<=",
        reference=lambda x, y: _truth(np.less_equal(x, y), x),
        derivative=(ZERO, ZERO),
        emit=emit_compare("ole"),
    ),
    _binary(
        "eq",
        symbol="==",
        reference=lambda x, y: _truth(np.equal(x, y), x),
        derivative=(ZERO, ZERO),
        emit=emit_compare("oeq"),
    ),
    _binary(
        "ne",
        symbol="!=",
        reference=lambda x, y: _truth(np.not_equal(x, y), x),
        derivative=(ZERO, ZERO),
        emit=emit_compare("une"),
    ),
    _binary(
        "or",
        symbol="||",
        neutral=0.0,
        reference=lambda x, y: _truth(np.logical_or(x, y), x),
        derivative=(ZERO, ZERO),
        emit=emit_logic(arith.OrIOp),
    ),
    _binary(
        "and",
        symbol="&&",
        neutral=1.0,
        reference=lambda x, y: _truth(np.logical_and(x, y), x),
        derivative=(ZERO, ZERO),
        emit=emit_logic(arith.AndIOp),
    ),
    _binary(  # with the sign of the divisor
        "mod",
        symbol="%",
        reference=np.mod,
        derivative=(ONE, app("neg", app("floor", app("div", A, B)))),
        emit=emit_mod,
    ),
    _binary(  # the gradient of a tie goes to the first operand
        "max",
        neutral=-math.inf,
        reference=np.maximum,
        derivative=(app("le", B, A), app("lt", A, B)),
        emit=emit_op(arith.MaximumfOp),
    ),
    _binary(  # the gradient of a tie goes to the first operand
        "min",
        neutral=math.inf,
        reference=np.minimum,
        derivative=(app("le", A, B), app("lt", B, A)),
        emit=emit_op(arith.MinimumfOp),
    ),
    *(_binary(*entry) for entry in BINARY_ENTRIES),
)

TERNARY = (
    _ternary(  # y where x != 0, else z
        "where",
        reference=lambda x, y, z: np.where(np.not_equal(x, 0), y, z),
        derivative=(ZERO, app("where", A, 1, 0), app("where", A, 0, 1)),
        emit=lambda b, x, y, z: b.select(is_nonzero(b, x), y, z),
    ),
    _ternary(  # x * y + z; compiled code rounds once
        "fma",
        reference=lambda x, y, z: x * y + z,
        derivative=(B, A, ONE),
        emit=lambda b, x, y, z: b.fma(x, y, z),
    ),
    _ternary(
        "mul3",
        reference=lambda x, y, z: x * y * z,
        derivative=(app("mul", B, C), app("mul", A, C), app("mul", A, B)),
        emit=lambda b, x, y, z: b.mul(b.mul(x, y), z),
    ),
)

SCALAR_OPS: dict[str, ScalarOp] = {op.name: op for op in (*UNARY, *BINARY, *TERNARY)}


TRUTH_VALUES = frozenset({"or", "and"})
"""Accumulators that make 0 or 1 of a value even where it is the only one."""


def accumulators() -> list[ScalarOp]:
    """The operators that can accumulate: those with a neutral element."""
    return [op for op in SCALAR_OPS.values() if op.neutral is not None]
