"""`tanh`, `sinh`, `cosh` and `expm1`, by `e^x - 1` computed without cancellation."""

from __future__ import annotations

import math

from xdsl.dialects.arith import DivfOp
from xdsl.dialects.math import AbsFOp
from xdsl.ir import SSAValue

from ocannl.dialects.scalar.approximate import APPROXIMATE
from ocannl.passes.loops.expand_math.builder import MathBuilder
from ocannl.passes.loops.expand_math.exponential import EXP, reduce_exp

# Beyond, the result rounds to 1.
LIMIT = {32: 10.0, 64: 20.0}
LARGEST = {32: 3.4028234663852886e38, 64: 1.7976931348623157e308}


def tanh(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 3 ulp in f32 and f64: `(e^2x - 1) / (e^2x + 1)`."""
    return b.copy_sign(b.div(*_parts_of_tanh(b, x)), x)


def tanh_by_approximate_quotient(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 5 ulp in f32: the quotient is within 2."""
    return b.copy_sign(b.append(DivfOp(*_parts_of_tanh(b, x), APPROXIMATE)), x)


def _parts_of_tanh(b: MathBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    exp_minus_1 = _exp_minus_1(b, b.clamp_above(b.float_op(AbsFOp, x), b.pick(LIMIT)), factor=2)
    return exp_minus_1, b.add(exp_minus_1, b.const(2.0))


def expm1(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 3 ulp in f32 and f64. It is halved until the end: a power of two may be too large by itself."""
    overflow = math.log(b.pick(LARGEST))
    bounded = b.clamp_below(b.clamp_above(x, overflow), -(b.mantissa_bits + 3) * math.log(2))
    value = b.mul(b.const(2.0), _exp_minus_1(b, bounded, halvings=1))
    value = b.select(b.cmp("ogt", x, b.const(overflow)), b.infinity(), value)
    # Numbers so small would lose bits by halving.
    small = b.cmp("olt", b.float_op(AbsFOp, x), b.const(2.0 ** -(b.mantissa_bits + 2)))
    return b.copy_sign(b.select(small, x, value), x)


def sinh(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 3 ulp in f32 and f64: `(e + e / (e + 1)) / 2` of `e = e^|x| - 1`."""
    magnitude = b.float_op(AbsFOp, x)
    overflow = math.asinh(b.pick(LARGEST))
    quarter = _exp_minus_1(b, b.clamp_above(magnitude, overflow), halvings=2)
    reciprocal = b.div(quarter, b.fma(quarter, b.const(4.0), b.const(1.0)))
    value = b.mul(b.const(2.0), b.add(quarter, reciprocal))
    value = b.select(b.cmp("ogt", magnitude, b.const(overflow)), b.infinity(), value)
    small = b.cmp("olt", magnitude, b.const(2.0 ** -((b.mantissa_bits + 3) // 2)))
    return b.copy_sign(b.select(small, magnitude, value), x)


def cosh(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 2 ulp in f32 and f64: `(e^|x| + e^-|x|) / 2`."""
    magnitude = b.float_op(AbsFOp, x)
    overflow = math.acosh(b.pick(LARGEST))
    remainder, quarter = _remainder_and_power(b, b.clamp_above(magnitude, overflow), halvings=2)
    power = b.fma(quarter, remainder, quarter)
    value = b.add(power, b.div(b.const(1 / 16), power))
    value = b.mul(b.const(2.0), value)
    return b.select(b.cmp("ogt", magnitude, b.const(overflow)), b.infinity(), value)


def _exp_minus_1(b: MathBuilder, x: SSAValue, *, factor: int = 1, halvings: int = 0) -> SSAValue:
    """`e^(factor * x) - 1`, halved so many times."""
    remainder, power = _remainder_and_power(b, x, factor=factor, halvings=halvings)
    return b.fma(power, remainder, b.sub(power, b.const(2.0**-halvings)))


def _remainder_and_power(
    b: MathBuilder, x: SSAValue, *, factor: int = 1, halvings: int = 0
) -> tuple[SSAValue, SSAValue]:
    """`e^r - 1` and `2^n`, halved so many times, where `factor * x` is `n ln(2) + r`."""
    r, _, shifted = reduce_exp(b, x, factor)
    remainder = b.fma(b.mul(r, r), b.polynomial(r, b.pick(EXP)), r)
    return remainder, b.times_power_of_two(b.const(2.0**-halvings), shifted)
