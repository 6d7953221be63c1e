"""Emits groups: loops around nests; the nodes that a group declares are on the stack."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.addresses import Address
from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.memref import loaded_type
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import GroupOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.loops.values import address_of
from ocannl.lowering.llvm.indices import linear_value
from ocannl.lowering.llvm.types import value_type
from ocannl.lowering.loops_to_llvm.environment import Environment
from ocannl.lowering.loops_to_llvm.scheduled_nest import emit_nest
from ocannl.lowering.loops_to_llvm.task import Block, run_block, task_blocks
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.costs.footprints import AccessFootprint
from ocannl.passes.analysis.nests import operations
from ocannl.passes.analysis.schedules.parallel_tasks import cuts

# The tiles that may all prefetch what each of them loads.
FEW = 2
# The bytes of a node at a point that push what is prefetched for the next one out of the first-level cache.
MANY = 2**14


class GroupEmitter:
    """Emits one group, or the task of it whose number is in `%task`."""

    def __init__(self, env: Environment, group: GroupOp) -> None:
        self.env = env
        self.b = env.b
        self.group = group
        self.blocks: dict[str, Block] = {}

    def emit(self) -> None:
        if all(size for _, size in self.group.space.data):
            self.blocks = task_blocks(self.b, cuts(self.group))
            own: dict[SSAValue, str] = {node.result: self.allocate(node) for node in self.group.nodes}
            self.env = self.env.with_pointers(own)
            self.emit_loops(self.group.space.data)

    def allocate(self, node: NodeOp) -> str:
        elements = max(1, math.prod(node.result.type.get_shape()))
        element = value_type(loaded_type(node.result)).element
        return self.b.emit(f"alloca [{elements} x {element}], align {LINE}")

    def emit_loops(self, space: Sequence[tuple[str, int]]) -> None:
        if not space:
            branches = [self.b.open_branch(self.holds(bound)) for bound in self.group.bounds]
            ahead = steps_ahead(self.group)
            for nest in self.group.nests:
                emit_nest(self.env, nest, ahead)
            for label in reversed(branches):
                self.b.close_branch(label)
            return
        (variable, size), *inner = space
        block = self.blocks.get(variable)
        if block is not None:
            run_block(self.env, block, lambda: self.emit_loops(inner))
            return
        with self.env.loop(variable, 0, size):
            self.emit_loops(inner)

    def holds(self, bound: Bound) -> str:
        """Whether the bound holds at a point."""
        index = Address(bound.index.terms, bound.index.constant)
        total, constant, _ = linear_value(self.b, index, self.env.positions)
        return self.b.emit(f"icmp slt i64 {total}, {bound.below - constant}")


def steps_ahead(group: GroupOp) -> dict[Operation, int]:
    """The distances, in elements, at which the first load of each node prefetches for the next point of a
    group.

    A hardware prefetcher does not foresee that the next point continues after the end of this one. What
    several tiles load comes from a cache but for the first of them.
    """
    if not group.space.names:
        return {}
    innermost = group.space.names[-1]
    known: set[SSAValue] = {node.result for node in group.nodes}
    distances: dict[Operation, int] = {}
    for nest in group.nests:
        for op in operations(nest.body.block):
            if isinstance(op, LoadOp | StoreOp) and op.node not in known:
                known.add(op.node)
                distance = address_of(op).stride(innermost)
                if isinstance(op, LoadOp) and distance and not op.positions and pays(op, group, nest):
                    distances[op] = distance
    return distances


def pays(op: LoadOp, group: GroupOp, nest: NestOp) -> bool:
    """Whether what a load prefetches for the next point is still there when that is reached."""
    sizes = {name: size for name, size in scope_sizes(op).items() if name not in group.space.names}
    return AccessFootprint.of(op, set()).size(sizes) < MANY and not is_repeated(op, nest)


def is_repeated(op: LoadOp, nest: NestOp) -> bool:
    """Whether more than a few tiles of a nest load the same elements, each of which would prefetch them."""
    schedule = nest.schedule.data if nest.schedule is not None else Schedule()
    tiles = {name: extent for loop, extent in schedule.tiles for name in loop.split("*")}
    address = address_of(op)
    fixed = [-(-size // tiles.get(name, 1)) for name, size in nest.space.data if not address.stride(name)]
    return math.prod(fixed) > FEW
