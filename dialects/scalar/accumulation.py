"""One step of an accumulation, and where it starts, in the types in which accumulations are computed.

Those are f32, f64, i32 and i64: truth values are accumulated as 0 and 1, small and unsigned integers as
others that hold them.
"""

from __future__ import annotations

import math

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32, i64
from xdsl.dialects.math import AbsFOp
from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.scalar import SCALAR_OPS, TRUTH_VALUES
from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.dialects.scalar.precisions import U32, computed_in, integer_range, is_float, is_integer, work_type
from ocannl.dialects.scalar.small_floats import small_format

OF_TRUTHS: dict[str, type[Operation]] = {"or": arith.OrIOp, "and": arith.AndIOp}
ORDERED = ("max", "min")


def accumulated_in(accum: str, element: Attribute) -> Attribute:
    """The type in which numbers of a type are accumulated."""
    if accum in TRUTH_VALUES:
        return i32
    work = work_type(element)
    if accum in ORDERED and work == U32:
        return i64
    return work if is_float(work) or work == i64 else i32


def neutral_number(accum: str, type: Attribute) -> float:
    """The number that an accumulation starts from; the extremes of a type without infinities stand for
    these.
    """
    neutral = SCALAR_OPS[accum].neutral
    assert neutral is not None
    if not is_integer(type):
        format = small_format(type)
        if format is None or format.infinite or not math.isinf(neutral):
            return neutral
        return math.copysign(format.largest, neutral)
    least, most = integer_range(type)
    return least if neutral < least else most if neutral > most else int(neutral)


def neutral_constant(b: ArithBuilder, accum: str, type: Attribute) -> SSAValue:
    number = neutral_number(accum, type)
    return b.int_const(int(number), type) if is_integer(type) else b.const(number)


def accumulate(b: ArithBuilder, accum: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """One step of an accumulation in registers."""
    op = SCALAR_OPS[accum]
    if accum in OF_TRUTHS:
        if is_float(x.type):
            zero = b.const(0.0)
            truths = [b.cmp("une", value, zero) for value in (x, y)]
            return b.truth(b.bit_op(OF_TRUTHS[accum], *truths))
        return b.bit_op(OF_TRUTHS[accum], x, y)
    if is_float(x.type):
        return op.emit(b, x, y)
    assert op.emit_integer is not None
    return op.emit_integer(b, False, x, y)


def add_exactly(b: ArithBuilder, x: SSAValue, y: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The sum of two floats, rounded, and what was rounded off (Knuth's TwoSum)."""
    total = b.add(x, y)
    of_y = b.sub(total, x)
    of_x = b.sub(total, of_y)
    return total, b.add(b.sub(x, of_x), b.sub(y, of_y))


def corrected(b: ArithBuilder, total: SSAValue, error: SSAValue) -> SSAValue:
    """A total with what its additions rounded off; nothing was of one that is not finite."""
    finite = b.cmp("olt", b.float_op(AbsFOp, error), b.const(math.inf))
    return b.select(finite, b.add(total, error), total)


def builder_for(type: Attribute) -> ArithBuilder:
    """A builder for operations on values of a type of the arithmetic."""
    return ArithBuilder(computed_in(type))
