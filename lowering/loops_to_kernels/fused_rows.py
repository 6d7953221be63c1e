"""Kernels of groups: the threads of a block share each row of the group, nest after nest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear, MapAttr
from ocannl.dialects.index.memref import element_bytes, element_type, memref_shape
from ocannl.dialects.kernel import BarrierOp, ForOp
from ocannl.dialects.kernel.gpu import THREADS, WARP
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.loops_to_kernels.draft import Draft, detached, guarded
from ocannl.lowering.loops_to_kernels.rows import add_scratch, combine_all
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import Accesses, operations, with_reduced
from ocannl.passes.analysis.schedules.divisors import largest_divisor
from ocannl.passes.analysis.schedules.shared_reductions import (
    LONG,
    long_reductions,
    needed_before,
    shared_size,
)
from ocannl.passes.analysis.schedules.strides import in_memory_order, strides
from ocannl.passes.rewrites.indices import substitute_indices

# The most elements of one access to memory, and the bytes of shared memory for the rows of a block.
VECTOR, SHARED_BYTES = 4, 2**14


@dataclass
class RowKernel:
    """The construction of a kernel from a group of nests.

    Attributes:
        lane: the variable of the threads that share a row, `lanes` of them.
        beside: the variable of the rows that a block has side by side, if there are any.
        registers: variables for neighbours that one thread takes, by how many they are.
    """

    group: GroupOp
    draft: Draft
    lane: str
    lanes: int
    beside: tuple[tuple[str, int], ...]
    registers: dict[int, str] = field(default_factory=dict[int, str])

    @staticmethod
    def of(group: GroupOp) -> RowKernel:
        lanes = WARP if max(length(nest) for nest in group.nests) < LONG else THREADS
        draft = Draft(taken_names(group), dict(group.space.data))
        *outer, (inner, size) = group.space.data or (("", 1),)
        draft.grid += outer
        room = SHARED_BYTES // max(1, sum(row_bytes(node.result) for node in group.nodes))
        beside_count = largest_divisor(size, max(1, min(THREADS // lanes, room)))
        if beside_count > 1:
            draft.split(inner, beside_count)
        elif group.space.data:
            draft.grid.append((inner, size))
        lane, beside = draft.names.fresh("lane"), tuple(draft.block)
        draft.block.append((lane, lanes))
        return RowKernel(group, draft, lane, lanes, beside)

    def launch(self) -> LaunchOp:
        body: list[Operation] = []
        pending: list[Accesses] = []
        for nest in self.group.nests:
            accesses = Accesses.of(operations(nest.body.block))
            if any(clash(accesses, other) for other in pending):
                body.append(BarrierOp())
                pending = []
            pending.append(accesses)
            body += self.shared_row(nest)
        launch = self.draft.launch(self.group, [*map(self.shared_array, self.group.nodes), *body])
        add_scratch(launch)
        return launch

    def shared_array(self, node: NodeOp) -> SharedOp:
        """An array in shared memory in place of a node inside the group: a part of it for each row."""
        shape = [*(size for _, size in self.beside), *memref_shape(node.result)]
        array = SharedOp(MemRefType(element_type(node.result), shape))
        beside = tuple(Linear.var(name) for name, _ in self.beside)
        for use in node.result.uses:
            assert isinstance(use.operation, LoadOp | StoreOp)
            use.operation.properties["indices"] = MapAttr((*beside, *use.operation.indices.data))
        node.result.replace_all_uses_with(array.result)
        return array

    def shared_row(self, nest: NestOp) -> list[Operation]:
        """The operations of a nest, with its points or reductions shared by the threads of a row."""
        columns = in_memory_order(nest, list(nest.space.names))
        shared = long_reductions(nest)
        first = needed_before(nest, shared) or set()
        sizes = dict(nest.space.data)
        width = self.width(nest, columns[-1], sizes[columns[-1]]) if columns else 1
        ops = detached(nest)
        self.draft.substitute(ops)
        if columns:
            return self.points(ops, [(name, sizes[name]) for name in columns], width)
        needed = [op for op in ops if op in first]
        body = combine_all(needed, set(shared), self.draft, self.lane, self.lanes)
        epilogue = [op for op in ops if op not in first]
        return [*body, *guarded([Bound(Linear.var(self.lane), 1)], epilogue)]

    def points(self, ops: list[Operation], columns: Sequence[tuple[str, int]], width: int) -> list[Operation]:
        """Gives each thread of a row every `lanes`-th vector of `width` neighbouring points."""
        *outer, (name, size) = columns
        turn, turns = Linear.var(self.lane), size // width
        if turns > self.lanes:
            step = self.draft.names.fresh(f"{name}_step")
            turn += Linear.var(step) * self.lanes
            outer.append((step, -(-turns // self.lanes)))
        inside = Linear.var(self.register(width)) if width > 1 else Linear()
        substitute_indices(with_reduced(ops), {name: turn * width + inside})
        ops = guarded([Bound(turn, turns)] if turns % self.lanes else [], ops)
        return [ForOp(tuple(outer), Region(Block(ops)))] if outer else ops

    def width(self, nest: NestOp, column: str, size: int) -> int:
        """The neighbouring points of a row that a thread computes at a time: those of one access to
        memory.
        """
        moves = set(strides(operations(nest.body.block), column))
        width = VECTOR if moves <= {0, 1} else 1
        while width > 1 and (size % width or size < width * self.lanes):
            width //= 2
        return width

    def register(self, width: int) -> str:
        if width not in self.registers:
            self.registers[width] = self.draft.names.fresh("part")
            self.draft.registers.append((self.registers[width], width))
        return self.registers[width]


def row_bytes(node: SSAValue) -> int:
    return math.prod(memref_shape(node)) * element_bytes(node)


def length(nest: NestOp) -> int:
    """How many values a row has."""
    shared = long_reductions(nest)
    return max([*map(shared_size, shared), *(size for _, size in nest.space.data)], default=1)


def clash(one: Accesses, other: Accesses) -> bool:
    """Whether one of two nests writes what the other touches."""
    return not (one.written.isdisjoint(other.maps) and other.written.isdisjoint(one.maps))


def taken_names(group: GroupOp) -> Names:
    func = group.parent_op()
    assert isinstance(func, FuncOp)
    names = Names(set(func.ranges) | set(group.space.names))
    for nest in group.nests:
        names.used |= Names.of(func, nest).used
    return names


def row_kernel(group: GroupOp) -> LaunchOp:
    """The kernel of a group whose points store to different cells."""
    return RowKernel.of(group).launch()
