"""`tile-and-fuse`: nests that share rows run row by row, so that what passes between them stays near."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp, memref_shape
from ocannl.dialects.index.linear import Linear, Map, MapAttr, Space, SpaceAttr
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.values import element_type
from ocannl.passes.analysis.divisors import divisors
from ocannl.passes.analysis.nests import (
    ZERO,
    Indexed,
    Names,
    declaration,
    nests,
    node_mode,
    nodes,
    operations,
    ungrouped,
)
from ocannl.passes.analysis.row_fusion import Chain, Member, View, is_far
from ocannl.passes.analysis.target import LARGEST_INSIDE, TargetDescription
from ocannl.passes.loops.eliminate_common_subexpressions import Eliminator
from ocannl.passes.loops.fuse import Fuser
from ocannl.passes.loops.plan_memory import byte_size
from ocannl.passes.loops.simplify import simplify_block
from ocannl.passes.rewrites.rfactor import rfactor

# How many nests may stay behind between the first and the last of a chain, and how many a chain has.
PASSED_OVER, LONGEST_CHAIN = 8, 32
# Into how many parts at most a reduction is shared out, so that they may run at the same time.
PARTS = 16


class Grouper:
    """Takes the chains of one function, those that begin first before others."""

    def __init__(self, func: FuncOp, target: TargetDescription) -> None:
        self.func = func
        self.target = target
        self.labels = Names({node.label.data for node in nodes(func)})
        self.views = [View.of(nest) for nest in nests(func)]
        touched = (node for view in self.views for node in view.places)
        self.uses = Counter(node for node in touched if node_mode(node) == "local")

    def run(self) -> None:
        self.group(self.views)

    def group(self, waiting: Sequence[View]) -> None:
        """Takes the chains out of nests that follow each other, with no group between them."""
        while waiting:
            growth = self.grow(waiting) if can_join(waiting[0]) and self.begins(waiting[0]) else None
            if growth is None or growth.saved <= 0:
                waiting = waiting[1:]
            else:
                for view in growth.before:
                    move_before(view.nest, growth.chain.members[0].view.nest)
                self.build(growth.chain)
                self.group(growth.before)
                waiting = growth.after

    def grow(self, views: Sequence[View]) -> Growth:
        """The chain that begins with the first nest, and the other nests."""
        chain = Chain.of(views[0])
        growth = Growth(chain, max(0.0, self.saved(chain)))
        for at, view in enumerate(views[1:], 1):
            others = len(growth.before) + len(growth.after)
            if others > PASSED_OVER or len(growth.chain.members) == LONGEST_CHAIN:
                growth.after += views[at:]
                break
            joined = growth.chain.join(view) if can_join(view) else None
            needed = growth.needed(view) if joined is not None else []
            together = growth.need_chain(needed)
            if together:
                joined = growth.joined_by([*needed, view])
            saved = float("-inf") if joined is None else self.saved(joined)
            if joined is None or saved <= growth.saved:
                growth.after.append(view)
                continue
            growth.take(joined, saved, needed)
            if not together:
                growth.before += needed
                self.take_needed(growth, needed)
        return growth

    def take_needed(self, growth: Growth, needed: Sequence[View]) -> None:
        """Has nests that the last one of a chain needs join before it, where none that stays needs them."""
        staying: list[View] = []
        before = 1
        for view in reversed(needed):
            can = can_join(view) and not any(view.conflicts(other) for other in staying)
            joined = growth.chain.join(view, before) if can else None
            saved = float("-inf") if joined is None else self.saved(joined)
            if joined is not None and saved > growth.saved:
                growth.chain, growth.saved = joined, saved
                growth.before.remove(view)
                before += 1
            else:
                staying.append(view)

    def begins(self, view: View) -> bool:
        """It may be the first of a chain: it touches more of a node than waits in the caches."""
        return any(is_far(bytes, self.target) for bytes in view.reach.values())

    def saved(self, chain: Chain) -> float:
        """What a chain saves; more of it, and more than nothing, is better."""
        return chain.saved(self.target, self.uses)

    def build(self, chain: Chain) -> None:
        Builder(self.func, chain, self.labels, chain.blocks(self.target), self.target).build(self.uses)


@dataclass
class Growth:
    """A chain so far, the cycles that it saves, and the nests that come before and after it."""

    chain: Chain
    saved: float
    before: list[View] = field(default_factory=list[View])
    after: list[View] = field(default_factory=list[View])

    def needed(self, view: View) -> list[View]:
        """The nests after the chain that have to come before it, or join too, for a nest to join."""
        found: list[View] = []
        for other in reversed(self.after):
            if any(other.conflicts(later) for later in (view, *found)):
                found.insert(0, other)
        return found

    def need_chain(self, views: Sequence[View]) -> bool:
        """Some of the nests cannot come before the chain."""
        return any(view.conflicts(member.view) for view in views for member in self.chain.members)

    def joined_by(self, views: Sequence[View]) -> Chain | None:
        """The chain with several nests more; None if one of them cannot join."""
        chain: Chain | None = self.chain
        for view in views:
            chain = chain.join(view) if chain is not None and can_join(view) else None
        return chain

    def take(self, chain: Chain, saved: float, needed: Sequence[View]) -> None:
        """Goes on with a longer chain, and without the nests that it needs."""
        self.chain, self.saved = chain, saved
        self.after = [view for view in self.after if view not in needed]


def move_before(nest: NestOp, other: NestOp) -> None:
    nest.detach()
    Rewriter.insert_op(nest, InsertPoint.before(other))


def can_join(view: View) -> bool:
    return view.nest.schedule is None and not view.nest.clashing and all(view.sizes.values())


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a group: `block` points of it run together, the first of which is at `start`."""

    block: int
    start: Linear

    def index(self, variable: str) -> Linear:
        return self.inside(variable) + self.start

    def inside(self, variable: str) -> Linear:
        """The index in a node that has room for one block."""
        return ZERO if self.block == 1 else Linear.var(variable)


