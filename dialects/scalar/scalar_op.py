"""Scalar operators, and how the entries of their table are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.dialects.scalar.integer_lowerings import (
    EmitInteger,
    EmitIntegerBinary,
    EmitIntegerTernary,
    EmitIntegerUnary,
    Relation,
    compare,
)
from ocannl.dialects.scalar.kinds import Kind
from ocannl.dialects.scalar.lowerings import EmitBinary, EmitTernary, EmitUnary
from ocannl.dialects.scalar.term_type import ZERO, Term

Array: TypeAlias = NDArray[Any]


Unary: TypeAlias = Callable[[Array], Array]
Binary: TypeAlias = Callable[[Array, Array], Array]
Ternary: TypeAlias = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True)
class ScalarOp:
    """One scalar operator.

    `reference`, `emit` and `emit_integer` have NumPy's semantics: NaN and infinities propagate, integers wrap
    around. `derivative` has one term per operand, over the operands `Arg(0)` .. `Arg(arity - 1)` and the
    result `Arg(arity)`.
    """

    name: str
    arity: int
    kind: Kind
    reference: Callable[..., Array]
    """NumPy arrays of one dtype to an array of that dtype, or of truth values."""
    derivative: tuple[Term, ...]
    emit: Callable[..., SSAValue]
    """An `ArithBuilder` and the operands' values, floats, to the result's; truth values are `i1`."""
    emit_integer: EmitInteger | None = None
    """The same of integers, after whether these are unsigned; None for operators of floats."""
    symbol: str | None = None
    """Infix notation."""
    neutral: float | None = None
    """The neutral element, where the operator is associative and can accumulate."""

    @property
    def conditions(self) -> int:
        """How many of the first operands are truth values."""
        return self.arity if self.kind is Kind.LOGIC else int(self.name == "where")


def unary(
    name: str,
    reference: Unary,
    derivative: Term,
    emit: EmitUnary,
    kind: Kind = Kind.FLOAT,
    integers: EmitIntegerUnary | None = None,
) -> ScalarOp:
    return ScalarOp(name, 1, kind, reference, (derivative,), emit, integers)


def binary(
    name: str,
    reference: Binary,
    derivative: tuple[Term, Term],
    emit: EmitBinary,
    kind: Kind = Kind.FLOAT,
    integers: EmitIntegerBinary | None = None,
    symbol: str | None = None,
    neutral: float | None = None,
) -> ScalarOp:
    return ScalarOp(name, 2, kind, reference, derivative, emit, integers, symbol, neutral)


def ternary(
    name: str,
    kind: Kind,
    reference: Ternary,
    derivative: tuple[Term, Term, Term],
    emit: EmitTernary,
    integers: EmitIntegerTernary,
) -> ScalarOp:
    return ScalarOp(name, 3, kind, reference, derivative, emit, integers)


def comparison(name: str, symbol: str, predicate: str, relation: Relation, reference: Binary) -> ScalarOp:
    return binary(
        name,
        reference,
        (ZERO, ZERO),
        lambda b, x, y: b.cmp(predicate, x, y),
        Kind.COMPARISON,
        lambda b, unsigned, x, y: compare(b, relation, x, y, unsigned),
        symbol,
    )


def logic(name: str, symbol: str, neutral: float, op: type[Operation], reference: Binary) -> ScalarOp:
    return binary(
        name,
        reference,
        (ZERO, ZERO),
        lambda b, x, y: b.bit_op(op, x, y),
        Kind.LOGIC,
        symbol=symbol,
        neutral=neutral,
    )


def whole(name: str, symbol: str, kind: Kind, reference: Binary, integers: EmitInteger) -> ScalarOp:
    """An operator on integers alone."""
    return ScalarOp(name, 2, kind, reference, (ZERO, ZERO), no_floats, integers, symbol)


def no_floats(b: ArithBuilder, *operands: SSAValue) -> SSAValue:
    raise AssertionError("`infer-precisions` lets no floats through")
