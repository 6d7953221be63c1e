"""`exp` and `exp2`: 2^n times a polynomial of the remainder, with n the integer nearest to the binary
logarithm.
"""

from __future__ import annotations

import math

from xdsl.dialects.math import Exp2Op
from xdsl.ir import SSAValue

from ocannl.dialects.scalar.approximate import APPROXIMATE
from ocannl.passes.loops.expand_math.builder import MathBuilder

# ln 2 as an unevaluated sum.
LN2 = {32: (0.693147182, -1.90465421e-09), 64: (0.69314718055994529, 2.3190468138462996e-17)}
# Q in e^r = 1 + r + r^2 Q(r) for |r| <= ln(2) / 2.
EXP = {
    32: (0.49999994, 0.166665196, 0.0416683927, 0.00836877991, 0.00138144661),
    64: (
        0.50000000000000111,
        0.1666666666666641,
        0.041666666666529191,
        0.0083333333334956721,
        0.0013888888943921691,
        0.00019841269504664233,
        2.4801492763740248e-05,
        2.7557587432413289e-06,
        2.7630378291923183e-07,
        2.4999936573031641e-08,
    ),
}
# Q in 2^r = 1 + r Q(r) for |r| <= 1 / 2.
EXP2 = {
    32: (0.693147182, 0.240226477, 0.0555033199, 0.00961843878, 0.00133990031, 0.000153532528),
    64: (
        0.69314718055994529,
        0.24022650695910133,
        0.05550410866482007,
        0.0096181291075938466,
        0.0013333558146777396,
        0.00015403530457492893,
        1.5252733491254434e-05,
        1.3215435077140707e-06,
        1.0178200030249916e-07,
        7.0738208322845765e-09,
        4.4347489354473645e-10,
    ),
}


def exp(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 1 ulp in f32 and f64; denormal results are rounded once."""
    is_zero, x = without_zeros(b, x, math.log(2))
    r, n, shifted = reduce_exp(b, x, 1)
    power = times_any_power_of_two(b, b.polynomial(r, (1.0, 1.0, *b.pick(EXP))), n, shifted)
    return b.select(is_zero, b.const(0.0), power)


def approximate_exp(b: MathBuilder, x: SSAValue) -> SSAValue:
    """By an `exp2` that hardware has: its relative error is that of the rounded exponent, and 2^-22."""
    power = Exp2Op(b.mul(x, b.const(1 / math.log(2))), APPROXIMATE)
    b.ops.append(power)
    return power.result


def exp2(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 1 ulp in f32 and f64; denormal results are rounded once."""
    is_zero, x = without_zeros(b, x, 1.0)
    shifted = b.add(x, b.round_magic())
    n = b.sub(shifted, b.round_magic())
    power = times_any_power_of_two(b, b.polynomial(b.sub(x, n), (1.0, *b.pick(EXP2))), n, shifted)
    return b.select(is_zero, b.const(0.0), power)


def reduce_exp(b: MathBuilder, x: SSAValue, factor: int) -> tuple[SSAValue, SSAValue, SSAValue]:
    """`r`, `n` and `n + round_magic()` such that `factor * x = n ln(2) + r`, for a factor of 1 or 2."""
    shifted = b.fma(x, b.const(factor / math.log(2)), b.round_magic())
    n = b.sub(shifted, b.round_magic())
    high, low = b.pick(LN2)
    scaled = x if factor == 1 else b.mul(x, b.const(factor))
    return b.fma(n, b.const(-low), b.fma(n, b.const(-high), scaled)), n, shifted


def exp2_reduced(b: MathBuilder, r: SSAValue, shifted: SSAValue) -> SSAValue:
    """`2^(n + r)` for |r| <= 1 / 2, given `n + round_magic()`, where the result is a normal number."""
    return b.mul(b.polynomial(r, (1.0, *b.pick(EXP2))), b.times_power_of_two(b.const(1.0), shifted))


def exponent_range(b: MathBuilder) -> tuple[float, float]:
    """Whole binary exponents at and beyond which results are 0 and infinity."""
    return -(b.bias + b.mantissa_bits + 1.0), b.bias + 1.0


def without_zeros(b: MathBuilder, x: SSAValue, log_base: float) -> tuple[SSAValue, SSAValue]:
    """Whether a power is 0, and an exponent out of which it can be computed, which is 0 then: a product that
    underflows takes more than a hundred cycles on x86.
    """
    lowest, overflow = exponent_range(b)
    is_zero = b.cmp("olt", x, b.const(lowest * log_base))
    return is_zero, b.select(is_zero, b.const(0.0), b.clamp_above(x, (overflow + 1) * log_base))


def times_any_power_of_two(b: MathBuilder, x: SSAValue, n: SSAValue, shifted: SSAValue) -> SSAValue:
    """`x * 2^n` for x near 1, given `n` and `n + round_magic()`: 0, denormal, normal or infinite, rounded
    once.

    The factors are 2^(n/2) and the rest: no float is as large or small as 2^n for every n. They are factors,
    and not added to the bits of x, as those of a NaN may be any.
    """
    # With the bias in its low bits, it is the bits of a float as it is.
    half = b.fma(n, b.const(0.5), b.round_magic(b.bias))
    exponent, first = (b.shift_left(b.bits(each), b.int_const(b.mantissa_bits)) for each in (shifted, half))
    biases = b.int_const(2 * b.bias << b.mantissa_bits)
    rest = b.from_bits(b.int_add(b.int_sub(exponent, first), biases))
    return b.mul(b.mul(x, b.from_bits(first)), rest)


def saturate(b: MathBuilder, exponent: SSAValue, power: SSAValue) -> SSAValue:
    """0 and infinity where an exponent is so far out of the range that a power by it is meaningless.

    Near the ends of the range the power itself is 0 or infinite, or still finite by a lower part of the
    exponent: that of the largest number is rounded up to the first whole one out of the range.
    """
    lowest, overflow = exponent_range(b)
    finite = b.select(b.cmp("oge", exponent, b.const(overflow + 1)), b.infinity(), power)
    return b.select(b.cmp("olt", exponent, b.const(lowest)), b.const(0.0), finite)
