"""How scalar operators become `arith` and `math` operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.dialects.scalar.remainder_op import RemainderOp

EmitUnary: TypeAlias = Callable[[ArithBuilder, SSAValue], SSAValue]
EmitBinary: TypeAlias = Callable[[ArithBuilder, SSAValue, SSAValue], SSAValue]
EmitTernary: TypeAlias = Callable[[ArithBuilder, SSAValue, SSAValue, SSAValue], SSAValue]


def emit_op(op: type[Operation]) -> Callable[..., SSAValue]:
    """An operator that is one upstream operation."""

    def emit(b: ArithBuilder, *operands: SSAValue) -> SSAValue:
        return b.float_op(op, *operands)

    return emit


def emit_recip(b: ArithBuilder, x: SSAValue) -> SSAValue:
    return b.div(b.const(1.0), x)


def emit_sat01(b: ArithBuilder, x: SSAValue) -> SSAValue:
    return b.float_op(arith.MinimumfOp, b.float_op(arith.MaximumfOp, x, b.const(0.0)), b.const(1.0))


def emit_sign(b: ArithBuilder, x: SSAValue) -> SSAValue:
    zero = b.const(0.0)
    negative_or_not = b.select(b.cmp("olt", x, zero), b.const(-1.0), b.float_op(math_dialect.AbsFOp, x))
    return b.select(b.cmp("ogt", x, zero), b.const(1.0), negative_or_not)


def emit_sigmoid(b: ArithBuilder, x: SSAValue) -> SSAValue:
    """`1 / (1 + exp(-x))`, and `exp(x) / (1 + exp(x))` for negative x: the exponential never overflows."""
    one = b.const(1.0)
    small = b.float_op(math_dialect.ExpOp, b.neg(b.float_op(math_dialect.AbsFOp, x)))
    return b.div(b.select(b.cmp("olt", x, b.const(0.0)), small, one), b.add(one, small))


def emit_relu_gate(b: ArithBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    zero = b.const(0.0)
    return b.select(b.cmp("ogt", x, zero), y, zero)


def emit_sat01_gate(b: ArithBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    zero = b.const(0.0)
    inside = b.bit_op(arith.AndIOp, b.cmp("ogt", x, zero), b.cmp("olt", x, b.const(1.0)))
    return b.select(inside, y, zero)


def emit_mod(b: ArithBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """The exact remainder, moved to the sign of the divisor, which a remainder of zero has too."""
    zero = b.const(0.0)
    remainder = b.bit_op(RemainderOp, x, y)
    signs_differ = b.bit_op(arith.XOrIOp, b.cmp("olt", remainder, zero), b.cmp("olt", y, zero))
    moved = b.select(signs_differ, b.add(remainder, y), remainder)
    return b.select(b.cmp("oeq", remainder, zero), b.float_op(math_dialect.CopySignOp, zero, y), moved)


def emit_floor_divide(b: ArithBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """The quotient of what the exact remainder leaves, one less where that is moved to the divisor's sign.

    It is whole but for its rounding.
    """
    zero, one = b.const(0.0), b.const(1.0)
    remainder = b.bit_op(RemainderOp, x, y)
    quotient = b.div(b.sub(x, remainder), y)
    signs_differ = b.bit_op(arith.XOrIOp, b.cmp("olt", remainder, zero), b.cmp("olt", y, zero))
    moved = b.bit_op(arith.AndIOp, signs_differ, b.cmp("une", remainder, zero))
    quotient = b.select(moved, b.sub(quotient, one), quotient)
    floor = b.float_op(math_dialect.FloorOp, quotient)
    whole = b.select(b.cmp("ogt", b.sub(quotient, floor), b.const(0.5)), b.add(floor, one), floor)
    ratio = b.div(x, y)
    signed = b.select(b.cmp("oeq", whole, zero), b.float_op(math_dialect.CopySignOp, zero, ratio), whole)
    return b.select(b.cmp("oeq", y, zero), ratio, signed)
