"""Replaces the elementary functions of `math` on scalar f32 and f64, remainders, and random numbers, by
straight-line arithmetic.

Without branches and tables but for large angles, so that an expansion vectorizes lane by lane. The errors, in
units in the last place, are stated by each function and tested; NaN, infinities, zeros and denormals are as
in IEEE 754. The arithmetic must be compiled as it is written: reassociation undoes the rounding to integers
and the error terms.

The polynomials are minimax fits, derived by `bench/fit_math_coefficients.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.context import Context
from xdsl.dialects import math
from xdsl.dialects.builtin import Float32Type, Float64Type, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects.ir.origins import inherit
from ocannl.dialects.loops import UniformOp
from ocannl.dialects.scalar.approximate import has_approximate_quotient, is_approximate
from ocannl.dialects.scalar.arith_builder import ConstantKey
from ocannl.dialects.scalar.remainder_op import RemainderOp
from ocannl.passes.loops.expand_math.builder import MathBuilder
from ocannl.passes.loops.expand_math.error_function import approximate_erf, erf
from ocannl.passes.loops.expand_math.exponential import approximate_exp, exp, exp2
from ocannl.passes.loops.expand_math.hyperbolic import cosh, expm1, sinh, tanh, tanh_by_approximate_quotient
from ocannl.passes.loops.expand_math.inverse_trigonometric import acos, asin, atan, atan2
from ocannl.passes.loops.expand_math.logarithm import log, log1p, log2, log10
from ocannl.passes.loops.expand_math.power import powf
from ocannl.passes.loops.expand_math.remainder import remainder
from ocannl.passes.loops.expand_math.trigonometric import cos, sin, tan
from ocannl.passes.loops.expand_math.uniform import Blocks, uniform

EXPANSIONS: Mapping[type[Operation], Callable[..., SSAValue]] = {
    RemainderOp: remainder,
    math.AcosOp: acos,
    math.AsinOp: asin,
    math.Atan2Op: atan2,
    math.AtanOp: atan,
    math.CosOp: cos,
    math.CoshOp: cosh,
    math.ErfOp: erf,
    math.Exp2Op: exp2,
    math.ExpM1Op: expm1,
    math.ExpOp: exp,
    math.Log10Op: log10,
    math.Log1pOp: log1p,
    math.Log2Op: log2,
    math.LogOp: log,
    math.PowFOp: powf,
    math.SinOp: sin,
    math.SinhOp: sinh,
    math.TanOp: tan,
    math.TanhOp: tanh,
}
# Those of approximate functions; the others stay, as hardware has them.
APPROXIMATIONS: Mapping[type[Operation], Callable[..., SSAValue]] = {
    math.ErfOp: approximate_erf,
    math.ExpOp: approximate_exp,
}


def expansion_of(op: Operation) -> Callable[..., SSAValue] | None:
    """How an operation is expanded, if at all, where hardware has approximations."""
    kind = type(op)
    if kind not in EXPANSIONS and kind not in APPROXIMATIONS:
        return None
    if has_approximate_quotient(op):
        return tanh_by_approximate_quotient
    return (APPROXIMATIONS if is_approximate(op) else EXPANSIONS).get(kind)


def way_without(op: Operation) -> str:
    """The end of a message about an operation that a target lacks: the way out, if this pass replaces it."""
    is_replaced = type(op) in EXPANSIONS or isinstance(op, UniformOp)
    return ": run expand-math first" if is_replaced and _is_expandable(op) else ""


def _is_expandable(op: Operation) -> bool:
    return isinstance(op.results[0].type, Float32Type | Float64Type)


def expand_block(block: Block, *, approximations: bool = False) -> None:
    """Expands in order, so that the operations of a block share their constants and random words. Functions
    that may be approximated stay such, as hardware has them, unless `approximations` are expanded, too.
    """
    constants: dict[ConstantKey, SSAValue] = {}
    drawn: Blocks = {}
    for op in block.ops:
        for region in op.regions:
            for inner in region.blocks:
                expand_block(inner, approximations=approximations)
        expand = EXPANSIONS.get(type(op)) if approximations else expansion_of(op)
        if expand is None and not isinstance(op, UniformOp):
            continue
        type_ = op.results[0].type
        if isinstance(type_, Float32Type | Float64Type):
            builder = MathBuilder(type_, constants=constants)
            if expand is not None:
                value = expand(builder, *op.operands)
            else:
                assert isinstance(op, UniformOp)
                value = uniform(builder, op, drawn)
            inherit(value, op, builder.ops)
            Rewriter.replace_op(op, builder.ops, [value])


class ExpandMathPass(ModulePass):
    """Expands the exponential, logarithmic, trigonometric and hyperbolic functions of `math`, `erf`, `powf`
    and `loops.uniform` into straight-line arithmetic: range reduction, then a minimax polynomial (Muller,
    "Elementary Functions", 2016).
    """

    name = "expand-math"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for region in op.regions:
            for block in region.blocks:
                expand_block(block)
