"""Scores that are scaled only where they are used: maxima once a row, and exponents by their own factor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, StoreOp, YieldOp
from ocannl.passes.analysis.nests import operations
from ocannl.passes.rewrites.dead_code import remove_unused_operations


def keep_raw(nests: Sequence[NestOp], node: SSAValue) -> None:
    """Stores scores before a positive factor scales them, if all that read them are maxima, and exponents
    that multiply them by a constant.
    """
    ops = [op for nest in nests for op in operations(nest.body.block)]
    stores = [op for op in ops if isinstance(op, StoreOp) and op.node is node]
    loads = [op for op in ops if isinstance(op, LoadOp) and op.node is node]
    if len(stores) != 1 or not all(maximum_of(load) or exponent_of(load) for load in loads):
        return
    factor = unscale(stores[0])
    if factor is None:
        return
    for load in loads:
        maximum, exponent = maximum_of(load), exponent_of(load)
        if maximum is not None:
            constant = number(factor)
            scaled = arith.MulfOp(maximum.result, constant.result)
            Rewriter.insert_op([constant, scaled], InsertPoint.after(maximum))
            maximum.result.replace_all_uses_with(scaled.result)
            scaled.operands = [maximum.result, constant.result]
        elif exponent is not None:
            own = constant_of(exponent.b)
            assert own is not None
            constant = number(own * factor)
            Rewriter.insert_op(constant, InsertPoint.before(exponent))
            exponent.operands = [exponent.a, constant.result, exponent.c]
    for nest in nests:
        remove_unused_operations(nest.body.block)


def unscale(store: StoreOp) -> float | None:
    """Stores a value without its factor, which it returns; None if there is none that is positive. A mask may
    have a constant in place of the value.
    """
    value, select = store.value.owner, None
    if isinstance(value, arith.SelectOp):
        value, select = value.lhs.owner, value
    factor = constant_of(value.rhs) if isinstance(value, arith.MulfOp) else None
    if not isinstance(value, arith.MulfOp) or factor is None or not 0 < factor < math.inf:
        return None
    if select is None:
        store.operands = [value.lhs, *store.operands[1:]]
        return factor
    masked = constant_of(select.rhs)
    if masked is None or not np.isfinite(np.float32(masked / factor)):
        return None
    constant = number(masked / factor)
    raw = arith.SelectOp(select.cond, value.lhs, constant.result)
    Rewriter.insert_op([constant, raw], InsertPoint.before(store))
    store.operands = [raw.result, *store.operands[1:]]
    return factor


def maximum_of(load: LoadOp) -> ReduceOp | None:
    """The reduction of loaded scores to their maximum."""
    (user, *others) = [use.operation for use in load.result.uses]
    reduce = user.parent_op()
    if others or not isinstance(user, YieldOp) or not isinstance(reduce, ReduceOp):
        return None
    return reduce if reduce.accum.data == "max" else None


def exponent_of(load: LoadOp) -> math_dialect.FmaOp | None:
    """The `score * c + something` that takes a loaded score, and is an exponent."""
    (user, *others) = [use.operation for use in load.result.uses]
    if others or not isinstance(user, math_dialect.FmaOp) or user.a is not load.result:
        return None
    powers = [use.operation for use in user.result.uses]
    is_exponent = all(isinstance(power, math_dialect.Exp2Op) for power in powers)
    return user if is_exponent and constant_of(user.b) is not None else None


def number(value: float) -> arith.ConstantOp:
    return arith.ConstantOp(FloatAttr(value, f32))


def constant_of(value: SSAValue) -> float | None:
    """The number that a value of f32 is."""
    op = value.owner
    if not isinstance(op, arith.ConstantOp) or not isinstance(op.value, FloatAttr) or value.type != f32:
        return None
    return op.value.value.data
