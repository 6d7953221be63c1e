"""Copies of operands that are contiguous along the lanes of the nest that reads them."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.linear import MapAttr, identity_map
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, ReduceOp, Schedule, StoreOp, element_type
from ocannl.passes.nest_facts import Access
from ocannl.passes.nests import nodes, operations


def pack(nest: NestOp, access: Access, schedule: Schedule) -> NestOp:
    """Makes a load read a copy whose last axis is the lanes' variable; returns the nest that writes the copy."""
    load = access.op
    assert isinstance(load, LoadOp) and schedule.lanes is not None
    sizes = variable_sizes(nest)
    names = [name for name in sizes if name in access.strides and name != schedule.lanes[0]]
    names.append(schedule.lanes[0])
    space = tuple((name, sizes[name]) for name in names)

    func = nest.parent_op()
    assert isinstance(func, FuncOp)
    label = f"{node_label(load)}.packed"
    type = MemRefType(element_type(load.node), [size for _, size in space])
    node = NodeOp(label, "local", f"contiguous copy for {nest.label.data}", type)
    Rewriter.insert_op(node, InsertPoint.after(nodes(func)[-1]))

    indices = identity_map(names)
    copied = LoadOp(load.node, load.indices.data)
    body = Region(Block([copied, StoreOp(copied.result, node.result, indices)]))
    copy = NestOp(label, space, body)
    Rewriter.insert_op(copy, InsertPoint.before(nest))
    load.operands[0] = node.result
    load.properties["indices"] = MapAttr(indices)
    return copy


def variable_sizes(nest: NestOp) -> dict[str, int]:
    """The sizes of all iteration variables of a nest, outermost first."""
    sizes = dict(nest.space.data)
    for op in operations(nest.body.block):
        if isinstance(op, ReduceOp):
            sizes.update(op.space.data)
    return sizes


def node_label(load: LoadOp) -> str:
    assert isinstance(load.node.owner, NodeOp)
    return load.node.owner.label.data