class Builder:
    """Makes a group of a chain, whose rows run in such blocks."""

    largest_inside = LARGEST_INSIDE

    def __init__(
        self,
        func: FuncOp,
        chain: Chain,
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
        self.rows: dict[str, Row] = {}
        self.space: list[tuple[str, int]] = list(self.parts)
        for row, count in self.counts.items():
            self.add_row(row, count)

    def taken_names(self) -> Names:
        """Of all nests, but for variables that the group takes from them."""
        used = set(self.func.ranges)
        for member in self.chain.members:
            taken = {member.variables[row] for row, block in self.blocks.items() if block == 1}
            used |= member.view.sizes.keys() - taken
        return Names(used)

    def choose_parts(self, target: TargetDescription) -> Space:
        """The parts of the outermost row, if a nest sums along it."""
        row, count = next(iter(self.counts.items()))
        summing = [member for member in self.chain.members if member.sums_along((row,))]
        if not summing:
            return ()
        bytes = sum(math.prod(size for _, size in member.view.nest.space.data) * 4 for member in summing)
        most = min(PARTS, max(1, target.l2_bytes // 4 // bytes))
        parts = max(d for d in divisors(count) if d <= most)
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
        self.rows[row] = Row(block, start)

    def build(self, uses: Mapping[SSAValue, int]) -> None:
        members = self.chain.members
        first, last = members[0].view.nest, members[-1].view.nest
        ends = (first.label.data.split(" .. ")[0], last.label.data.split(" .. ")[-1])
        group = GroupOp(" .. ".join(dict.fromkeys(ends)), self.space, Region(Block()))
        group.location = first.location
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
        self.fuse(group)
        for node, (smaller, _) in inside.items():
            node.replace_all_uses_with(smaller.result)
            Rewriter.erase_op(declaration(node))

    def fuse(self, group: GroupOp) -> None:
        """Merges what sums over the rows with what touches the same rows."""
        Fuser(self.func, upwards=True).run(group.nests)
        for nest in group.nests:
            Eliminator().run(nest.body.block)

    def share(self, member: Member, group: GroupOp) -> NestOp:
        """Puts a nest after the group, but for the part of its reduction that the group takes over."""
        nest, reduction = member.view.nest, member.view.summed
        assert reduction is not None
        outermost = next(iter(self.counts))
        parts = self.parts if member.sums_along((outermost,)) else ()
        shared = rfactor(nest, reduction, self.labels.fresh(f"{nest.label.data}.partial"), parts)
        nest.detach()
        Rewriter.insert_op(nest, InsertPoint.after(group))
        Rewriter.insert_op(shared.node, InsertPoint.after(nodes(self.func)[-1]))
        Rewriter.insert_op(shared.before, InsertPoint.before(group))
        group.body.block.add_op(shared.inside)
        return shared.inside

    def nodes_inside(self, uses: Mapping[SSAValue, int]) -> dict[SSAValue, tuple[NodeOp, Mapping[int, str]]]:
        """Smaller nodes in place of those that only the chain touches, with the axes that have one block."""
        found: dict[SSAValue, tuple[NodeOp, Mapping[int, str]]] = {}
        for node, axes in self.chain.axes.items():
            axes = {axis: row for axis, row in axes.items() if row in self.rows}
            if uses.get(node) != self.chain.touched[node] or not self.chain.passes_on(node) or not axes:
                continue
            sizes = [self.rows[axes[a]].block if a in axes else s for a, s in enumerate(memref_shape(node))]
            old = declaration(node)
            smaller = NodeOp(old.label.data, "local", old.why.data, MemRefType(element_type(node), sizes))
            smaller.result.name_hint = node.name_hint
            if byte_size(smaller) <= self.largest_inside:
                found[node] = smaller, axes
        return found

    def enter(
        self, nest: NestOp, member: Member, inside: Mapping[SSAValue, tuple[NodeOp, Mapping[int, str]]]
    ) -> None:
        """Leaves one block of its rows to a nest of the group."""
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
        """The index map in a smaller node of an access that was at `old`."""
        return tuple(
            self.rows[axes[axis]].inside(index.names[0]) if axis in axes else new[axis]
            for axis, index in enumerate(old)
        )


@dataclass(frozen=True)
class TileAndFusePass(ModulePass):
    """Groups nests that share rows, so that they run for a few rows before they go on to the next.

    It applies where at one value of the shared variables each nest touches its own part of what one of them
    writes. What only the group touches lives inside of it, with room for a few rows. A sum over the rows is
    added up in a fixed number of parts. Nests of a group are fused. The policy: the cycles that loads and
    stores take to and from far caches are weighed against those that it takes to start a nest for each block
    of rows; a reduction must not read more than the first-level cache holds again for each of them.
    """

    name = "tile-and-fuse"

    vector_bytes: int = TargetDescription.vector_bytes
    vector_registers: int = TargetDescription.vector_registers
    l1_bytes: int = TargetDescription.l1_bytes
    l2_bytes: int = TargetDescription.l2_bytes
    cores: int = TargetDescription.cores

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = TargetDescription(
            self.vector_bytes, self.vector_registers, self.l1_bytes, self.l2_bytes, self.cores
        )
        for func in ungrouped(op):
            if any(is_far(byte_size(node), target) for node in nodes(func)):
                Grouper(func, target).run()
