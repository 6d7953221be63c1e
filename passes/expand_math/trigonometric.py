"""`sin` and `cos`: a polynomial of the distance to a multiple of pi, found by Cody and Waite's reduction.

The multiple of pi is taken off in three parts, each product exact by a fused multiply-add. That is accurate
up to 1e6 in f32 and 1e14 in f64; beyond, a result is meaningless but finite and at most 1 + 1 ulp.
"""

from __future__ import annotations

import math

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from ocannl.passes.expand_math.builder import MathBuilder

# pi as an unevaluated sum of positive numbers: a zero multiple of each keeps the sign of -0.
PI = {
    32: (3.1415925, 1.50995788e-07, 1.07806051e-14),
    64: (3.1415926535897931, 1.224646799147353e-16, 2.1657133478438278e-32),
}
# Q in sin(r) = r + r z Q(z), z = r^2, for |r| <= 1.65, somewhat more than pi / 2.
SIN = {
    32: (-0.166666582, 0.00833300501, -0.000198046866, 2.59418766e-06),
    64: (
        -0.16666666666666666,
        0.0083333333333330921,
        -0.00019841269841171786,
        2.7557319204670763e-06,
        -2.5052106279999846e-08,
        1.6058910029852435e-10,
        -7.6422256099473264e-13,
        2.7132045179030227e-15,
    ),
}


def sin(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 2 ulp in f32 and f64, in the range stated above."""
    shifted = b.fma(x, b.const(1 / math.pi), b.round_magic())
    n = b.sub(shifted, b.round_magic())
    return _signed_sine(b, _add_multiple_of_pi(b, x, n, -1), shifted)


def cos(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 2 ulp in f32 and f64, in the range stated above; `cos(x) = (-1)^n sin(x + (n + 1/2) pi)`."""
    turns = b.fma(x, b.const(-1 / math.pi), b.const(-0.5))
    shifted = b.add(turns, b.round_magic())
    n = b.add(b.sub(shifted, b.round_magic()), b.const(0.5))
    return _signed_sine(b, _add_multiple_of_pi(b, x, n, 1), shifted)


def _add_multiple_of_pi(b: MathBuilder, x: SSAValue, n: SSAValue, sign: int) -> SSAValue:
    for part in b.pick(PI):
        x = b.fma(n, b.const(sign * part), x)
    # The limit acts only out of the range that is accurate.
    return b.clamp_below(b.clamp_above(x, 1.65), -1.65)


def _signed_sine(b: MathBuilder, r: SSAValue, shifted: SSAValue) -> SSAValue:
    """`(-1)^n sin(r)` for |r| <= pi / 2, given `n + round_magic()`."""
    z = b.mul(r, r)
    sine = b.fma(b.mul(z, b.polynomial(z, b.pick(SIN))), r, r)
    flip = b.shift_left(b.bits(shifted), b.int_const(b.type.bitwidth - 1))
    # Only -0 needs the sign: the sum above makes it 0.
    return b.from_bits(b.bit_op(arith.XOrIOp, b.bits(b.copy_sign(sine, r)), flip))
