"""`asin`, `acos`, `atan` and `atan2`: odd polynomials near 0, to which other operands are reduced."""

from __future__ import annotations

import math

from xdsl.dialects import arith
from xdsl.dialects.math import AbsFOp, SqrtOp
from xdsl.ir import SSAValue

from ocannl.passes.loops.expand_math.builder import MathBuilder

# R in asin(x) = x + x z R(z), z = x^2, for |x| <= 1 / 2.
ASIN = {
    32: (0.166667536, 0.0749524906, 0.0454766415, 0.0241482295, 0.042219609),
    64: (
        0.16666666666665375,
        0.075000000003449543,
        0.044642856821846301,
        0.030381959400878341,
        0.022371751807584137,
        0.017359797619136825,
        0.013884330720335167,
        0.012175073717459796,
        0.006502942922642219,
        0.019595946101371966,
        -0.016329249377028544,
        0.031983467094255549,
    ),
}
# P in atan(x) = x + x z P(z), z = x^2, for |x| <= tan(pi / 8).
ATAN = {
    32: (-0.333333164, 0.199985296, -0.142444432, 0.10599564, -0.0609097853),
    64: (
        -0.33333333333333198,
        0.19999999999953769,
        -0.14285714280212425,
        0.11111110784165766,
        -0.090908977758328263,
        0.076920605000552963,
        -0.066631068762400825,
        0.058479068591740624,
        -0.050393702995329234,
        0.038065890367025838,
        -0.017908305629164366,
    ),
}
# pi / 2 as an unevaluated sum.
HALF_PI = {32: (1.57079637, -4.37113883e-08), 64: (1.5707963267948966, 6.123233995736766e-17)}


def asin(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 3 ulp in f32 and f64."""
    high, low = b.pick(HALF_PI)
    far, angle = _near_or_half(b, x)
    beyond = b.sub(b.const(high), b.fma(angle, b.const(2.0), b.const(-low)))
    return b.copy_sign(b.select(far, beyond, angle), x)


def acos(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 2 ulp in f32 and f64."""
    high, low = b.pick(HALF_PI)
    far, angle = _near_or_half(b, x)
    near = b.sub(b.const(high), b.sub(b.copy_sign(angle, x), b.const(low)))
    twice = b.mul(angle, b.const(2.0))
    opposite = b.sub(b.const(2 * high), b.sub(twice, b.const(2 * low)))
    return b.select(far, b.select(b.cmp("olt", x, b.const(0.0)), opposite, twice), near)


def _near_or_half(b: MathBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Whether |x| is beyond 1/2, and `asin(|x|)`, or beyond it half of `acos(|x|)`."""
    magnitude = b.float_op(AbsFOp, x)
    far = b.cmp("ogt", magnitude, b.const(0.5))
    half = b.mul(b.sub(b.const(1.0), magnitude), b.const(0.5))
    square = b.select(far, half, b.mul(magnitude, magnitude))
    sine = b.select(far, b.float_op(SqrtOp, half), magnitude)
    return far, b.fma(b.mul(sine, square), b.polynomial(square, b.pick(ASIN)), sine)


def atan(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 2 ulp in f32 and f64."""
    return b.copy_sign(_atan_of_positive(b, b.float_op(AbsFOp, x)), x)


def atan2(b: MathBuilder, y: SSAValue, x: SSAValue) -> SSAValue:
    """Within 3 ulp in f32 and f64: the angle of the point `(x, y)`, with the sign of y, of zeros too."""
    high, low = b.pick(HALF_PI)
    zero, one = b.const(0.0), b.const(1.0)
    right, up = b.float_op(AbsFOp, x), b.float_op(AbsFOp, y)
    larger, smaller = (b.float_op(op, right, up) for op in (arith.MaximumfOp, arith.MinimumfOp))
    ratio = b.select(b.cmp("oeq", larger, zero), zero, b.div(smaller, larger))
    ratio = b.select(b.cmp("oeq", smaller, b.infinity()), one, ratio)
    angle = _atan_of_positive(b, ratio)
    steep = b.sub(b.const(high), b.sub(angle, b.const(low)))
    angle = b.select(b.cmp("ogt", up, right), steep, angle)
    left = b.sub(b.const(2 * high), b.sub(angle, b.const(2 * low)))
    angle = b.select(b.cmp("olt", b.copy_sign(one, x), zero), left, angle)
    return b.copy_sign(angle, y)


def _atan_of_positive(b: MathBuilder, x: SSAValue) -> SSAValue:
    """By `atan(x) = pi / 4 + atan((x - 1) / (x + 1)) = pi / 2 + atan(-1 / x)`."""
    one = b.const(1.0)
    middle, far = (b.cmp("ogt", x, b.const(math.tan(k * math.pi / 8))) for k in (1, 3))

    def choose(of_far: SSAValue, of_middle: SSAValue, of_near: SSAValue) -> SSAValue:
        return b.select(far, of_far, b.select(middle, of_middle, of_near))

    above = choose(b.const(-1.0), b.sub(x, one), x)
    t = b.div(above, choose(x, b.add(x, one), one))
    parts = [choose(b.const(part), b.const(part / 2), b.const(0.0)) for part in b.pick(HALF_PI)]
    z = b.mul(t, t)
    return b.add(parts[0], b.fma(b.mul(t, z), b.polynomial(z, b.pick(ATAN)), b.add(t, parts[1])))
