"""`tanh(x) = (e^2x - 1) / (e^2x + 1)`, with the numerator computed without cancellation."""

from __future__ import annotations

from xdsl.dialects.math import AbsFOp
from xdsl.ir import SSAValue

from ocannl.passes.loops.expand_math.builder import MathBuilder
from ocannl.passes.loops.expand_math.exponential import EXP, reduce_exp

# Beyond, the result rounds to 1.
LIMIT = {32: 10.0, 64: 20.0}


def tanh(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 3 ulp in f32 and f64."""
    r, _, shifted = reduce_exp(b, b.clamp_above(b.float_op(AbsFOp, x), b.pick(LIMIT)), 2)
    remainder = b.fma(b.mul(r, r), b.polynomial(r, b.pick(EXP)), r)
    one = b.const(1.0)
    power = b.times_power_of_two(one, shifted)
    exp_minus_1 = b.fma(power, remainder, b.sub(power, one))
    return b.copy_sign(b.div(exp_minus_1, b.add(exp_minus_1, b.const(2.0))), x)
