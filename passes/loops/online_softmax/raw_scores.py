"""Scores that no factor has scaled yet: it scales their differences from the maximum of a row, and so is one
product with the factor of exponentials in base 2.

`exp(c * x - max(c * x))` is `exp((x - max(x)) * c)`, exact where `x` is the maximum, whatever masks have
written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import GroupOp, LoadOp, ReduceOp, StoreOp, YieldOp
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.constants import constant_of, number
from ocannl.passes.analysis.nests import node_mode, operations
from ocannl.passes.rewrites.dead_code import remove_unused_operations

GREATEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Scaled:
    """The scores of a group: how they are stored, after masks, and the differences from maxima that they go
    into.
    """

    store: StoreOp
    masks: list[arith.SelectOp]
    raw: SSAValue
    factor: float
    differences: list[arith.SubfOp]


def keep_raw(
    steps: Sequence[Operation], groups: Sequence[GroupOp], maxima: Sequence[SSAValue], change: arith.SubfOp
) -> None:
    """Lets groups keep raw scores, and their maxima with them, if nothing else reads these.

    Args:
        steps: all that may read maxima.
        maxima: nodes with the maxima of rows, of which groups subtract one.
        change: the difference of two maxima.
    """
    found = [scaled(group, maxima) for group in groups]
    each = [scores for scores in found if scores is not None]
    differences = [difference for scores in each for difference in scores.differences]
    known = {difference.rhs for difference in differences}
    loads = [op for step in steps for op in step.walk() if isinstance(op, LoadOp) and op.node in maxima]
    if len(each) != len(groups) or len({scores.factor for scores in each}) != 1:
        return
    if any(load.result not in known or not load.result.has_one_use() for load in loads):
        return
    if any(node_mode(node) not in ("local", "virtual") for node in maxima):
        return
    for scores in each:
        store_raw(scores)
    for difference in (*differences, change):
        scale(difference, each[0].factor)
    for nest in (nest for group in groups for nest in group.nests):
        remove_unused_operations(nest.body.block)


def scaled(group: GroupOp, maxima: Sequence[SSAValue]) -> Scaled | None:
    """The scores of a group, if a factor scales them, and all that read them are maxima and differences."""
    ops = [op for nest in group.nests for op in operations(nest.body.block)]
    differences = [op for op in ops if isinstance(op, arith.SubfOp) and reads(op.rhs, maxima)]
    nodes = {op.lhs.owner.node if isinstance(op.lhs.owner, LoadOp) else None for op in differences}
    node = nodes.pop() if len(nodes) == 1 else None
    stores = [op for op in ops if isinstance(op, StoreOp) and op.node is node]
    loads = [op for op in ops if isinstance(op, LoadOp) and op.node is node]
    lefts = {difference.lhs for difference in differences}
    if len(stores) != 1 or not all(load.result in lefts or is_of_maximum(load) for load in loads):
        return None
    value, masks = stores[0].value, list[arith.SelectOp]()
    while isinstance(op := value.owner, arith.SelectOp):
        value, masks = op.lhs, [*masks, op]
    product = value.owner
    factor = constant_of(product.rhs) if isinstance(product, arith.MulfOp | arith.DivfOp) else None
    if not isinstance(product, arith.MulfOp | arith.DivfOp) or factor is None or not 0 < factor < math.inf:
        return None
    factor = factor if isinstance(product, arith.MulfOp) else 1 / factor
    fits = all(has_room(mask, factor) for mask in masks)
    return Scaled(stores[0], masks, product.lhs, factor, differences) if fits else None


def has_room(mask: arith.SelectOp, factor: float) -> bool:
    """Whether what a mask has in place of scores is a constant that does not overflow before a factor."""
    value = constant_of(mask.rhs)
    return value is not None and (not math.isfinite(value) or abs(value) <= GREATEST * factor)


def reads(value: SSAValue, nodes: Sequence[SSAValue]) -> bool:
    return isinstance(value.owner, LoadOp) and value.owner.node in nodes


def is_of_maximum(load: LoadOp) -> bool:
    """Whether a load has no use but in a maximum."""
    users = [use.operation for use in load.result.uses]
    if len(users) != 1 or not isinstance(users[0], YieldOp):
        return False
    reduce = users[0].parent_op()
    return isinstance(reduce, ReduceOp) and reduce.accum.data == "max"


def store_raw(scores: Scaled) -> None:
    """Stores scores without their factor, by which constants of masks are divided."""
    raw = scores.raw
    for mask in reversed(scores.masks):
        value = constant_of(mask.rhs)
        assert value is not None
        constant = number(value / scores.factor)
        chosen = arith.SelectOp(mask.cond, raw, constant.result)
        derive((constant, chosen), mask.location)
        Rewriter.insert_op([constant, chosen], InsertPoint.before(scores.store))
        raw = chosen.result
    scores.store.operands[0] = raw


def scale(difference: arith.SubfOp, factor: float) -> None:
    constant = number(factor)
    product = arith.MulfOp(difference.result, constant.result)
    derive((constant, product), difference.location)
    Rewriter.insert_op([constant, product], InsertPoint.after(difference))
    difference.result.replace_uses_with_if(product.result, lambda use: use.operation is not product)
