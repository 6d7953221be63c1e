"""Remainders, exact for all operands: one division where the quotient has few bits, and else a long division
of the mantissas, some bits of the quotient at a time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.math import AbsFOp, FloorOp, RoundEvenOp, TruncOp
from xdsl.ir import SSAValue

from ocannl.dialects.scalar.far_op import FarOp
from ocannl.passes.loops.expand_math.builder import MathBuilder


class Scaled(NamedTuple):
    """A positive number as `mantissa * 2^exponent`, with a mantissa in [1, 2) and a whole exponent."""

    mantissa: SSAValue
    exponent: SSAValue


def remainder(b: MathBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Exact: the remainder of the truncated quotient, with the sign of x, as `fmod` of C.

    A quotient that the mantissa holds is one too large at most, by rounding: what is left is exact, and
    below 0 where it is. Only the others, and operands that have no remainder, need the long division.
    """
    dividend, divisor = b.float_op(AbsFOp, x), b.float_op(AbsFOp, y)
    ratio = b.float_op(AbsFOp, b.div(x, y))
    rest = b.fma(b.neg(b.float_op(TruncOp, ratio)), divisor, dividend)
    wrapped = b.select(b.cmp("olt", rest, b.const(0.0)), b.add(rest, divisor), rest)
    near = b.select(b.cmp("olt", dividend, divisor), dividend, wrapped)
    is_far = b.cmp("uge", ratio, b.const(2.0 ** (b.mantissa_bits + 1)))
    return b.copy_sign(b.append(FarOp(is_far, "remainder", [dividend, divisor], near)), x)


def far_remainder(b: MathBuilder, dividend: SSAValue, divisor: SSAValue) -> SSAValue:
    """The remainder of any numbers that are not negative; NaN where there is none.

    The remainder stays a multiple of the last place of both mantissas and below the divisor, so that each
    step is exact; a quotient that is one off by rounding is made up for by the next step, or in the end.
    """
    numerator, denominator = _split(b, dividend), _split(b, divisor)
    distance = b.sub(numerator.exponent, denominator.exponent)
    step = b.mantissa_bits - 2
    steps = b.float_op(FloorOp, b.mul(b.add(distance, b.const(0.5)), b.const(1 / step)))
    first = b.add(b.fma(steps, b.const(-step), distance), b.round_magic())
    modulus, inverse = denominator.mantissa, b.div(b.const(1.0), denominator.mantissa)

    def reduced(value: SSAValue) -> SSAValue:
        quotient = b.float_op(RoundEvenOp, b.mul(value, inverse))
        return b.fma(b.neg(quotient), modulus, value)

    rest = reduced(b.times_power_of_two(numerator.mantissa, first))
    largest_distance = 2 * b.bias - 1 + b.mantissa_bits
    for left in range(largest_distance // step, 0, -1):
        more = b.cmp("oge", steps, b.const(left))
        rest = reduced(b.mul(rest, b.select(more, b.const(2.0**step), b.const(1.0))))
    wrapped = b.select(b.cmp("olt", rest, b.const(0.0)), b.add(rest, modulus), rest)
    result = b.select(b.cmp("olt", dividend, divisor), dividend, _times(b, wrapped, divisor))
    positive = b.cmp("ogt", divisor, b.const(0.0))
    defined = b.bit_op(arith.AndIOp, positive, b.cmp("olt", dividend, b.infinity()))
    return b.select(defined, result, b.const(math.nan))


def _split(b: MathBuilder, x: SSAValue) -> Scaled:
    """A positive number, also denormal, without loss."""
    normal, offset = _normal(b, x)
    bits = b.bits(normal)
    fraction = b.bit_op(arith.AndIOp, bits, b.int_const((1 << b.mantissa_bits) - 1))
    one = b.int_const(b.bias << b.mantissa_bits)
    mantissa = b.from_bits(b.bit_op(arith.OrIOp, fraction, one))
    exponent = b.int_to_float(b.shift_right_signed(bits, b.mantissa_bits))
    return Scaled(mantissa, b.sub(exponent, offset))


def _normal(b: MathBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """A number scaled out of the denormal range, and the binary logarithm of the factor."""
    denormal = b.cmp("olt", x, b.const(2.0 ** (1 - b.bias)))
    scaled = b.select(denormal, b.mul(x, b.const(2.0**b.mantissa_bits)), x)
    return scaled, b.select(denormal, b.const(b.mantissa_bits), b.const(0.0))


def _times(b: MathBuilder, remainder: SSAValue, divisor: SSAValue) -> SSAValue:
    """A remainder of mantissas at the scale of the divisor, exact."""
    normal, offset = _normal(b, divisor)
    exponent = b.bit_op(arith.AndIOp, b.bits(normal), b.int_const(2 * b.bias + 1 << b.mantissa_bits))
    factor = b.select(b.cmp("ogt", offset, b.const(0.0)), b.const(2.0**-b.mantissa_bits), b.const(1.0))
    return b.mul(b.mul(remainder, b.from_bits(exponent)), factor)
