"""Masks that compare positions, such as causal ones: only blocks on their edge have elements of both kinds.

What a block does is there twice, with the mask for those on the edge, and without it for all others (loop
unswitching).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.kernel import WhereOp
from ocannl.dialects.loops import IndexOp
from ocannl.passes.rewrites.dead_code import remove_unused_operations

# `left predicate right` as `left - right <= most`, or `right - left <= most`.
AT_MOST = {"sle": 0, "slt": -1}
AT_LEAST = {"sge": 0, "sgt": -1}


def unswitched(
    ops: Sequence[Operation], blocks: Mapping[str, int], inside: Mapping[str, int]
) -> list[Operation]:
    """The operations of a block in two versions, if they have such a mask, and all have the same edge.
    `blocks` are the variables that tell blocks apart, `inside` those of a block.
    """
    selects = [op for op in ops if isinstance(op, arith.SelectOp)]
    masks = {select: seen for select in selects if (seen := seen_where(select)) is not None}
    greatest = {greatest_of_block(seen, inside) for seen in masks.values()}
    if len(greatest) != 1:
        return list(ops)
    (index,) = greatest
    reach = index.extremes(blocks)
    if reach is None:
        return list(ops)
    copies: dict[SSAValue, SSAValue] = {}
    whole = Block([op.clone(copies) for op in ops])
    for select in masks:
        Rewriter.replace_op(owner(copies[select.result]), [], [copies[select.lhs]])
    remove_unused_operations(whole)
    is_whole, is_edge = at_most(index, 0, reach), at_most(index * -1, -1, (-reach[1], -reach[0]))
    return [WhereOp([is_whole], Region(whole)), WhereOp([is_edge], Region(Block(ops)))]


def owner(value: SSAValue) -> Operation:
    assert isinstance(value.owner, Operation)
    return value.owner


def seen_where(select: arith.SelectOp) -> Linear | None:
    """An index that is at most 0 where the first operand is selected, if the mask compares indices."""
    compare = select.cond.owner
    if not isinstance(compare, arith.CmpiOp):
        return None
    left, right = compare.lhs.owner, compare.rhs.owner
    if not isinstance(left, IndexOp) or not isinstance(right, IndexOp):
        return None
    predicate = arith.CMPI_COMPARISON_OPERATIONS[compare.predicate.value.data]
    if predicate in AT_MOST:
        return left.index + right.index * -1 + Linear((), -AT_MOST[predicate])
    if predicate in AT_LEAST:
        return right.index + left.index * -1 + Linear((), -AT_LEAST[predicate])
    return None


def greatest_of_block(index: Linear, inside: Mapping[str, int]) -> Linear:
    """The greatest value of an index in a block."""
    within = Linear.of({name: c for name, c in index.terms if name in inside}).extremes(inside)
    assert within is not None
    return Linear.of({n: c for n, c in index.terms if n not in inside}, index.constant + within[1])


def at_most(index: Linear, most: int, reach: tuple[int, int]) -> Bound:
    """A bound that holds where an index in some range is not greater."""
    shift = max(0, -reach[0])
    return Bound(index + Linear((), shift), most + shift + 1)
