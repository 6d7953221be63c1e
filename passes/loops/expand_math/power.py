"""`powf`: 2^(y log2|x|) with the logarithm in twice the precision, as pairs of floats (Dekker 1971)."""

from __future__ import annotations

import math
from typing import NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.math import AbsFOp, FloorOp
from xdsl.ir import SSAValue

from ocannl.passes.loops.expand_math.builder import MathBuilder
from ocannl.passes.loops.expand_math.exponential import EXP, LN2, saturate, times_any_power_of_two
from ocannl.passes.loops.expand_math.logarithm import LOG2_E, split

TWO_THIRDS = {32: (0.666666687, -1.98682155e-08), 64: (0.66666666666666663, 3.7007434154171883e-17)}
# R in log(1 + f) = 2 s + s z (2/3 + z R(z)), s = f / (2 + f), z = s^2, for sqrt(1/2) <= 1 + f < sqrt(2).
LOG_TAIL = {
    32: (0.400001526, 0.285470873, 0.234197229),
    64: (
        0.40000000000002273,
        0.28571428570091228,
        0.22222222521478452,
        0.18181784225674122,
        0.15386764075880521,
        0.13256655714707777,
        0.1319787587512524,
    ),
}


class Pair(NamedTuple):
    """An unevaluated sum of two floats, the second far smaller."""

    high: SSAValue
    low: SSAValue


def powf(b: MathBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Within 1 ulp in f32 and f64, and exact where the result is a number of the type."""
    magnitude = b.float_op(AbsFOp, x)
    log2 = _log2(b, magnitude)
    exponent = _product(b, log2, Pair(y, b.const(0.0)))
    shifted = b.add(exponent.high, b.round_magic())
    n = b.sub(shifted, b.round_magic())
    remainder = _sum(b, b.sub(exponent.high, n), Pair(exponent.low, b.const(0.0)))
    power = times_any_power_of_two(b, _exp2(b, remainder), n, shifted)
    power = saturate(b, exponent.high, power)
    return _with_special_values(b, x, y, magnitude, power)


def _exp2(b: MathBuilder, x: Pair) -> SSAValue:
    """`2^x` for |x| <= 1 / 2, correctly rounded but for a few hundredths of an ulp: 1 is added last."""
    one = b.const(1.0)
    y = _product(b, x, _constant(b, LN2))
    tail = b.fma(b.mul(y.high, y.high), b.polynomial(y.high, b.pick(EXP)), b.fma(y.low, y.high, y.low))
    total = b.add(one, y.high)
    return b.add(total, b.add(b.sub(y.high, b.sub(total, one)), tail))


def _log2(b: MathBuilder, x: SSAValue) -> Pair:
    """The binary logarithm of x >= 0, with -inf, inf and NaN in the high part where they belong."""
    mantissa, exponent = split(b, x)
    scaled = _product(b, _log_near_1(b, mantissa), _constant(b, LOG2_E))
    total = _sum(b, exponent, scaled)
    high = b.select(b.cmp("olt", x, b.infinity()), total.high, x)
    return Pair(b.select(b.cmp("oeq", x, b.const(0.0)), b.const(-math.inf), high), total.low)


def _log_near_1(b: MathBuilder, m: SSAValue) -> Pair:
    s = _atanh_argument(b, m)
    z = _product(b, s, s)
    remainder = b.mul(z.high, b.polynomial(z.high, b.pick(LOG_TAIL)))
    two_thirds = _constant(b, TWO_THIRDS)
    tail = _sum(b, two_thirds.high, Pair(remainder, two_thirds.low))
    cubic = _product(b, _product(b, s, z), tail)
    double = Pair(b.add(s.high, s.high), b.add(s.low, s.low))
    return _sum(b, double.high, Pair(cubic.high, b.add(cubic.low, double.low)))


def _atanh_argument(b: MathBuilder, m: SSAValue) -> Pair:
    """`(m - 1) / (m + 1)`."""
    one = b.const(1.0)
    numerator = b.sub(m, one)
    denominator = b.add(m, one)
    lost = b.sub(m, b.sub(denominator, one))
    high = b.div(numerator, denominator)
    negative = b.neg(high)
    remainder = b.fma(negative, lost, b.fma(negative, denominator, numerator))
    return Pair(high, b.div(remainder, denominator))


def _constant(b: MathBuilder, table: dict[int, tuple[float, float]]) -> Pair:
    high, low = b.pick(table)
    return Pair(b.const(high), b.const(low))


def _product(b: MathBuilder, x: Pair, y: Pair) -> Pair:
    high = b.mul(x.high, y.high)
    rounding = b.fma(x.high, y.high, b.neg(high))
    return Pair(high, b.fma(x.high, y.low, b.fma(x.low, y.high, rounding)))


def _sum(b: MathBuilder, x: SSAValue, y: Pair) -> Pair:
    """`x + y` where x is 0 or at least as large as y."""
    high = b.add(x, y.high)
    rounding = b.add(b.sub(x, high), y.high)
    return Pair(high, b.add(rounding, y.low))


def _with_special_values(
    b: MathBuilder, x: SSAValue, y: SSAValue, magnitude: SSAValue, power: SSAValue
) -> SSAValue:
    one, zero = b.const(1.0), b.const(0.0)
    power = b.select(b.cmp("oeq", magnitude, one), one, power)
    half = b.mul(y, b.const(0.5))
    floor = b.float_op(FloorOp, y)
    fraction = b.cmp("une", y, floor)
    odd = b.bit_op(arith.AndIOp, b.cmp("oeq", y, floor), b.cmp("une", half, b.float_op(FloorOp, half)))
    power = b.select(odd, b.copy_sign(power, x), power)
    finite_negative = b.bit_op(arith.AndIOp, b.cmp("olt", x, zero), b.cmp("une", x, b.const(-math.inf)))
    undefined = b.bit_op(arith.AndIOp, finite_negative, fraction)
    power = b.select(undefined, b.const(math.nan), power)
    whole = b.bit_op(arith.OrIOp, b.cmp("oeq", x, one), b.cmp("oeq", y, zero))
    return b.select(whole, one, power)
