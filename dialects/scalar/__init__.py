"""The one table of scalar operators, and the terms over them.

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

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Arg:
    """The operand at a position."""

    index: int

    def __str__(self) -> str:
        return f"${self.index}"


@dataclass(frozen=True, slots=True)
class Const:
    """A number, in the precision of the operands."""

    value: float

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class App:
    """A scalar operator applied to terms."""

    op: str
    args: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.args))})"


Term: TypeAlias = Arg | Const | App


Unary: TypeAlias = Callable[[Array], Array]
Binary: TypeAlias = Callable[[Array, Array], Array]
Ternary: TypeAlias = Callable[[Array, Array, Array], Array]
EmitUnary: TypeAlias = Callable[[ArithBuilder, SSAValue], SSAValue]
EmitBinary: TypeAlias = Callable[[ArithBuilder, SSAValue, SSAValue], SSAValue]
EmitTernary: TypeAlias = Callable[[ArithBuilder, SSAValue, SSAValue, SSAValue], SSAValue]


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


def _app(op: str, *args: Term | float) -> App:
    return App(op, tuple(Const(float(a)) if isinstance(a, int | float) else a for a in args))


A, B, C = Arg(0), Arg(1), Arg(2)
ZERO, ONE = Const(0.0), Const(1.0)


def _truth(result: Array, like: Array) -> Array:
    return np.asarray(result, np.asarray(like).dtype)


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), np.asarray(x).dtype)


def _emit_op(op: type[Operation]) -> Callable[..., SSAValue]:
    """An operator that is one upstream operation."""

    def emit(b: ArithBuilder, *operands: SSAValue) -> SSAValue:
        return b.float_op(op, *operands)

    return emit


def _emit_compare(predicate: str) -> EmitBinary:
    return lambda b, x, y: b.truth(b.cmp(predicate, x, y))


def _emit_logic(op: type[Operation]) -> EmitBinary:
    return lambda b, x, y: b.truth(b.bit_op(op, _is_nonzero(b, x), _is_nonzero(b, y)))


def _is_nonzero(b: ArithBuilder, x: SSAValue) -> SSAValue:
    return b.cmp("une", x, b.const(0.0))


def _emit_recip(b: ArithBuilder, x: SSAValue) -> SSAValue:
    return b.div(b.const(1.0), x)


def _emit_sat01(b: ArithBuilder, x: SSAValue) -> SSAValue:
    return b.float_op(arith.MinimumfOp, b.float_op(arith.MaximumfOp, x, b.const(0.0)), b.const(1.0))


def _emit_sign(b: ArithBuilder, x: SSAValue) -> SSAValue:
    zero = b.const(0.0)
    negative_or_not = b.select(b.cmp("olt", x, zero), b.const(-1.0), x)
    return b.select(b.cmp("ogt", x, zero), b.const(1.0), negative_or_not)


def _emit_sigmoid(b: ArithBuilder, x: SSAValue) -> SSAValue:
    # Stable on both sides: exp(-x) overflows to infinity exactly where the result is zero.
    one = b.const(1.0)
    return b.div(one, b.add(one, b.float_op(math_dialect.ExpOp, b.neg(x))))


def _emit_relu_gate(b: ArithBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    zero = b.const(0.0)
    return b.select(b.cmp("ogt", x, zero), y, zero)


def _emit_sat01_gate(b: ArithBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    zero = b.const(0.0)
    inside = b.bit_op(arith.AndIOp, b.cmp("ogt", x, zero), b.cmp("olt", x, b.const(1.0)))
    return b.select(inside, y, zero)


def _emit_mod(b: ArithBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Exact while the quotient is an exact integer in the type (below 2^24 or 2^53)."""
    zero = b.const(0.0)
    quotient = b.float_op(math_dialect.FloorOp, b.div(x, y))
    # A zero quotient leaves x as it is, also where y is infinite.
    remainder = b.select(b.cmp("oeq", quotient, zero), x, b.fma(b.neg(quotient), y, x))
    # The rounded quotient may be one too large: then the remainder has the wrong sign.
    signs_differ = b.bit_op(arith.XOrIOp, b.cmp("olt", remainder, zero), b.cmp("olt", y, zero))
    wrong = b.bit_op(arith.AndIOp, signs_differ, b.cmp("une", remainder, zero))
    return b.select(wrong, b.add(remainder, y), remainder)


