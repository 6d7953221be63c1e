"""Scores that are scaled only where they are used, with the maximum of a row and where exponents subtract it.

The factor is a power of two, so that every result has the same bits, whatever masks have written.
"""

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

GREATEST = float(np.finfo(np.float32).max)


def keep_raw(nests: Sequence[NestOp], node: SSAValue) -> None:
    """Stores scores before a factor scales them, if all that read them are maxima, and differences from
    something.
    """
    ops = [op for nest in nests for op in operations(nest.body.block)]
    stores = [op for op in ops if isinstance(op, StoreOp) and op.node is node]
    loads = [op for op in ops if isinstance(op, LoadOp) and op.node is node]
    if len(stores) != 1 or not all(maximum_of(load) or difference_of(load) for load in loads):
        return
    factor = unscale(stores[0])
    if factor is None:
        return
    for load in loads:
        maximum, difference = maximum_of(load), difference_of(load)
        if maximum is not None:
            scale(maximum, factor)
        elif difference is not None:
            constant, less = number(factor), arith.NegfOp(difference.rhs)
            fused = math_dialect.FmaOp(load.result, constant.result, less.result)
            Rewriter.replace_op(difference, [constant, less, fused], [fused.result])


def scale(maximum: ReduceOp, factor: float) -> None:
    constant = number(factor)
    scaled = arith.MulfOp(maximum.result, constant.result)
    Rewriter.insert_op([constant, scaled], InsertPoint.after(maximum))
    maximum.result.replace_uses_with_if(scaled.result, lambda use: use.operation is not scaled)


def unscale(store: StoreOp) -> float | None:
    """Stores a value without its factor, which it returns; None if that is no power of two, or greater than
    1, as products may overflow then. A mask may have a constant in place of the value.
    """
    value, select = store.value.owner, None
    if isinstance(value, arith.SelectOp):
        value, select = value.lhs.owner, value
    factor = constant_of(value.rhs) if isinstance(value, arith.MulfOp) else None
    if not isinstance(value, arith.MulfOp) or factor is None or not 0 < factor <= 1:
        return None
    mantissa, _ = math.frexp(factor)
    masked = None if select is None else constant_of(select.rhs)
    if mantissa != 1 / 2 or (select is not None and masked is None):
        return None
    raw = value.lhs
    if select is not None and masked is not None:
        if math.isfinite(masked) and abs(masked) > GREATEST * factor:
            return None
        constant = number(masked / factor)
        chosen = arith.SelectOp(select.cond, raw, constant.result)
        Rewriter.insert_op([constant, chosen], InsertPoint.before(store))
        raw = chosen.result
    store.operands[0] = raw
    return factor


def maximum_of(load: LoadOp) -> ReduceOp | None:
    """The reduction of loaded scores to their maximum."""
    user = only_user(load)
    reduce = user.parent_op() if isinstance(user, YieldOp) else None
    return reduce if isinstance(reduce, ReduceOp) and reduce.accum.data == "max" else None


def difference_of(load: LoadOp) -> arith.SubfOp | None:
    """The subtraction of something from a loaded score."""
    user = only_user(load)
    return user if isinstance(user, arith.SubfOp) and user.lhs is load.result else None


def only_user(load: LoadOp) -> object:
    users = [use.operation for use in load.result.uses]
    return users[0] if len(users) == 1 else None


def number(value: float) -> arith.ConstantOp:
    return arith.ConstantOp(FloatAttr(value, f32))


def constant_of(value: SSAValue) -> float | None:
    """The number that a value of f32 is."""
    op = value.owner
    if not isinstance(op, arith.ConstantOp) or not isinstance(op.value, FloatAttr) or value.type != f32:
        return None
    return op.value.value.data
