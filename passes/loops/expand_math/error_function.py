"""`erf`: an odd polynomial around 0, and beyond 1 another polynomial or 1 - 2^P(|x|), both computed and one
selected.
"""

from __future__ import annotations

from xdsl.dialects.math import AbsFOp, Exp2Op
from xdsl.ir import SSAValue

from ocannl.dialects.scalar.approximate import APPROXIMATE
from ocannl.passes.loops.expand_math.builder import MathBuilder
from ocannl.passes.loops.expand_math.exponential import exp2_reduced

# Q in erf(x) = x + x Q(x^2) for |x| <= 1.
NEAR = {
    32: (0.128379121, -0.37612313, 0.112800166, -0.0267051887, 0.00490887044, -0.000559023814),
    64: (
        0.12837916709551256,
        -0.37612638903183337,
        0.11283791670936383,
        -0.026866170641828866,
        0.0052239775953693505,
        -0.00085483254063790156,
        0.00012055277783412194,
        -1.4924407074532016e-05,
        1.6443353941654547e-06,
        -1.6177360545404018e-07,
        1.3585870987485921e-08,
        -7.5465001017372842e-10,
    ),
}
# P in erf(x) = P(x - CENTER) for 1 <= x <= LIMIT, in f32.
FAR_32 = (
    0.999593079,
    0.00217803521,
    -0.00544699514,
    0.00835375488,
    -0.00861320179,
    0.00610161806,
    -0.00282288692,
    0.000572415534,
    0.000291197823,
    -0.00028000673,
    5.97524413e-05,
    2.12556115e-05,
    -8.76246213e-06,
)
CENTER = 2.5
# P in erf(x) = 1 - 2^P(x) for 1 <= x <= LIMIT, in f64.
FAR_64 = (
    -2.1711295713860344e-07,
    -1.6279047884247575,
    -0.91845888810514198,
    -0.14823824856157622,
    0.027534338439646439,
    0.00038968360279286433,
    -0.0025356340095634318,
    0.00091084120221895731,
    -5.50297659517924e-05,
    -0.00010673583501646027,
    6.7232040871105582e-05,
    -2.4602167899145626e-05,
    6.4544520319287284e-06,
    -1.2721388459419579e-06,
    1.8865207856945922e-07,
    -2.0530065271601359e-08,
    1.5518118664471307e-09,
    -7.2878452452208806e-11,
    1.6021089966067249e-12,
)
# Beyond, the result rounds to 1.
LIMIT = {32: 3.90625, 64: 6.0}
# Q and P for results that are rounded to 16 bits, of f32; P falls beyond all limits.
NEAR_ROUNDED = (0.128351703, -0.375210702, 0.108027801, -0.0184954684)
FAR_ROUNDED = (-0.131866053, -1.27375948, -1.26284087)


def erf(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 2 ulp in f32 and f64."""
    one = b.const(1.0)
    magnitude = b.float_op(AbsFOp, x)
    near = b.fma(x, b.polynomial(b.mul(x, x), b.pick(NEAR)), x)
    bounded = b.clamp_above(magnitude, b.pick(LIMIT))
    far = b.copy_sign(b.pick({32: _far_32, 64: _far_64})(b, bounded), x)
    return b.select(b.cmp("olt", magnitude, one), near, far)


def _far_32(b: MathBuilder, x: SSAValue) -> SSAValue:
    return b.polynomial(b.sub(x, b.const(CENTER)), FAR_32)


def _far_64(b: MathBuilder, x: SSAValue) -> SSAValue:
    log2_complement = b.polynomial(x, FAR_64)
    shifted = b.add(log2_complement, b.round_magic())
    r = b.sub(log2_complement, b.sub(shifted, b.round_magic()))
    return b.sub(b.const(1.0), exp2_reduced(b, r, shifted))


def approximate_erf(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Its relative error is 2^-15, by an `exp2` that hardware has."""
    one = b.const(1.0)
    magnitude = b.float_op(AbsFOp, x)
    near = b.fma(x, b.polynomial(b.mul(x, x), NEAR_ROUNDED), x)
    complement = b.append(Exp2Op(b.polynomial(magnitude, FAR_ROUNDED), APPROXIMATE))
    far = b.copy_sign(b.sub(one, complement), x)
    return b.select(b.cmp("olt", magnitude, one), near, far)
