"""Blocks of keys that a causal mask hides from all rows of a block, and sums to which they add nothing."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue

from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.loops import IndexOp, LoadOp, ReduceOp
from ocannl.passes.loops.online_softmax.blocks import BlockSpace
from ocannl.passes.loops.online_softmax.recognize import Softmax, is_constant, is_zero
from ocannl.passes.loops.online_softmax.score_nests import ScoreNest, variable

# A score that counts as minus infinity, beside which no other one matters.
HIDDEN = -1e9
# `left predicate right` as `left - right <= most`.
MOST = {"sle": 0, "slt": -1}


def visible_blocks(softmax: Softmax, space: BlockSpace) -> Bound | None:
    """The blocks of which a mask shows a row some key, where it hides the later keys; None if that may be all
    of them, or a row may see no key at all: its result then depends on all keys.
    """
    member, score = stored_value(softmax, softmax.exponential.member, softmax.exponential.x[0])
    select = score.owner
    seen = seen_where(select) if isinstance(select, arith.SelectOp) else None
    if not isinstance(select, arith.SelectOp) or seen is None or not is_product(softmax, member, select.lhs):
        return None
    key, row = variable(member.at[softmax.nests.keys]), variable(member.at[softmax.nests.rows])
    of_first_key = seen.substitute({key: Linear()}).extremes(member.sizes)
    if (
        set(seen.names) != {key, row}
        or seen.coefficient(key) < 0
        or of_first_key is None
        or of_first_key[1] > 0
    ):
        return None
    blocks = seen.substitute(space.values(member))
    inside = {key: space.sizes.keys, row: space.sizes.rows}
    in_block = Linear.of({name: seen.coefficient(name) for name in inside}).extremes(inside)
    assert in_block is not None
    of_block = blocks.substitute({name: Linear() for name in inside}) + Linear((), in_block[0])
    lowest = of_block.extremes(dict(space.space))
    assert lowest is not None
    shift = max(0, -lowest[0])
    return Bound(of_block + Linear((), shift), 1 + shift)


def needed_blocks(softmax: Softmax, space: BlockSpace, sums: Iterable[ScoreNest]) -> Bound | None:
    """The blocks that add anything to some sums; None if that may be all of them."""
    return space.visible if all(leaves_hidden_out(softmax, member) for member in sums) else None


def leaves_hidden_out(softmax: Softmax, member: ScoreNest) -> bool:
    """Whether a nest gives the same without the scores that a mask hides."""
    if member is softmax.maximum:
        return True
    (reduction,) = member.reductions
    return reduction.accum.data == "add" and vanishes(softmax, member, reduction.yielded)


def vanishes(softmax: Softmax, member: ScoreNest, value: SSAValue) -> bool:
    """Whether a value is 0 where the exponential of its score is."""
    member, value = stored_value(softmax, member, value)
    op = value.owner
    if op is softmax.exponential.links[-1] or is_zero(value):
        return True
    match op:
        case arith.MulfOp():
            return any(vanishes(softmax, member, operand) for operand in op.operands)
        case arith.AddfOp() | arith.SubfOp():
            return all(vanishes(softmax, member, operand) for operand in op.operands)
        case arith.DivfOp() | arith.NegfOp():
            return vanishes(softmax, member, op.operands[0])
        case math_dialect.FmaOp():
            factors = (vanishes(softmax, member, factor) for factor in (op.a, op.b))
            return vanishes(softmax, member, op.c) and any(factors)
        case arith.SelectOp():
            return all(vanishes(softmax, member, chosen) for chosen in (op.lhs, op.rhs))
        case _:
            return False


def stored_value(softmax: Softmax, member: ScoreNest, value: SSAValue) -> tuple[ScoreNest, SSAValue]:
    """The value behind loads of scores and what rounds it, and the nest that stores it."""
    while True:
        load = value.owner
        if isinstance(load, arith.ExtFOp | arith.TruncFOp):
            value = load.input
            continue
        if not isinstance(load, LoadOp) or load.node not in member.wide:
            break
        writers = [(m, op) for m in softmax.nests.members for op in m.stores if op.node is load.node]
        if len(writers) != 1:
            break
        ((member, store),) = writers
        value = store.value
    return member, value


def seen_where(select: arith.SelectOp) -> Linear | None:
    """An index that is at most 0 where a score is seen, if the mask compares indices."""
    compare, hidden = select.cond.owner, select.rhs.owner
    if not isinstance(compare, arith.CmpiOp) or not isinstance(hidden, arith.ConstantOp):
        return None
    left, right = compare.lhs.owner, compare.rhs.owner
    most = MOST.get(arith.CMPI_COMPARISON_OPERATIONS[compare.predicate.value.data])
    is_hidden = isinstance(hidden.value, FloatAttr) and hidden.value.value.data <= HIDDEN
    if most is None or not is_hidden or not isinstance(left, IndexOp) or not isinstance(right, IndexOp):
        return None
    return left.index + right.index * -1 + Linear((), -most)


def is_product(softmax: Softmax, member: ScoreNest, value: SSAValue) -> bool:
    """Whether a score is a sum of products, scaled or rounded: no other mask."""
    member, value = stored_value(softmax, member, value)
    op = value.owner
    if isinstance(op, arith.MulfOp | arith.DivfOp) and is_constant(op.rhs):
        return is_product(softmax, member, op.lhs)
    return isinstance(op, ReduceOp) and op.accum.data == "add"
