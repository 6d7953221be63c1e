"""Logarithms, after FreeBSD's msun (e_log.c): a series of inverse hyperbolic tangent around 1."""

from __future__ import annotations

import math

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from ocannl.passes.loops.expand_math.builder import MathBuilder
from ocannl.passes.loops.expand_math.exponential import LN2

# R in log(1 + f) = 2 s + s z R(z), s = f / (2 + f), z = s^2, for sqrt(1/2) <= 1 + f < sqrt(2).
LOG = {
    32: (0.666667759, 0.399775684, 0.298714489),
    64: (
        0.66666666666667351,
        0.39999999999409352,
        0.28571428743685717,
        0.22222198429066684,
        0.18183572350012159,
        0.15313832294160765,
        0.14798257502860607,
    ),
}
# 1 / ln 2 as an unevaluated sum.
LOG2_E = {32: (1.44269502, 1.92596303e-08), 64: (1.4426950408889634, 2.0355273740931033e-17)}
# 1 / ln 10 and the common logarithm of 2 as unevaluated sums.
LOG10_E = {32: (0.434294492, -1.010305e-08), 64: (0.43429448190325182, 1.0983196502167651e-17)}
LOG10_2 = {32: (0.30103001, -1.43209888e-08), 64: (0.3010299956639812, -2.8037281277851704e-18)}
SQRT_HALF_BITS = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}


def log(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 1 ulp in f32 and f64, also of denormal numbers."""
    mantissa, exponent = split(b, x)
    f = b.sub(mantissa, b.const(1.0))
    high, low = b.pick(LN2)
    square, tail = _square_and_tail(b, f)
    small = b.sub(square, b.fma(exponent, b.const(low), tail))
    return _with_special_values(b, x, b.fma(exponent, b.const(high), b.sub(f, small)))


def log2(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 2 ulp in f32 and f64, also of denormal numbers; exact at powers of two."""
    mantissa, exponent = split(b, x)
    f = b.sub(mantissa, b.const(1.0))
    high, low = b.pick(LOG2_E)
    square, tail = _square_and_tail(b, f)
    natural = b.sub(f, b.sub(square, tail))
    return _with_special_values(b, x, b.fma(natural, b.const(high), b.fma(natural, b.const(low), exponent)))


def log10(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 2 ulp in f32 and f64, also of denormal numbers."""
    mantissa, exponent = split(b, x)
    f = b.sub(mantissa, b.const(1.0))
    square, tail = _square_and_tail(b, f)
    natural = b.sub(f, b.sub(square, tail))
    (high, low), (two_high, two_low) = b.pick(LOG10_E), b.pick(LOG10_2)
    small = b.fma(natural, b.const(low), b.mul(exponent, b.const(two_low)))
    value = b.fma(exponent, b.const(two_high), b.fma(natural, b.const(high), small))
    return _with_special_values(b, x, value)


def log1p(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 2 ulp in f32 and f64: what rounding `1 + x` loses is added to its logarithm."""
    one = b.const(1.0)
    y = b.add(x, one)
    lost = b.div(b.sub(x, b.sub(y, one)), y)
    inside = b.bit_op(arith.AndIOp, b.cmp("ogt", y, b.const(0.0)), b.cmp("olt", y, b.infinity()))
    value = b.add(log(b, y), b.select(inside, lost, b.const(0.0)))
    return b.select(b.cmp("oeq", y, one), x, value)


def split(b: MathBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """`m` in [sqrt(1/2), sqrt(2)) and a whole `e`, both floats, such that `x = m * 2^e`, for finite x > 0."""
    smallest, scale = b.const(2.0 ** (1 - b.bias)), b.const(2.0**b.mantissa_bits)
    denormal = b.cmp("olt", x, smallest)
    bits = b.bits(b.select(denormal, b.mul(x, scale), x))
    above = b.int_sub(bits, b.int_const(b.pick(SQRT_HALF_BITS)))
    exponent = b.shift_right_signed(above, b.mantissa_bits)
    mantissa = b.from_bits(b.int_sub(bits, b.shift_left(exponent, b.int_const(b.mantissa_bits))))
    offset = b.select(denormal, b.const(b.mantissa_bits), b.const(0.0))
    return mantissa, b.sub(b.int_to_float(exponent), offset)


def _square_and_tail(b: MathBuilder, f: SSAValue) -> tuple[SSAValue, SSAValue]:
    """`f^2 / 2` and `t` such that `log(1 + f) = f - (f^2 / 2 - t)`: rounding errors are small beside f."""
    s = b.div(f, b.add(f, b.const(2.0)))
    z = b.mul(s, s)
    square = b.mul(b.mul(f, b.const(0.5)), f)
    return square, b.mul(s, b.fma(z, b.polynomial(z, b.pick(LOG)), square))


def _with_special_values(b: MathBuilder, x: SSAValue, value: SSAValue) -> SSAValue:
    zero = b.const(0.0)
    value = b.select(b.cmp("olt", x, b.infinity()), value, x)
    value = b.select(b.cmp("olt", x, zero), b.const(math.nan), value)
    return b.select(b.cmp("oeq", x, zero), b.const(-math.inf), value)
