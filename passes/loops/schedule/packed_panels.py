"""Fusion of packed copies with the nest that reads them, so that one panel at a time is in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import MapAttr, SpaceAttr
from ocannl.dialects.index.memref import element_type
from ocannl.dialects.ir.origins import union
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import declaration, operations
from ocannl.passes.analysis.targets.target import LARGEST_INSIDE, TargetDescription


def group_copies(
    nest: NestOp, copies: Sequence[NestOp], schedule: Schedule, target: TargetDescription
) -> tuple[GroupOp | None, Schedule]:
    """Makes a group of a nest and its large packed copies over the outermost loops, if these cut each copy
    into parts small enough for the stack; returns the group and the schedule of the nest in it.

    Threads share the points of the group, of which there have to be enough for all cores.
    """
    written = {op.node for op in nest.body.block.ops if isinstance(op, StoreOp)}
    large = [
        copy
        for copy in copies
        if copy_bytes(copy) > LARGEST_INSIDE and source(copy) not in written and is_cut(copy, schedule)
    ]
    outer = outer_loops(nest, large, schedule)
    sizes = dict(nest.space.data)
    points = math.prod(sizes[name] for name in outer)
    if not outer or points < target.cores or not isinstance(nest.parent_op(), FuncOp):
        return None, schedule
    group = GroupOp(nest.label.data, [(name, sizes[name]) for name in outer], Region(Block()))
    group.location = union(nest.location, *(copy.location for copy in large))
    Rewriter.insert_op(group, InsertPoint.before(nest))
    group.body.block.add_ops([shrink(copy, nest, outer) for copy in large])
    for inner in (*large, nest):
        inner.detach()
        inner.properties["space"] = SpaceAttr(tuple(d for d in inner.space.data if d[0] not in outer))
        group.body.block.add_op(inner)
    return group, replace(schedule, order=schedule.order[len(outer) :])


def is_cut(copy: NestOp, schedule: Schedule) -> bool:
    """Whether the outermost loop of a nest cuts a copy into parts, which a group over it makes in turn."""
    return bool(schedule.order) and schedule.order[0] in copy.space.names


def outer_loops(nest: NestOp, copies: Sequence[NestOp], schedule: Schedule) -> tuple[str, ...]:
    """The fewest outermost loops that cut all copies small enough; empty if there are none."""
    tiles = {tile[0] for tile in (schedule.rows, schedule.lanes) if tile is not None}
    own, points = dict(nest.space.data), 1
    for count, name in enumerate(schedule.order, 1):
        if name in tiles or name not in own or not all(name in copy.space.names for copy in copies):
            break
        points *= own[name]
        if copies and all(copy_bytes(copy) <= points * LARGEST_INSIDE for copy in copies):
            return schedule.order[:count]
    return ()


def store_of(copy: NestOp) -> StoreOp:
    (store,) = (op for op in copy.body.block.ops if isinstance(op, StoreOp))
    return store


def source(copy: NestOp) -> SSAValue:
    """The node that is copied."""
    (load,) = (op for op in copy.body.block.ops if isinstance(op, LoadOp))
    return load.node


def copy_bytes(copy: NestOp) -> int:
    return byte_size(declaration(store_of(copy).node))


def shrink(copy: NestOp, nest: NestOp, outer: Sequence[str]) -> Operation:
    """Declares a smaller node in place of a copy: without the axes along the loops of the group."""
    node = store_of(copy).node
    old = declaration(node)
    kept = [axis for axis, (name, _) in enumerate(copy.space.data) if name not in outer]
    type = MemRefType(element_type(node), [copy.space.data[axis][1] for axis in kept])
    smaller = NodeOp(old.label.data, "local", old.why.data, type)
    smaller.result.name_hint = node.name_hint
    smaller.location = old.location
    for op in (*operations(copy.body.block), *operations(nest.body.block)):
        if isinstance(op, LoadOp | StoreOp) and op.node is node:
            op.properties["indices"] = MapAttr(tuple(op.indices.data[axis] for axis in kept))
    node.replace_all_uses_with(smaller.result)
    Rewriter.erase_op(old)
    return smaller
