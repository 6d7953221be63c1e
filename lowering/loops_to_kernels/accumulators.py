"""Nodes that a group adds up in: a block of threads keeps its part of them until it has gone through all."""

from __future__ import annotations

import math

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from ocannl.dialects.index.linear import Linear, Map, MapAttr, clashing_variables
from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.kernel.launch import SharedOp
from ocannl.dialects.kernel.own import OwnOp
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import node_mode, operations, steps_using
from ocannl.passes.analysis.patterns.resets import reset_to


@dataclass
class Accumulator:
    """A node that one nest of a group adds to, at the index map `at`, from `start` on."""

    node: SSAValue
    nest: NestOp
    at: Map
    start: arith.ConstantOp

    def accesses(self) -> list[LoadOp | StoreOp]:
        found = operations(self.nest.body.block)
        return [op for op in found if isinstance(op, LoadOp | StoreOp) and op.node is self.node]

    def redirect(self, ops: list[LoadOp | StoreOp], array: SharedOp | OwnOp, indices: Map) -> None:
        """Lets accesses be those of an array."""
        for op in ops:
            op.operands[0 if isinstance(op, LoadOp) else 1] = array.result
            op.properties["indices"] = MapAttr(indices)

    def keep_shared(self, most: int) -> SharedOp | None:
        """Keeps the part of a block in an array with the shape of the nest, if that takes so few bytes."""
        space = self.nest.space.data
        array = SharedOp(MemRefType(element_type(self.node), [size for _, size in space]))
        if array.bytes > most or not space:
            return None
        self.redirect(self.accesses(), array, tuple(Linear.var(name) for name, _ in space))
        return array

    def starting(self, target: SSAValue, indices: Map) -> list[Operation]:
        """Stores the number from which sums start."""
        start = self.start.clone()
        return [start, StoreOp(start.result, target, indices)]

    def nest_of(self, ops: list[Operation]) -> NestOp:
        """A nest over the same points."""
        return NestOp(self.nest.label.data, self.nest.space.data, Region(Block(ops)))


def take_resets(func: FuncOp, group: GroupOp) -> list[Accumulator]:
    """The accumulators of a group that a nest before it resets; removes those nests."""
    found: list[Accumulator] = []
    for nest in group.nests:
        stores = [op for op in nest.body.block.ops if isinstance(op, StoreOp)]
        for node in dict.fromkeys(op.node for op in stores):
            accumulator = accumulator_of(func, group, nest, node)
            if accumulator is not None:
                found.append(accumulator)
    return found


def accumulator_of(func: FuncOp, group: GroupOp, nest: NestOp, node: SSAValue) -> Accumulator | None:
    """A node as an accumulator, if only this nest of the group touches it, at one place for each of its
    points, which are all its cells.
    """
    if node_mode(node) != "local" or node in {inside.result for inside in group.nodes}:
        return None
    touching = [
        op
        for other in group.nests
        for op in operations(other.body.block)
        if isinstance(op, LoadOp | StoreOp) and op.node is node
    ]
    own = set(operations(nest.body.block))
    maps = {op.indices.data for op in touching}
    if len(maps) != 1 or any(op.positions or op not in own for op in touching):
        return None
    (at,) = maps
    turns = group.clashing
    sizes = {name: size for name, size in group.space.data if name not in turns} | dict(nest.space.data)
    used = {name for index in at for name in index.names}
    is_whole = math.prod(sizes.values()) == math.prod(memref_shape(node))
    if not used <= sizes.keys() or not is_whole or clashing_variables(at, sizes):
        return None
    touching = steps_using(func, node)
    earlier = touching[: touching.index(group)]
    start = reset_to(earlier[-1]) if earlier else None
    if start is None:
        return None
    kept = start.clone()
    Rewriter.erase_op(earlier[-1])
    return Accumulator(node, nest, at, kept)