UNARY = (
    _unary(
        "id",
        reference=np.positive,
        derivative=ONE,
        emit=lambda b, x: x,
    ),
    _unary(
        "relu",
        reference=lambda x: np.maximum(x, 0),
        derivative=_app("relu_gate", B, 1),
        emit=lambda b, x: b.float_op(arith.MaximumfOp, x, b.const(0.0)),
    ),
    _unary(
        "sat01",
        reference=lambda x: np.minimum(np.maximum(x, 0), 1),
        derivative=_app("sat01_gate", B, 1),
        emit=_emit_sat01,
    ),
    _unary(
        "exp",
        reference=np.exp,
        derivative=B,
        emit=_emit_op(math_dialect.ExpOp),
    ),
    _unary(
        "log",
        reference=np.log,
        derivative=_app("recip", A),
        emit=_emit_op(math_dialect.LogOp),
    ),
    _unary(
        "exp2",
        reference=np.exp2,
        derivative=_app("mul", B, math.log(2)),
        emit=_emit_op(math_dialect.Exp2Op),
    ),
    _unary(
        "log2",
        reference=np.log2,
        derivative=_app("div", 1 / math.log(2), A),
        emit=_emit_op(math_dialect.Log2Op),
    ),
    _unary(
        "sin",
        reference=np.sin,
        derivative=_app("cos", A),
        emit=_emit_op(math_dialect.SinOp),
    ),
    _unary(
        "cos",
        reference=np.cos,
        derivative=_app("neg", _app("sin", A)),
        emit=_emit_op(math_dialect.CosOp),
    ),
    _unary(
        "sqrt",
        reference=np.sqrt,
        derivative=_app("div", 0.5, B),
        emit=_emit_op(math_dialect.SqrtOp),
    ),
    _unary(
        "recip",
        reference=lambda x: 1 / x,
        derivative=_app("neg", _app("mul", B, B)),
        emit=_emit_recip,
    ),
    _unary(
        "recip_sqrt",
        reference=lambda x: 1 / np.sqrt(x),
        derivative=_app("mul", -0.5, _app("mul3", B, B, B)),
        emit=lambda b, x: _emit_recip(b, b.float_op(math_dialect.SqrtOp, x)),
    ),
    _unary(
        "neg",
        reference=np.negative,
        derivative=Const(-1.0),
        emit=_emit_op(arith.NegfOp),
    ),
    _unary(
        "tanh",
        reference=np.tanh,
        derivative=_app("sub", 1, _app("mul", B, B)),
        emit=_emit_op(math_dialect.TanhOp),
    ),
    _unary(
        "abs",
        reference=np.abs,
        derivative=_app("sign", A),
        emit=_emit_op(math_dialect.AbsFOp),
    ),
    _unary(
        "sign",
        reference=np.sign,
        derivative=ZERO,
        emit=_emit_sign,
    ),
    _unary(
        "floor",
        reference=np.floor,
        derivative=ZERO,
        emit=_emit_op(math_dialect.FloorOp),
    ),
    _unary(
        "ceil",
        reference=np.ceil,
        derivative=ZERO,
        emit=_emit_op(math_dialect.CeilOp),
    ),
    _unary(  # half to even
        "round",
        reference=np.rint,
        derivative=ZERO,
        emit=_emit_op(math_dialect.RoundEvenOp),
    ),
    _unary(  # x == 0
        "not",
        reference=lambda x: _truth(np.equal(x, 0), x),
        derivative=ZERO,
        emit=lambda b, x: b.truth(b.cmp("oeq", x, b.const(0.0))),
    ),
    _unary(
        "sigmoid",
        reference=_sigmoid,
        derivative=_app("mul", B, _app("sub", 1, B)),
        emit=_emit_sigmoid,
    ),
    _unary(
        "erf",
        reference=_erf,
        derivative=_app("mul", 2 / math.sqrt(math.pi), _app("exp", _app("neg", _app("mul", A, A)))),
        emit=_emit_op(math_dialect.ErfOp),
    ),
)

