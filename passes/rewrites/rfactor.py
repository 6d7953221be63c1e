"""Rfactor: a reduction is computed as partial results, which are then combined (Suriana, Adams and Kamil,
"Parallel Associative Reductions in Halide", 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Map, Space, identity_map
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, StoreOp, YieldOp
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.scalar.accumulation import accumulate, builder_for, neutral_constant
from ocannl.passes.analysis.nests import with_reduced
from ocannl.passes.analysis.slices import slice_in
from ocannl.passes.rewrites.dead_code import remove_unused_operations


@dataclass(frozen=True, slots=True)
class Factored:
    """`before` resets the partial results in `node`, `inside` accumulates into them, and `after` goes on with
    their total.
    """

    node: NodeOp
    before: NestOp
    inside: NestOp
    after: NestOp


def rfactor(
    nest: NestOp, reduction: ReduceOp, label: str, parts: Space, cells: Space | None = None
) -> Factored:
    """Splits a reduction off a nest, which becomes `after`.

    There is a partial result for each point of the nest and each of the `parts`, a space of at most one
    variable, which `inside` leaves free for the loops around it. Partial results are laid out as `cells`, by
    default as the operands of the reduction.
    """
    type, accum = reduction.result.type, reduction.accum.data
    space = (*parts, *(cells or in_memory_order(nest.space.data, reduction)))
    indices = identity_map(name for name, _ in space)
    shape = MemRefType(type, [size for _, size in space])
    node = NodeOp(label, "local", f"partial results of {nest.label.data}", shape)

    b = builder_for(type)
    value = neutral_constant(b, accum, type)
    before = nest_of(f"{label} reset", space, [*b.ops, StoreOp(value, node.result, indices)])

    copied, total = copies_for(reduction)
    old = LoadOp(node.result, indices)
    b = builder_for(type)
    value = accumulate(b, accum, old.result, total)
    store = StoreOp(value, node.result, indices)
    inside = nest_of(label, nest.space.data, [*copied, old, *b.ops, store])

    derive([node, before, inside], reduction.location)
    replace_reduction(reduction, node.result, indices, parts, type)
    remove_unused_operations(nest.body.block)
    return Factored(node, before, inside, nest)


def nest_of(label: str, space: Space, ops: Sequence[Operation]) -> NestOp:
    return NestOp(label, space, Region(Block(ops)))


def copies_for(reduction: ReduceOp) -> tuple[list[Operation], SSAValue]:
    """Copies of a reduction and of its backward slice in the block around it; and the value of the copy."""
    block = reduction.parent
    assert block is not None
    mapping: dict[SSAValue, SSAValue] = {}
    copied = [op.clone(mapping) for op in slice_in(block, [reduction.result])]
    return copied, copied[-1].results[0]


def in_memory_order(space: Space, reduction: ReduceOp) -> Space:
    """The variables of a nest, those last along which the loads of its reduction are contiguous."""
    nearest: dict[str, int] = {}
    for op in with_reduced((reduction,)):
        if isinstance(op, LoadOp):
            for name, stride in address_of(op).terms:
                nearest[name] = min(abs(stride), nearest.get(name, abs(stride)))
    return tuple(sorted(space, key=lambda extent: -nearest.get(extent[0], 0)))


def replace_reduction(reduction: ReduceOp, node: SSAValue, cells: Map, parts: Space, type: Attribute) -> None:
    """Replaces a reduction by the sum of its partial results."""
    block = reduction.parent
    nest = reduction.parent_op()
    assert block is not None
    assert isinstance(nest, NestOp)
    load = LoadOp(node, cells)
    total: Operation = load
    if parts:
        body = Region(Block([load, YieldOp(load.result)]))
        total = ReduceOp(reduction.accum.data, parts, body, type)
    derive([total], reduction.location)
    block.insert_op_before(total, reduction)
    total.results[0].name_hint = reduction.result.name_hint
    reduction.result.replace_all_uses_with(total.results[0])
    reduction.detach()
    reduction.erase()
