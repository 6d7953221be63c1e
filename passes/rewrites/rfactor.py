"""Rfactor: a reduction is computed as partial results, which are then combined (Suriana, Adams and Kamil,
"Parallel Associative Reductions in Halide", 2017).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Map, Space, identity_map
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, StoreOp, SumBlocks, YieldOp
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.accumulation import (
    accumulate,
    add_exactly,
    builder_for,
    corrected,
    neutral_constant,
)
from ocannl.passes.analysis.nests import with_reduced
from ocannl.passes.analysis.values.slices import slice_in
from ocannl.passes.rewrites.dead_code import remove_unused_operations


@dataclass(frozen=True, slots=True)
class Factored:
    """`before` resets the partial results in `node`, `inside` accumulates into them, and `after` goes on with
    their total. `errors` has what the additions of partial results rounded off, where that is added up.
    """

    node: NodeOp
    errors: NodeOp | None
    before: NestOp
    inside: NestOp
    after: NestOp


def rfactor(
    nest: NestOp,
    reduction: ReduceOp,
    label: str,
    parts: Space,
    cells: Space | None = None,
    *,
    compensated: bool = False,
) -> Factored:
    """Splits a reduction off a nest, which becomes `after`.

    There is a partial result for each point of the nest and each of the `parts`, a space of at most one
    variable, which `inside` leaves free for the loops around it. Partial results are laid out as `cells`, by
    default as the operands of the reduction. Those of a `compensated` sum of floats are added exactly.
    """
    type, accum = reduction.result.type, reduction.accum.data
    space = (*parts, *(cells or in_memory_order(nest.space.data, reduction)))
    indices = identity_map(name for name, _ in space)
    shape = MemRefType(type, [size for _, size in space])
    node = NodeOp(label, "local", f"partial results of {nest.label.data}", shape)
    errors = None
    if compensated:
        errors = NodeOp(f"{label} errors", "local", f"rounded off {label}", shape)
    made = [node] if errors is None else [node, errors]
    nodes = [each.result for each in made]

    b = builder_for(type)
    value = neutral_constant(b, accum, type)
    resets = [StoreOp(value, each, indices) for each in nodes]
    before = nest_of(f"{label} reset", space, [*b.ops, *resets])

    copied, total = copies_for(reduction)
    old = [LoadOp(each, indices) for each in nodes]
    b = builder_for(type)
    if errors is None:
        values = [accumulate(b, accum, old[0].result, total)]
    else:
        found, rounded_off = add_exactly(b, old[0].result, total)
        values = [found, b.add(old[1].result, rounded_off)]
    stores = [StoreOp(value, each, indices) for value, each in zip(values, nodes, strict=True)]
    inside = nest_of(label, nest.space.data, [*copied, *old, *b.ops, *stores])

    derive([*made, before, inside], reduction.location)
    replace_reduction(reduction, nodes, indices, parts, type)
    remove_unused_operations(nest.body.block)
    return Factored(node, errors, before, inside, nest)


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


def replace_reduction(
    reduction: ReduceOp, nodes: Sequence[SSAValue], cells: Map, parts: Space, type: Attribute
) -> None:
    """Replaces a reduction by the sum of its partial results, which the first node has, and a second one
    their errors.
    """
    block = reduction.parent
    nest = reduction.parent_op()
    assert block is not None
    assert isinstance(nest, NestOp)
    loads = [LoadOp(node, cells) for node in nodes]
    b = builder_for(type)
    value = corrected(b, *(load.result for load in loads)) if len(loads) > 1 else loads[0].result
    made: list[Operation] = [*loads, *b.ops]
    if parts:
        body = Region(Block([*made, YieldOp(value)]))
        blocks = SumBlocks(1, compensated=True) if len(loads) > 1 else None
        made = [ReduceOp(reduction.accum.data, parts, body, type, blocks=blocks)]
    derive(made, reduction.location)
    for op in made:
        block.insert_op_before(op, reduction)
    total = made[-1].results[0]
    total.name_hint = reduction.result.name_hint
    reduction.result.replace_all_uses_with(total)
    reduction.detach()
    reduction.erase()
