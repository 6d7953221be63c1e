"""Simplification of the scalar operations of a block, and of the reductions in it."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Block, Operation
from xdsl.rewriter import Rewriter

from ocannl.dialects.index.linear import SpaceAttr
from ocannl.dialects.ir.origins import inherit
from ocannl.dialects.loops import ReduceOp
from ocannl.dialects.scalar.accumulation import builder_for, neutral_constant
from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.passes.analysis.nests import Indexed, is_unused, names_in, operations, points
from ocannl.passes.rewrites.inline_reduction import inline_reduction
from ocannl.passes.rewrites.scalar_algebra import RULES

IDEMPOTENT = ("max", "min")


def simplify_block(block: Block) -> None:
    """Applies the rules to a block in order, operands before their users, and again to their results."""
    op = block.first_op
    while op is not None:
        following = op.next_op
        if isinstance(op, ReduceOp):
            simplify_block(op.body.block)
            simplify_reduce(op)
        else:
            replacement = _apply_rule(op)
            if replacement is not None:
                following = replacement
        op = following


def _apply_rule(op: Operation) -> Operation | None:
    """The operation from which to go on, if a rule applied; else None."""
    rule = RULES.get(type(op))
    if rule is None:
        return None
    b = ArithBuilder(_float_type(op))
    value = rule(b, op)
    if value is None:
        return None
    block = op.parent
    assert block is not None
    following = b.ops[0] if b.ops else op.next_op
    block.insert_ops_before(b.ops, op)
    if b.ops and b.ops[-1].results[0] is value:
        value.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(value)
    inherit(value, op, b.ops)
    for erased in erase_with_operands(op):
        inherit(value, erased)
    return following


def erase_with_operands(op: Operation) -> list[Operation]:
    """Erases an operation and operands that have no users then, so that a rule can see that a product has
    one.
    """
    erased, operands = [op], tuple(op.operands)
    Rewriter.erase_op(op)
    for operand in operands:
        owner = operand.owner
        if isinstance(owner, Operation) and owner.parent is not None and is_unused(owner):
            erased += erase_with_operands(owner)
    return erased


def _float_type(op: Operation) -> Float32Type | Float64Type:
    """The type of the constants that a rule may need: of the result, or of the compared operands."""
    for value in (*op.results, *op.operands):
        if isinstance(value.type, Float32Type | Float64Type):
            return value.type
    return Float32Type()


def simplify_reduce(op: ReduceOp) -> None:
    """Removes variables over which an extreme does not vary, and inlines a reduction without variables. One
    without points is the neutral element.
    """
    if op.accum.data in IDEMPOTENT:
        _drop_unused_variables(op)
    if not op.space.data:
        inline_reduction(op)
    elif not points(op.space.data):
        b = builder_for(op.result.type)
        value = neutral_constant(b, op.accum.data, op.result.type)
        inherit(value, op, b.ops)
        Rewriter.replace_op(op, b.ops, [value])


def _drop_unused_variables(op: ReduceOp) -> None:
    used = {n for i in operations(op.body.block) if isinstance(i, Indexed) for n in names_in(i.indices.data)}
    kept = tuple((name, size) for name, size in op.space.data if name in used or size == 0)
    if len(kept) < len(op.space.data):
        op.properties["space"] = SpaceAttr(kept)
