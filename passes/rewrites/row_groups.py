"""Groups of nests that run block by block over shared rows: the loops around them are tiled and fused."""

from __future__ import annotations

import math
from collections.abc import Mapping

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Linear, Map, MapAttr, Space, SpaceAttr
from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.ir.origins import union
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.fusion.row_fusion import Member, NestChain
from ocannl.passes.analysis.names import Names, joined_label
from ocannl.passes.analysis.nests import ZERO, Indexed, declaration, operations
from ocannl.passes.analysis.patterns.sums import MULTIPLIED, is_float_sum, is_product
from ocannl.passes.analysis.schedules.divisors import divisors
from ocannl.passes.analysis.targets.target import LARGEST_INSIDE, TargetDescription
from ocannl.passes.rewrites.common_subexpressions import Eliminator
from ocannl.passes.rewrites.declarations import declare
from ocannl.passes.rewrites.fuser import Fuser
from ocannl.passes.rewrites.rfactor import rfactor
from ocannl.passes.rewrites.simplification import simplify_block

# The most parallel parts of a reduction.
PARTS = 16


@dataclass(frozen=True, slots=True)
class RowBlock:
    """A block of a row: `block` points that run together, the first of which is at `start`."""

    block: int
    start: Linear

    def index(self, variable: str) -> Linear:
        return self.inside(variable) + self.start

    def inside(self, variable: str) -> Linear:
        """The index in a node that has room for one block."""
        return ZERO if self.block == 1 else Linear.var(variable)


