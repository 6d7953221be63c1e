"""`erf`: an odd polynomial around 0, and 1 - 2^-p(|x|) beyond 1, computed both and selected."""

from __future__ import annotations

from xdsl.dialects.math import AbsFOp
from xdsl.ir import SSAValue

from ocannl.passes.expand_math.builder import MathBuilder
from ocannl.passes.expand_math.exponential import exp2_reduced

# Q in erf(x) = x + x Q(x^2) for |x| <= 1.
NEAR = {
    32: (0.128379121, -0.376123548, 0.112804115, -0.0267177075, 0.00492478954, -0.000566015602),
    64: (
        0.12837916709551256,
        -0.37612638903183548,
        0.11283791670945252,
        -0.026866170643276066,
        0.005223977607422485,
        -0.00085483259896607219,
        0.00012055295319702941,
        -1.4924744652879135e-05,
        1.6447517599318869e-06,
        -1.6209175643273977e-07,
        1.3722976348072611e-08,
        -7.801191033989748e-10,
    ),
}
# -p, the binary logarithm of the complement, for 1 <= x <= LIMIT.
FAR = {
    32: (
        -0.000433447916,
        -1.62627995,
        -0.92027092,
        -0.149069712,
        0.0316532813,
        -0.00428831019,
        0.000272413075,
    ),
    64: (
        -2.1711249285498145e-07,
        -1.6279047884299338,
        -0.91845888807873333,
        -0.14823824864374655,
        0.027534338614732007,
        0.00038968333111052305,
        -0.0025356336910822017,
        0.00091084091364023953,
        -5.5029560972487705e-05,
        -0.00010673595002752669,
        6.7232091966010026e-05,
        -2.4602185825753035e-05,
        6.4544569599561113e-06,
        -1.2721398922723733e-06,
        1.8865224621179324e-07,
        -2.0530084800704605e-08,
        1.5518134209263951e-09,
        -7.2878527678324001e-11,
        1.6021106551086548e-12,
    ),
}
# Beyond, the result rounds to 1.
LIMIT = {32: 4.0, 64: 6.0}


def erf(b: MathBuilder, x: SSAValue) -> SSAValue:
    """Within 2 ulp in f32 and f64."""
    one = b.const(1.0)
    magnitude = b.float_op(AbsFOp, x)
    near = b.fma(x, b.polynomial(b.mul(x, x), b.pick(NEAR)), x)
    log2_complement = b.polynomial(b.clamp_above(magnitude, b.pick(LIMIT)), b.pick(FAR))
    shifted = b.add(log2_complement, b.round_magic())
    r = b.sub(log2_complement, b.sub(shifted, b.round_magic()))
    far = b.copy_sign(b.sub(one, exp2_reduced(b, r, shifted)), x)
    return b.select(b.cmp("olt", magnitude, one), near, far)
