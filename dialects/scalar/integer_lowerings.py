"""How scalar operators on integers become `arith` operations: as NumPy's, which wrap around.

Operands are i32 or i64, or truth values where an operator keeps them. Nothing traps and nothing is undefined:
what is divided by 0 is 0, and shifts by more than all bits leave none but those of the sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.dialects.scalar.precisions import is_integer

Relation: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]
# A builder, whether the numbers are unsigned, and the operands.
EmitInteger: TypeAlias = Callable[..., SSAValue]
EmitIntegerUnary: TypeAlias = Callable[[ArithBuilder, bool, SSAValue], SSAValue]
EmitIntegerBinary: TypeAlias = Callable[[ArithBuilder, bool, SSAValue, SSAValue], SSAValue]
EmitIntegerTernary: TypeAlias = Callable[[ArithBuilder, bool, SSAValue, SSAValue, SSAValue], SSAValue]


def width_of(x: SSAValue) -> int:
    assert is_integer(x.type)
    return x.type.bitwidth


def is_truth(x: SSAValue) -> bool:
    return width_of(x) == 1


def constant_like(b: ArithBuilder, value: int, x: SSAValue) -> SSAValue:
    assert is_integer(x.type)
    return b.int_const(value, x.type)


def compare(b: ArithBuilder, relation: Relation, x: SSAValue, y: SSAValue, unsigned: bool) -> SSAValue:
    """Whether a relation holds, an `i1`."""
    sign = "" if relation in ("eq", "ne") else "u" if unsigned else "s"
    return b.int_cmp(sign + relation, x, y)


def compare_with(b: ArithBuilder, relation: Relation, x: SSAValue, value: int) -> SSAValue:
    """Whether a relation to a constant holds, of numbers with a sign."""
    return compare(b, relation, x, constant_like(b, value, x), unsigned=False)


def integer_op(op: type[Operation]) -> EmitInteger:
    """An operator that is one `arith` operation, for numbers with and without a sign."""
    return signed_or_unsigned(op, op)


def signed_or_unsigned(signed: type[Operation], other: type[Operation]) -> EmitInteger:
    def emit(b: ArithBuilder, unsigned: bool, *operands: SSAValue) -> SSAValue:
        return b.bit_op(other if unsigned else signed, *operands)

    return emit


def extreme(signed: type[Operation], other: type[Operation], truth: type[Operation]) -> EmitInteger:
    def emit(b: ArithBuilder, unsigned: bool, x: SSAValue, y: SSAValue) -> SSAValue:
        return b.bit_op(truth if is_truth(x) else other if unsigned else signed, x, y)

    return emit


def negative(b: ArithBuilder, unsigned: bool, x: SSAValue) -> SSAValue:
    return b.int_sub(constant_like(b, 0, x), x)


def absolute(b: ArithBuilder, unsigned: bool, x: SSAValue) -> SSAValue:
    if unsigned or is_truth(x):
        return x
    return b.select(compare_with(b, "lt", x, 0), negative(b, unsigned, x), x)


def sign(b: ArithBuilder, unsigned: bool, x: SSAValue) -> SSAValue:
    zero, one, minus_one = (constant_like(b, value, x) for value in (0, 1, -1))
    if unsigned:
        return b.select(compare(b, "eq", x, zero, unsigned), zero, one)
    below = b.select(compare_with(b, "lt", x, 0), minus_one, zero)
    return b.select(compare_with(b, "gt", x, 0), one, below)


def relu(b: ArithBuilder, unsigned: bool, x: SSAValue) -> SSAValue:
    return x if unsigned else b.bit_op(arith.MaxSIOp, x, constant_like(b, 0, x))


def sat01(b: ArithBuilder, unsigned: bool, x: SSAValue) -> SSAValue:
    least = arith.MinUIOp if unsigned else arith.MinSIOp
    return b.bit_op(least, relu(b, unsigned, x), constant_like(b, 1, x))


def relu_gate(b: ArithBuilder, unsigned: bool, x: SSAValue, y: SSAValue) -> SSAValue:
    zero = constant_like(b, 0, x)
    return b.select(compare(b, "gt", x, zero, unsigned), y, zero)


def sat01_gate(b: ArithBuilder, unsigned: bool, x: SSAValue, y: SSAValue) -> SSAValue:
    """No integer is between 0 and 1."""
    return constant_like(b, 0, x)


def fma(b: ArithBuilder, unsigned: bool, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
    return b.int_add(b.int_mul(x, y), z)


def mul3(b: ArithBuilder, unsigned: bool, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
    return b.int_mul(b.int_mul(x, y), z)


def divisor(b: ArithBuilder, unsigned: bool, y: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """A divisor that is safe: 1 in place of 0 and, of numbers with a sign, of -1; and whether it was either.

    Processors trap on a division by 0, and on that of the least number by -1.
    """
    is_zero, is_minus_one = compare_with(b, "eq", y, 0), compare_with(b, "eq", y, -1)
    replaced = is_zero if unsigned else b.bit_op(arith.OrIOp, is_zero, is_minus_one)
    return b.select(replaced, constant_like(b, 1, y), y), is_zero, is_minus_one


def moved(b: ArithBuilder, remainder: SSAValue, y: SSAValue) -> SSAValue:
    """Whether a remainder with the sign of the dividend is to be moved to that of the divisor."""
    differ = compare_with(b, "lt", b.bit_op(arith.XOrIOp, remainder, y), 0)
    return b.bit_op(arith.AndIOp, compare_with(b, "ne", remainder, 0), differ)


def floor_divide(b: ArithBuilder, unsigned: bool, x: SSAValue, y: SSAValue) -> SSAValue:
    safe, is_zero, is_minus_one = divisor(b, unsigned, y)
    zero = constant_like(b, 0, x)
    if unsigned:
        return b.select(is_zero, zero, b.bit_op(arith.DivUIOp, x, safe))
    quotient = b.bit_op(arith.DivSIOp, x, safe)
    remainder = b.int_sub(x, b.int_mul(quotient, safe))
    below = b.int_sub(quotient, constant_like(b, 1, x))
    floor = b.select(moved(b, remainder, safe), below, quotient)
    return b.select(is_zero, zero, b.select(is_minus_one, negative(b, unsigned, x), floor))


def mod(b: ArithBuilder, unsigned: bool, x: SSAValue, y: SSAValue) -> SSAValue:
    safe, _, _ = divisor(b, unsigned, y)
    if unsigned:
        return b.bit_op(arith.RemUIOp, x, safe)
    remainder = b.bit_op(arith.RemSIOp, x, safe)
    return b.select(moved(b, remainder, safe), b.int_add(remainder, safe), remainder)


def shift_left(b: ArithBuilder, unsigned: bool, x: SSAValue, y: SSAValue) -> SSAValue:
    bits, inside = _shift(b, x, y)
    return b.select(inside, b.shift_left(x, bits), constant_like(b, 0, x))


def shift_right(b: ArithBuilder, unsigned: bool, x: SSAValue, y: SSAValue) -> SSAValue:
    bits, inside = _shift(b, x, y)
    if unsigned:
        return b.select(inside, b.bit_op(arith.ShRUIOp, x, bits), constant_like(b, 0, x))
    all_bits = constant_like(b, width_of(x) - 1, x)
    return b.bit_op(arith.ShRSIOp, x, b.select(inside, bits, all_bits))


def _shift(b: ArithBuilder, x: SSAValue, y: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The bits to shift by, and whether these are fewer than there are; negative ones are not."""
    width = width_of(x)
    inside = compare(b, "lt", y, constant_like(b, width, y), unsigned=True)
    return b.bit_op(arith.AndIOp, y, constant_like(b, width - 1, y)), inside


