"""Scalar operations on scores in fewer instructions.

Exponents stay `(x - m) * c`: `x * c - m * c` is not 0 where `x` is `m`, a large number as those of masks.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.rewriter import Rewriter

from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp
from ocannl.dialects.scalar.approximate import RECIPROCAL
from ocannl.dialects.scalar.constants import constant_of, number
from ocannl.passes.analysis.nests import operations
from ocannl.passes.rewrites.dead_code import remove_unused_operations

# Reciprocals of smaller numbers may overflow.
LEAST_DIVISOR = 2.0**-100


def shorten_scalars(nest: NestOp) -> None:
    """Divides by approximate reciprocals, rounds products with the sums that take them, and multiplies by two
    constants at a time.
    """
    divide_by_reciprocals(nest)
    for op in operations(nest.body.block):
        if isinstance(op, arith.MulfOp) and op.result.type == f32:
            join_factors(op)
    for op in operations(nest.body.block):
        if isinstance(op, arith.AddfOp) and op.result.type == f32:
            fuse(op)
    remove_unused_operations(nest.body.block)


def divide_by_reciprocals(nest: NestOp) -> None:
    """Multiplies by approximate reciprocals of what is loaded in place of dividing by it: they are fewer; and
    by those of constants.
    """
    for op in operations(nest.body.block):
        if not isinstance(op, arith.DivfOp) or op.result.type != f32:
            continue
        if (divisor := constant_of(op.rhs)) and LEAST_DIVISOR <= abs(divisor) <= 1 / LEAST_DIVISOR:
            factor = number(1 / divisor)
            product = arith.MulfOp(op.lhs, factor.result)
            Rewriter.replace_op(op, [factor, product], [product.result])
        elif isinstance(op.rhs.owner, LoadOp):
            one = arith.ConstantOp(FloatAttr(1.0, f32))
            reciprocal = arith.DivfOp(one.result, op.rhs, RECIPROCAL)
            product = arith.MulfOp(op.lhs, reciprocal.result)
            Rewriter.replace_op(op, [one, reciprocal, product], [product.result])


def join_factors(product: arith.MulfOp) -> None:
    """Multiplies by the product of two constants in place of by one after the other."""
    first, factor = product.lhs.owner, constant_of(product.rhs)
    if not isinstance(first, arith.MulfOp) or factor is None or not first.result.has_one_use():
        return
    other = constant_of(first.rhs)
    if other is None or not LEAST_DIVISOR <= abs(other * factor) <= 1 / LEAST_DIVISOR:
        return
    both = number(other * factor)
    Rewriter.replace_op(product, [both, arith.MulfOp(first.lhs, both.result)])


def fuse(sum: arith.AddfOp) -> None:
    """A product that nothing but a sum takes is rounded with it, unless tensor cores add to it."""
    for value, other in ((sum.lhs, sum.rhs), (sum.rhs, sum.lhs)):
        product = value.owner
        if (
            isinstance(product, arith.MulfOp)
            and value.has_one_use()
            and not isinstance(other.owner, ReduceOp)
        ):
            fused = math_dialect.FmaOp(product.lhs, product.rhs, other)
            Rewriter.replace_op(sum, fused)
            return
