"""The table of scalar operators.

To add an operator is to add one entry to `SCALAR_OPS`. Every level and every target reads this table.
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect

from ocannl.dialects.scalar import integer_lowerings as integers
from ocannl.dialects.scalar.elementary import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from ocannl.dialects.scalar.integer_lowerings import extreme, integer_op
from ocannl.dialects.scalar.kinds import Kind
from ocannl.dialects.scalar.lowerings import (
    emit_floor_divide,
    emit_mod,
    emit_op,
    emit_recip,
    emit_relu_gate,
    emit_sat01,
    emit_sat01_gate,
    emit_sigmoid,
    emit_sign,
)
from ocannl.dialects.scalar.scalar_op import (
    Array,
    ScalarOp,
    binary,
    comparison,
    logic,
    no_floats,
    ternary,
    unary,
    whole,
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

A, B, C = Arg(0), Arg(1), Arg(2)


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), np.asarray(x).dtype)


UNARY = (
    unary(
        "id",
        kind=Kind.CHOICE,
        reference=np.positive,
        derivative=ONE,
        emit=lambda b, x: x,
        integers=lambda b, unsigned, x: x,
    ),
    unary(
        "relu",
        kind=Kind.ARITHMETIC,
        reference=lambda x: np.maximum(x, 0),
        derivative=app("relu_gate", B, 1),
        emit=lambda b, x: b.float_op(arith.MaximumfOp, x, b.const(0.0)),
        integers=integers.relu,
    ),
    unary(
        "sat01",
        kind=Kind.ARITHMETIC,
        reference=lambda x: np.minimum(np.maximum(x, 0), 1),
        derivative=app("sat01_gate", B, 1),
        emit=emit_sat01,
        integers=integers.sat01,
    ),
    unary("exp", reference=np.exp, derivative=B, emit=emit_op(math_dialect.ExpOp)),
    unary("log", reference=np.log, derivative=app("recip", A), emit=emit_op(math_dialect.LogOp)),
    unary(
        "exp2", reference=np.exp2, derivative=app("mul", B, math.log(2)), emit=emit_op(math_dialect.Exp2Op)
    ),
    unary(
        "log2",
        reference=np.log2,
        derivative=app("div", 1 / math.log(2), A),
        emit=emit_op(math_dialect.Log2Op),
    ),
    unary("sin", reference=np.sin, derivative=app("cos", A), emit=emit_op(math_dialect.SinOp)),
    unary("cos", reference=np.cos, derivative=app("neg", app("sin", A)), emit=emit_op(math_dialect.CosOp)),
    unary("sqrt", reference=np.sqrt, derivative=app("div", 0.5, B), emit=emit_op(math_dialect.SqrtOp)),
    unary("recip", reference=lambda x: 1 / x, derivative=app("neg", app("mul", B, B)), emit=emit_recip),
    unary(
        "recip_sqrt",
        reference=lambda x: 1 / np.sqrt(x),
        derivative=app("mul", -0.5, app("mul3", B, B, B)),
        emit=lambda b, x: emit_recip(b, b.float_op(math_dialect.SqrtOp, x)),
    ),
    unary(
        "neg",
        kind=Kind.ARITHMETIC,
        reference=np.negative,
        derivative=Const(-1.0),
        emit=emit_op(arith.NegfOp),
        integers=integers.negative,
    ),
    unary(
        "tanh",
        reference=np.tanh,
        derivative=app("sub", 1, app("mul", B, B)),
        emit=emit_op(math_dialect.TanhOp),
    ),
    unary(
        "abs",
        kind=Kind.CHOICE,
        reference=np.abs,
        derivative=app("sign", A),
        emit=emit_op(math_dialect.AbsFOp),
        integers=integers.absolute,
    ),
    unary(
        "sign",
        kind=Kind.ARITHMETIC,
        reference=np.sign,
        derivative=ZERO,
        emit=emit_sign,
        integers=integers.sign,
    ),
    unary(
        "floor",
        kind=Kind.CHOICE,
        reference=np.floor,
        derivative=ZERO,
        emit=emit_op(math_dialect.FloorOp),
        integers=lambda b, unsigned, x: x,
    ),
    unary(
        "ceil",
        kind=Kind.CHOICE,
        reference=np.ceil,
        derivative=ZERO,
        emit=emit_op(math_dialect.CeilOp),
        integers=lambda b, unsigned, x: x,
    ),
    unary(  # half to even
        "round",
        kind=Kind.CHOICE,
        reference=np.rint,
        derivative=ZERO,
        emit=emit_op(math_dialect.RoundEvenOp),
        integers=lambda b, unsigned, x: x,
    ),
    unary(
        "not",
        kind=Kind.LOGIC,
        reference=np.logical_not,
        derivative=ZERO,
        emit=lambda b, x: b.bit_op(arith.XOrIOp, x, b.truth_const(True)),
    ),
    unary("sigmoid", reference=_sigmoid, derivative=app("mul", B, app("sub", 1, B)), emit=emit_sigmoid),
    unary(
        "erf",
        reference=_erf,
        derivative=app("mul", 2 / math.sqrt(math.pi), app("exp", app("neg", app("mul", A, A)))),
        emit=emit_op(math_dialect.ErfOp),
    ),
    *UNARY_FUNCTIONS,
    ScalarOp("bitwise_not", 1, Kind.BITS, np.bitwise_not, (ZERO,), no_floats, integers.bitwise_not),
)

BINARY = (
    binary(
        "fst",
        kind=Kind.CHOICE,
        reference=lambda x, y: np.positive(x),
        derivative=(ONE, ZERO),
        emit=lambda b, x, y: x,
        integers=lambda b, unsigned, x, y: x,
    ),
    binary(
        "snd",
        kind=Kind.CHOICE,
        reference=lambda x, y: np.positive(y),
        derivative=(ZERO, ONE),
        emit=lambda b, x, y: y,
        integers=lambda b, unsigned, x, y: y,
    ),
    binary(
        "add",
        kind=Kind.ARITHMETIC,
        symbol="+",
        neutral=0.0,
        reference=np.add,
        derivative=(ONE, ONE),
        emit=emit_op(arith.AddfOp),
        integers=lambda b, unsigned, x, y: b.int_add(x, y),
    ),
    binary(
        "sub",
        kind=Kind.ARITHMETIC,
        symbol="-",
        reference=np.subtract,
        derivative=(ONE, Const(-1.0)),
        emit=emit_op(arith.SubfOp),
        integers=lambda b, unsigned, x, y: b.int_sub(x, y),
    ),
    binary(
        "mul",
        kind=Kind.ARITHMETIC,
        symbol="*",
        neutral=1.0,
        reference=np.multiply,
        derivative=(B, A),
        emit=emit_op(arith.MulfOp),
        integers=lambda b, unsigned, x, y: b.int_mul(x, y),
    ),
    binary(
        "div",
        symbol="/",
        reference=np.divide,
        derivative=(app("recip", B), app("neg", app("div", C, B))),
        emit=emit_op(arith.DivfOp),
    ),
    binary(
        "pow",
        kind=Kind.ARITHMETIC,
        symbol="**",
        reference=np.power,
        # As in PyTorch, the derivative at an exponent of zero, and at zero to a positive exponent, is zero.
        derivative=(
            app("where", B, app("mul", B, app("pow", A, app("sub", B, 1))), 0),
            app("where", app("and", app("not", A), app("le", 0, B)), 0, app("mul", C, app("log", A))),
        ),
        emit=emit_op(math_dialect.PowFOp),
        integers=integers.power,
    ),
    binary(  # y where x > 0, else 0
        "relu_gate",
        kind=Kind.ARITHMETIC,
        reference=lambda x, y: np.where(np.greater(x, 0), y, np.zeros_like(y)),
        derivative=(ZERO, app("relu_gate", A, 1)),
        emit=emit_relu_gate,
        integers=integers.relu_gate,
    ),
    binary(  # y where 0 < x < 1, else 0
        "sat01_gate",
        kind=Kind.ARITHMETIC,
        reference=lambda x, y: np.where(np.greater(x, 0) & np.less(x, 1), y, np.zeros_like(y)),
        derivative=(ZERO, app("sat01_gate", A, 1)),
        emit=emit_sat01_gate,
        integers=integers.sat01_gate,
    ),
    comparison("lt", "<", "olt", "lt", np.less),
    comparison("le", "<=", "ole", "le", np.less_equal),
    comparison("eq", "==", "oeq", "eq", np.equal),
    comparison("ne", "!=", "une", "ne", np.not_equal),
    logic("or", "||", 0.0, arith.OrIOp, np.logical_or),
    logic("and", "&&", 1.0, arith.AndIOp, np.logical_and),
    binary(  # with the sign of the divisor
        "mod",
        kind=Kind.ARITHMETIC,
        symbol="%",
        reference=np.mod,
        derivative=(ONE, app("neg", app("floor", app("div", A, B)))),
        emit=emit_mod,
        integers=integers.mod,
    ),
    binary(  # the gradient of a tie goes to the first operand
        "max",
        kind=Kind.CHOICE,
        neutral=-math.inf,
        reference=np.maximum,
        derivative=(app("le", B, A), app("lt", A, B)),
        emit=emit_op(arith.MaximumfOp),
        integers=extreme(arith.MaxSIOp, arith.MaxUIOp, arith.OrIOp),
    ),
    binary(  # the gradient of a tie goes to the first operand
        "min",
        kind=Kind.CHOICE,
        neutral=math.inf,
        reference=np.minimum,
        derivative=(app("le", A, B), app("lt", B, A)),
        emit=emit_op(arith.MinimumfOp),
        integers=extreme(arith.MinSIOp, arith.MinUIOp, arith.AndIOp),
    ),
    *BINARY_FUNCTIONS,
    binary(  # towards minus infinity
        "floor_divide",
        kind=Kind.ARITHMETIC,
        symbol="//",
        reference=np.floor_divide,
        derivative=(ZERO, ZERO),
        emit=emit_floor_divide,
        integers=integers.floor_divide,
    ),
    whole("left_shift", "<<", Kind.SHIFT, np.left_shift, integers.shift_left),
    whole("right_shift", ">>", Kind.SHIFT, np.right_shift, integers.shift_right),
    whole("bitwise_and", "&", Kind.BITS, np.bitwise_and, integer_op(arith.AndIOp)),
    whole("bitwise_or", "|", Kind.BITS, np.bitwise_or, integer_op(arith.OrIOp)),
    whole("bitwise_xor", "^", Kind.BITS, np.bitwise_xor, integer_op(arith.XOrIOp)),
)

TERNARY = (
    ternary(  # y where x != 0, else z
        "where",
        kind=Kind.CHOICE,
        reference=lambda x, y, z: np.where(np.not_equal(x, 0), y, z),
        derivative=(ZERO, app("where", A, 1, 0), app("where", A, 0, 1)),
        emit=lambda b, x, y, z: b.select(x, y, z),
        integers=lambda b, unsigned, x, y, z: b.select(x, y, z),
    ),
    ternary(  # x * y + z; compiled code rounds once
        "fma",
        kind=Kind.ARITHMETIC,
        reference=lambda x, y, z: x * y + z,
        derivative=(B, A, ONE),
        emit=lambda b, x, y, z: b.fma(x, y, z),
        integers=integers.fma,
    ),
    ternary(
        "mul3",
        kind=Kind.ARITHMETIC,
        reference=lambda x, y, z: x * y * z,
        derivative=(app("mul", B, C), app("mul", A, C), app("mul", A, B)),
        emit=lambda b, x, y, z: b.mul(b.mul(x, y), z),
        integers=integers.mul3,
    ),
)

SCALAR_OPS: dict[str, ScalarOp] = {op.name: op for op in (*UNARY, *BINARY, *TERNARY)}


TRUTH_VALUES = frozenset({"or", "and"})
"""Accumulators that make 0 or 1 of a value even where it is the only one."""


def accumulators() -> list[ScalarOp]:
    """The operators that can accumulate: those with a neutral element."""
    return [op for op in SCALAR_OPS.values() if op.neutral is not None]
