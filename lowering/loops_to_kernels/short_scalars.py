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
from ocannl.passes.analysis.nests import operations
from ocannl.passes.rewrites.dead_code import remove_unused_operations


def shorten_scalars(nest: NestOp) -> None:
    """Divides by approximate reciprocals, and rounds products with the sums that take them."""
    divide_by_reciprocals(nest)
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