class Builder:
    """Makes a group of a chain, with blocks of its rows."""

    largest_inside = LARGEST_INSIDE

    def __init__(
        self,
        func: FuncOp,
        chain: NestChain,
        labels: Names,
        blocks: Mapping[str, int],
        target: TargetDescription,
    ) -> None:
        self.func = func
        self.chain = chain
        self.labels = labels
        counts = {row: chain.rows[row] // blocks[row] for row in chain.ordered_rows()}
        self.counts = {row: count for row, count in counts.items() if count > 1}
        self.blocks = {row: blocks[row] for row in self.counts}
        self.names = self.taken_names()
        self.parts = self.choose_parts(target)
        self.rows: dict[str, RowBlock] = {}
        self.declared: list[NodeOp] = []
        """The nodes of partial results."""
        self.space: list[tuple[str, int]] = list(self.parts)
        for row, count in self.counts.items():
            self.add_row(row, count)

    def taken_names(self) -> Names:
        """The names of variables of all nests, except those that become loops of the group."""
        used = set(self.func.ranges)
        for member in self.chain.members:
            taken = {member.variables[row] for row, block in self.blocks.items() if block == 1}
            used |= member.view.sizes.keys() - taken
        return Names(used)

    def choose_parts(self, target: TargetDescription) -> Space:
        """The parallel parts of the outermost row, if a nest reduces along it."""
        row, count = next(iter(self.counts.items()))
        summing = [member for member in self.chain.members if member.sums_along((row,))]
        if not summing:
            return ()
        bytes = sum(math.prod(size for _, size in member.view.nest.space.data) * 4 for member in summing)
        most = min(PARTS, max(1, target.l2_bytes // 4 // bytes))
        parts = divisors(count, most)[-1]
        return ((self.names.fresh(f"{row}_part"), parts),) if parts > 1 else ()

    def add_row(self, row: str, count: int) -> None:
        block, start = self.blocks[row], ZERO
        if self.parts and not self.rows:
            ((part, parts),) = self.parts
            count //= parts
            start = Linear.var(part) * (count * block)
        if count > 1:
            name = self.names.fresh(row if block == 1 else f"{row}_block")
            self.space.append((name, count))
            start += Linear.var(name) * block
        self.rows[row] = RowBlock(block, start)

    def build(self, uses: Mapping[SSAValue, int]) -> None:
        members = self.chain.members
        first, last = members[0].view.nest, members[-1].view.nest
        group = GroupOp(joined_label(first, last), self.space, Region(Block()))
        group.location = union(*(member.view.nest.location for member in members))
        Rewriter.insert_op(group, InsertPoint.before(first))
        inside = self.nodes_inside(uses)
        group.body.block.add_ops([smaller for smaller, _ in inside.values()])
        for member in members:
            nest = member.view.nest
            if member.sums_along(self.counts):
                nest = self.share(member, group)
            else:
                nest.detach()
                group.body.block.add_op(nest)
            self.enter(nest, member, inside)
        if self.declared:
            declare(self.func, self.declared)
        self.fuse(group)
        for node, (smaller, _) in inside.items():
            node.replace_all_uses_with(smaller.result)
            Rewriter.erase_op(declaration(node))

    def fuse(self, group: GroupOp) -> None:
        """Fuses nests of the group where that is legal and pays."""
        Fuser(self.func, upwards=True).run(group.nests)
        for nest in group.nests:
            Eliminator().run(nest.body.block)

    def share(self, member: Member, group: GroupOp) -> NestOp:
        """Moves a nest after the group, except for its reduction, whose partial results
        the group computes.
        """
        nest, reduction = member.view.nest, member.view.summed
        assert reduction is not None
        outermost = next(iter(self.counts))
        parts = self.parts if member.sums_along((outermost,)) else ()
        label = self.labels.fresh(f"{nest.label.data}.partial")
        compensated = self.is_compensated(reduction, math.prod(size for _, size in parts))
        shared = rfactor(nest, reduction, label, parts, compensated=compensated)
        nest.detach()
        Rewriter.insert_op(nest, InsertPoint.after(group))
        self.declared += [node for node in (shared.node, shared.errors) if node is not None]
        Rewriter.insert_op(shared.before, InsertPoint.before(group))
        group.body.block.add_op(shared.inside)
        return shared.inside

    def is_compensated(self, reduction: ReduceOp, parts: int) -> bool:
        """Whether a sum keeps the errors of its additions; a product does not that goes through few of them:
        those of the blocks of its part, and of all parts.
        """
        few = math.prod(self.counts.values()) // parts + parts - 1 <= MULTIPLIED.size
        return is_float_sum(reduction) and not (is_product(reduction) and few)

    def nodes_inside(self, uses: Mapping[SSAValue, int]) -> dict[SSAValue, tuple[NodeOp, Mapping[int, str]]]:
        """Declarations of smaller nodes for those that only the chain touches, with their axes along blocks
        of rows.
        """
        found: dict[SSAValue, tuple[NodeOp, Mapping[int, str]]] = {}
        for node, axes in self.chain.axes.items():
            axes = {axis: row for axis, row in axes.items() if row in self.rows}
            if uses.get(node) != self.chain.touched[node] or not self.chain.passes_on(node) or not axes:
                continue
            sizes = [self.rows[axes[a]].block if a in axes else s for a, s in enumerate(memref_shape(node))]
            old = declaration(node)
            smaller = NodeOp(old.label.data, "local", old.why.data, MemRefType(element_type(node), sizes))
            smaller.result.name_hint = node.name_hint
            smaller.location = old.location
            if byte_size(smaller) <= self.largest_inside:
                found[node] = smaller, axes
        return found

    def enter(
        self, nest: NestOp, member: Member, inside: Mapping[SSAValue, tuple[NodeOp, Mapping[int, str]]]
    ) -> None:
        """Restricts a nest of the group to one block of its rows."""
        own = {member.variables[row]: row for row in self.rows}
        values = {variable: self.rows[row].index(variable) for variable, row in own.items()}
        for op in (nest, *operations(nest.body.block)):
            if isinstance(op, NestOp | ReduceOp):
                op.properties["space"] = SpaceAttr(self.block_space(op.space.data, own))
            elif isinstance(op, Indexed):
                indices = tuple(index.substitute(values) for index in op.indices.data)
                if isinstance(op, LoadOp | StoreOp) and op.node in inside:
                    indices = self.indices_inside(op.indices.data, indices, inside[op.node][1])
                op.properties["indices"] = MapAttr(indices)
        simplify_block(nest.body.block)

    def block_space(self, space: Space, own: Mapping[str, str]) -> Space:
        blocks = {name: self.rows[own[name]].block if name in own else size for name, size in space}
        return tuple((name, size) for name, size in blocks.items() if name not in own or size > 1)

    def indices_inside(self, old: Map, new: Map, axes: Mapping[int, str]) -> Map:
        """The index map in a smaller node of an access that was at `old`, and is at `new` in the group."""
        return tuple(
            self.rows[axes[axis]].inside(index.names[0]) if axis in axes else new[axis]
            for axis, index in enumerate(old)
        )