def bitwise_not(b: ArithBuilder, unsigned: bool, x: SSAValue) -> SSAValue:
    return b.bit_op(arith.XOrIOp, x, constant_like(b, -1, x))


def power(b: ArithBuilder, unsigned: bool, x: SSAValue, y: SSAValue) -> SSAValue:
    """By squaring. A negative power is 1 / x**-y, towards 0; 0 for that of 0."""
    one = constant_like(b, 1, x)
    known = y.owner.value if isinstance(y.owner, arith.ConstantOp) else None
    if isinstance(known, IntegerAttr) and known.value.data >= 0:
        return _known_power(b, x, known.value.data)
    result, square, bit = one, x, 0
    for bit in range(width_of(y)):
        mask = constant_like(b, 1 << bit, y)
        is_set = compare_with(b, "ne", b.bit_op(arith.AndIOp, y, mask), 0)
        result = b.select(is_set, b.int_mul(result, square), result)
        square = b.int_mul(square, square)
    if unsigned:
        return result
    is_odd = compare_with(b, "ne", b.bit_op(arith.AndIOp, y, one), 0)
    minus_one = b.select(is_odd, constant_like(b, -1, x), one)
    other = b.select(compare_with(b, "eq", x, -1), minus_one, constant_like(b, 0, x))
    inverse = b.select(compare_with(b, "eq", x, 1), one, other)
    return b.select(compare_with(b, "lt", y, 0), inverse, result)


def _known_power(b: ArithBuilder, x: SSAValue, exponent: int) -> SSAValue:
    if exponent == 0:
        return constant_like(b, 1, x)
    half = _known_power(b, x, exponent // 2) if exponent > 1 else None
    square = None if half is None else b.int_mul(half, half)
    if square is None:
        return x
    return b.int_mul(square, x) if exponent % 2 else square
