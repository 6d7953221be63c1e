"""Scalar operations on scores in fewer instructions, which round less or hardly more."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp
from ocannl.dialects.scalar.approximate import RECIPROCAL, is_approximate
from ocannl.passes.analysis.nests import operations
from ocannl.passes.rewrites.dead_code import remove_unused_operations


def shorten_scalars(nest: NestOp) -> None:
    divide_by_reciprocals(nest)
    for op in operations(nest.body.block):
        if isinstance(op, math_dialect.Exp2Op) and is_approximate(op):
            shift_after_scaling(op)
    for op in operations(nest.body.block):
        if isinstance(op, arith.AddfOp) and op.result.type == f32:
            fuse(op)
    remove_unused_operations(nest.body.block)


def divide_by_reciprocals(nest: NestOp) -> None:
    """Multiplies by approximate reciprocals of what is loaded in place of dividing by it: they are fewer."""
    for op in operations(nest.body.block):
        if isinstance(op, arith.DivfOp) and isinstance(op.rhs.owner, LoadOp) and op.result.type == f32:
            one = arith.ConstantOp(FloatAttr(1.0, f32))
            reciprocal = arith.DivfOp(one.result, op.rhs, RECIPROCAL)
            product = arith.MulfOp(op.lhs, reciprocal.result)
            Rewriter.replace_op(op, [one, reciprocal, product], [product.result])


def shift_after_scaling(power: math_dialect.Exp2Op) -> None:
    """`exp2((x - m) * c)` as `exp2(x * c - m * c)`, of which a row or a column has one `m * c`."""
    product = power.operand.owner
    if not isinstance(product, arith.MulfOp) or not isinstance(product.rhs.owner, arith.ConstantOp):
        return
    difference = product.lhs.owner
    if not isinstance(difference, arith.SubfOp) or not isinstance(difference.rhs.owner, LoadOp):
        return
    shift = arith.MulfOp(difference.rhs, product.rhs)
    negative = arith.NegfOp(shift.result)
    exponent = math_dialect.FmaOp(difference.lhs, product.rhs, negative.result)
    Rewriter.insert_op([shift, negative, exponent], InsertPoint.before(power))
    power.operands = [exponent.result]


def fuse(sum: arith.AddfOp) -> None:
    """A product that nothing but a sum takes is rounded with it, unless tensor cores add to it."""
    for value, other in ((sum.lhs, sum.rhs), (sum.rhs, sum.lhs)):
        product = value.owner
        if isinstance(product, arith.MulfOp) and has_one_use(value) and not isinstance(other.owner, ReduceOp):
            fused = math_dialect.FmaOp(product.lhs, product.rhs, other)
            Rewriter.replace_op(sum, fused)
            return


def has_one_use(value: SSAValue) -> bool:
    return len(list(value.uses)) == 1