BINARY = (
    _binary(
        "fst",
        reference=lambda x, y: np.positive(x),
        derivative=(ONE, ZERO),
        emit=lambda b, x, y: x,
    ),
    _binary(
        "snd",
        reference=lambda x, y: np.positive(y),
        derivative=(ZERO, ONE),
        emit=lambda b, x, y: y,
    ),
    _binary(
        "add",
        symbol="+",
        neutral=0.0,
        reference=np.add,
        derivative=(ONE, ONE),
        emit=_emit_op(arith.AddfOp),
    ),
    _binary(
        "sub",
        symbol="-",
        reference=np.subtract,
        derivative=(ONE, Const(-1.0)),
        emit=_emit_op(arith.SubfOp),
    ),
    _binary(
        "mul",
        symbol="*",
        neutral=1.0,
        reference=np.multiply,
        derivative=(B, A),
        emit=_emit_op(arith.MulfOp),
    ),
    _binary(
        "div",
        symbol="/",
        reference=np.divide,
        derivative=(_app("recip", B), _app("neg", _app("div", C, B))),
        emit=_emit_op(arith.DivfOp),
    ),
    _binary(
        "pow",
        symbol="**",
        reference=np.power,
        # As in PyTorch, the derivative at an exponent of zero, and at zero to a positive exponent, is zero.
        derivative=(
            _app("where", B, _app("mul", B, _app("pow", A, _app("sub", B, 1))), 0),
            _app("where", _app("and", _app("not", A), _app("le", 0, B)), 0, _app("mul", C, _app("log", A))),
        ),
        emit=_emit_op(math_dialect.PowFOp),
    ),
    _binary(  # y where x > 0, else 0
        "relu_gate",
        reference=lambda x, y: np.where(np.greater(x, 0), y, np.zeros_like(y)),
        derivative=(ZERO, _app("relu_gate", A, 1)),
        emit=_emit_relu_gate,
    ),
    _binary(  # y where 0 < x < 1, else 0
        "sat01_gate",
        reference=lambda x, y: np.where(np.greater(x, 0) & np.less(x, 1), y, np.zeros_like(y)),
        derivative=(ZERO, _app("sat01_gate", A, 1)),
        emit=_emit_sat01_gate,
    ),
    _binary(
        "lt",
        symbol="<",
        reference=lambda x, y: _truth(np.less(x, y), x),
        derivative=(ZERO, ZERO),
        emit=_emit_compare("olt"),
    ),
    _binary(
        "le",
        symbol="<=",
        reference=lambda x, y: _truth(np.less_equal(x, y), x),
        derivative=(ZERO, ZERO),
        emit=_emit_compare("ole"),
    ),
    _binary(
        "eq",
        symbol="==",
        reference=lambda x, y: _truth(np.equal(x, y), x),
        derivative=(ZERO, ZERO),
        emit=_emit_compare("oeq"),
    ),
    _binary(
        "ne",
        symbol="!=",
        reference=lambda x, y: _truth(np.not_equal(x, y), x),
        derivative=(ZERO, ZERO),
        emit=_emit_compare("une"),
    ),
    _binary(
        "or",
        symbol="||",
        neutral=0.0,
        reference=lambda x, y: _truth(np.logical_or(x, y), x),
        derivative=(ZERO, ZERO),
        emit=_emit_logic(arith.OrIOp),
    ),
    _binary(
        "and",
        symbol="&&",
        neutral=1.0,
        reference=lambda x, y: _truth(np.logical_and(x, y), x),
        derivative=(ZERO, ZERO),
        emit=_emit_logic(arith.AndIOp),
    ),
    _binary(  # with the sign of the divisor
        "mod",
        symbol="%",
        reference=np.mod,
        derivative=(ONE, _app("neg", _app("floor", _app("div", A, B)))),
        emit=_emit_mod,
    ),
    _binary(  # the gradient of a tie goes to the first operand
        "max",
        neutral=-math.inf,
        reference=np.maximum,
        derivative=(_app("le", B, A), _app("lt", A, B)),
        emit=_emit_op(arith.MaximumfOp),
    ),
    _binary(  # the gradient of a tie goes to the first operand
        "min",
        neutral=math.inf,
        reference=np.minimum,
        derivative=(_app("le", A, B), _app("lt", B, A)),
        emit=_emit_op(arith.MinimumfOp),
    ),
)

TERNARY = (
    _ternary(  # y where x != 0, else z
        "where",
        reference=lambda x, y, z: np.where(np.not_equal(x, 0), y, z),
        derivative=(ZERO, _app("where", A, 1, 0), _app("where", A, 0, 1)),
        emit=lambda b, x, y, z: b.select(_is_nonzero(b, x), y, z),
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
        derivative=(_app("mul", B, C), _app("mul", A, C), _app("mul", A, B)),
        emit=lambda b, x, y, z: b.mul(b.mul(x, y), z),
    ),
)

SCALAR_OPS: dict[str, ScalarOp] = {op.name: op for op in (*UNARY, *BINARY, *TERNARY)}


TRUTH_VALUES = frozenset({"or", "and"})
"""Accumulators that make 0 or 1 of a value even where it is the only one."""


def accumulators() -> list[ScalarOp]:
    """The operators that can accumulate: those with a neutral element."""
    return [op for op in SCALAR_OPS.values() if op.neutral is not None]
