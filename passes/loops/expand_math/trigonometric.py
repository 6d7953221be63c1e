"""`sin`, `cos` and `tan`: a polynomial of the distance to a multiple of pi, by Cody and Waite's reduction.

The multiple of pi is taken off in three parts, each product exact by a fused multiply-add. That is accurate
for angles that are near; `far_angle.py` reduces the others.
"""

from __future__ import annotations

import math

from xdsl.dialects import arith
from xdsl.dialects.math import AbsFOp
from xdsl.ir import SSAValue

from ocannl.dialects.scalar.far_op import FarOp
from ocannl.passes.loops.expand_math.builder import MathBuilder

# Angles are far beyond these.
NEAR = {32: 2.0**18, 64: 2.0**45}
# pi as an unevaluated sum of positive numbers: a zero multiple of each keeps the sign of -0.
PI = {
    32: (3.1415925, 1.50995788e-07, 1.07806051e-14),
    64: (3.1415926535897931, 1.224646799147353e-16, 2.1657133478438278e-32),
}
# Q in sin(r) = r + r z Q(z), z = r^2, for |r| <= 1.73, somewhat more than pi / 2.
SIN = {
    32: (-0.166666672, 0.00833334774, -0.000198424386, 2.7584374e-06, -2.46476972e-08),
    64: (
        -0.16666666666666663,
        0.0083333333333329065,
        -0.0001984126984110649,
        2.7557319194163696e-06,
        -2.5052105391547665e-08,
        1.6058869218277262e-10,
        -7.6412620603861257e-13,
        2.7040484283873475e-15,
    ),
}


def sin(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 2 ulp in f32 and f64."""
    shifted = b.fma(x, b.const(1 / math.pi), b.round_magic())
    n = b.sub(shifted, b.round_magic())
    near = _flipped(b, _add_multiple_of_pi(b, x, n, -1), shifted)
    return _sine(b, _reduced(b, "sine", x, near))


def cos(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 2 ulp in f32 and f64; `cos(x) = (-1)^n sin(x + (n + 1/2) pi)`."""
    turns = b.fma(x, b.const(-1 / math.pi), b.const(-0.5))
    shifted = b.add(turns, b.round_magic())
    n = b.add(b.sub(shifted, b.round_magic()), b.const(0.5))
    near = _flipped(b, _add_multiple_of_pi(b, x, n, 1), shifted)
    return _sine(b, _reduced(b, "cosine", x, near))


def tan(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 4 ulp in f32 and f64: the quotient of both."""
    return b.div(sin(b, x), cos(b, x))


def _reduced(b: MathBuilder, function: str, x: SSAValue, near: SSAValue) -> SSAValue:
    is_far = b.cmp("ogt", b.float_op(AbsFOp, x), b.const(b.pick(NEAR)))
    return b.append(FarOp(is_far, function, [x], near))


def _add_multiple_of_pi(b: MathBuilder, x: SSAValue, n: SSAValue, sign: int) -> SSAValue:
    for part in b.pick(PI):
        x = b.fma(n, b.const(sign * part), x)
    return x


def _flipped(b: MathBuilder, r: SSAValue, shifted: SSAValue) -> SSAValue:
    """`(-1)^n r`, given `n + round_magic()`."""
    flip = b.shift_left(b.bits(shifted), b.int_const(b.type.bitwidth - 1))
    return b.from_bits(b.bit_op(arith.XOrIOp, b.bits(r), flip))


def _sine(b: MathBuilder, r: SSAValue) -> SSAValue:
    """`sin(r)` for |r| <= pi / 2."""
    z = b.mul(r, r)
    sine = b.fma(b.mul(z, b.polynomial(z, b.pick(SIN))), r, r)
    # Only -0 needs the sign: the sum above makes it 0.
    return b.copy_sign(sine, r)
