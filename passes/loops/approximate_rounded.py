"""`approximate-rounded`: functions whose results are rounded to 16 bits are those of a GPU's hardware."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import IntEnum

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import Float16Type, FloatAttr, ModuleOp, bf16, f32
from xdsl.ir import Operation, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects.ir.origins import inherit
from ocannl.dialects.loops import NestOp
from ocannl.dialects.scalar.approximate import APPROXIMATE, QUOTIENT_ALONE, is_approximate
from ocannl.passes.analysis.nests import operations

# Where an operand of these has a small relative error, so has the result.
KEEPS_ERRORS: Mapping[type[Operation], tuple[int, ...]] = {
    arith.MulfOp: (0, 1),
    arith.DivfOp: (0, 1),
    arith.NegfOp: (0,),
    math_dialect.AbsFOp: (0,),
    math_dialect.CopySignOp: (0,),
    arith.SelectOp: (1, 2),
}
# Other arithmetic, which may make the error of an operand larger beside its result.
ADDS_ERRORS = (arith.AddfOp, arith.SubfOp, arith.MaximumfOp, arith.MinimumfOp, math_dialect.FmaOp)


class Errors(IntEnum):
    """The errors that a value may have: those of arithmetic, a few units in its last place, or relative ones
    that are small beside those of numbers of 16 bits.
    """

    NONE, LAST_PLACES, RELATIVE = range(3)


class ApproximateRoundedPass(ModulePass):
    """Precision tuning: where a result in f32 is rounded to 16 bits, the functions that it is computed by may
    have relative errors that are far smaller than those of the rounding.

    Exponentials have errors up to 2^-17, `erf` up to 2^-15, and tanh, where it is rounded to bf16 at once,
    up to 2^-11. They may pass to what is rounded through products, quotients, signs, choices and sums of
    numbers that are not negative. Those of quotients, also of that in another tanh, are 2 ulp in place of a
    half: they may pass through all arithmetic, which has such errors itself. NaN, infinities, zeros and
    subnormal numbers are as in IEEE 754.
    """

    name = "approximate-rounded"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in [nest for nest in op.walk() if isinstance(nest, NestOp)]:
            approximate(nest)


def approximate(nest: NestOp) -> None:
    """Approximates the functions of a nest, of which none is yet."""
    found: list[tuple[Operation, Errors]] = []
    errors: dict[SSAValue, Errors] = {}
    for op in reversed(operations(nest.body.block)):
        if len(op.results) == 1 and op.results[0].type == f32:
            (result,) = op.results
            absorbed = [errors_of(use, errors) for use in result.uses]
            errors[result] = min(absorbed, default=Errors.NONE)
            if errors[result] and type(op) in REPLACEMENTS and not is_approximate(op):
                found.append((op, errors[result]))
    for op, allowed in found:
        REPLACEMENTS[type(op)](op, allowed)


def errors_of(use: Use, errors: Mapping[SSAValue, Errors]) -> Errors:
    """The errors that an operand may have."""
    op = use.operation
    if isinstance(op, arith.TruncFOp):
        return Errors.RELATIVE if op.result.type in (bf16, Float16Type()) else Errors.NONE
    if type(op) not in KEEPS_ERRORS and type(op) not in ADDS_ERRORS:
        return Errors.NONE
    allowed = errors.get(op.results[0], Errors.NONE)
    keeps = use.index in KEEPS_ERRORS.get(type(op), ())
    keeps |= isinstance(op, arith.AddfOp) and all(map(is_not_negative, op.operands))
    if isinstance(op, arith.SelectOp) and use.index == 0:
        return Errors.NONE
    return allowed if keeps else min(allowed, Errors.LAST_PLACES)


def is_not_negative(value: SSAValue) -> bool:
    match value.owner:
        case arith.ConstantOp(value=FloatAttr() as number):
            return number.value.data >= 0
        case owner:
            return isinstance(owner, math_dialect.ExpOp | math_dialect.Exp2Op | math_dialect.AbsFOp)


def approximate_quotient(op: Operation, allowed: Errors) -> None:
    op.properties["fastmath"] = APPROXIMATE


def approximate_tanh(op: Operation, allowed: Errors) -> None:
    rounded = all(isinstance(u.operation, arith.TruncFOp) for u in op.results[0].uses)
    to_bf16 = rounded and all(u.operation.results[0].type == bf16 for u in op.results[0].uses)
    op.properties["fastmath"] = APPROXIMATE if to_bf16 else QUOTIENT_ALONE


def approximate_erf(op: Operation, allowed: Errors) -> None:
    if allowed is Errors.RELATIVE:
        op.properties["fastmath"] = APPROXIMATE


def approximate_exp(op: Operation, allowed: Errors) -> None:
    """The square of an exponential of the half: one that takes subnormal numbers as 0 has none there."""
    if allowed is not Errors.RELATIVE:
        return
    half = arith.ConstantOp(FloatAttr(0.5 / math.log(2), f32))
    exponent = arith.MulfOp(op.operands[0], half.result)
    root = math_dialect.Exp2Op(exponent.result, APPROXIMATE)
    square = arith.MulfOp(root.result, root.result)
    made = [half, exponent, root, square]
    inherit(square.result, op, made)
    Rewriter.replace_op(op, made, [square.result])


REPLACEMENTS: Mapping[type[Operation], Callable[[Operation, Errors], None]] = {
    arith.DivfOp: approximate_quotient,
    math_dialect.ErfOp: approximate_erf,
    math_dialect.ExpOp: approximate_exp,
    math_dialect.TanhOp: approximate_tanh,
}
