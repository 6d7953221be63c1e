"""`fuse-rows`: nests that share rows become a group, which is one kernel: its threads share each row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.loops import FuncOp, GroupOp, NestOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.footprints import NestFootprint
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.fusion.row_fusion import Member, NestChain
from ocannl.passes.analysis.nests import all_steps, functions, points, used_nodes, written_nodes
from ocannl.passes.analysis.schedules.shared_reductions import (
    LEAST_REDUCED,
    choose_lanes,
    long_reductions,
    needed_before,
)
from ocannl.passes.analysis.schedules.strides import in_memory_order
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.rewrites.row_grouper import LONGEST_CHAIN, Grouper
from ocannl.passes.rewrites.row_groups import Builder

# With fewer rows than these, each point of a larger nest has a thread of its own.
LEAST_ROWS, FEW_POINTS = 64, 2**16
# The most bytes of shared memory that a row may take.
ROW_BYTES = 20 * 2**10


class RowGrouper(Grouper):
    """Groups nests to save kernel launches, where at least one of them reduces rows."""

    @cached_property
    def ends(self) -> set[NestOp]:
        """The nests that kernels of groups end with."""
        return ends_of_groups(self.func)

    def may_join(self, view: NestFootprint) -> bool:
        return super().may_join(view) and not view.nest.clashing

    def begins(self, view: NestFootprint) -> bool:
        return self.saved(NestChain.of(view)) > float("-inf")

    def saved(self, chain: NestChain) -> float:
        if any(member.view.nest in self.ends for member in chain.members):
            return float("-inf")
        shared = [can_share(member, chain) for member in chain.members]
        rows = math.prod(chain.rows.values())
        size = max(points(member.view.nest.space.data) for member in chain.members)
        if not all(shared) or (rows < LEAST_ROWS and size > FEW_POINTS):
            return float("-inf")
        is_reduced = any(long_reductions(member.view.nest) for member in chain.members)
        return len(shared) - (1 if is_reduced else LONGEST_CHAIN)

    def build(self, chain: NestChain) -> None:
        RowBuilder(self.func, chain, self.labels, dict.fromkeys(chain.rows, 1), self.target).build(self.uses)


class RowBuilder(Builder):
    """Builds a group whose intermediate nodes are in shared memory, as far as they fit."""

    largest_inside = ROW_BYTES

    def nodes_inside(self, uses: Mapping[SSAValue, int]) -> dict[SSAValue, tuple[NodeOp, Mapping[int, str]]]:
        room, found = ROW_BYTES, super().nodes_inside(uses)
        for node, (smaller, _) in list(found.items()):
            room -= byte_size(smaller)
            if room < 0:
                room += byte_size(smaller)
                del found[node]
        return found

    def fuse(self, group: GroupOp) -> None:
        """Leaves the nests as they are: threads share each of them in its own way."""


def ends_of_groups(func: FuncOp) -> set[NestOp]:
    """The nests just after groups that make results, point by point, of what these add up."""
    found = set[NestOp]()
    sums: set[SSAValue] = set()
    for step in all_steps(func):
        if isinstance(step, GroupOp):
            sums = set(written_nodes(step))
        elif isinstance(step, NestOp) and is_of_points(step) and not sums.isdisjoint(used_nodes(step)):
            found.add(step)
        else:
            sums = set()
    return found


def is_of_points(nest: NestOp) -> bool:
    return not nest.clashing and not any(op.regions for op in nest.body.block.ops)


def can_share(member: Member, chain: NestChain) -> bool:
    """Whether threads can share the work of a nest in a row: a contiguous reduction, or points in a row."""
    nest, own = member.view.nest, {member.variables[row] for row in chain.rows}
    columns = [name for name in nest.space.names if name not in own]
    if not own <= set(nest.space.names):
        return False
    if long := long_reductions(nest):
        return not columns and needed_before(nest, long) is not None and choose_lanes(nest, long).is_inner
    return not columns or dict(nest.space.data)[in_memory_order(nest, columns)[-1]] >= LEAST_REDUCED


@dataclass(frozen=True)
class FuseRowsPass(ModulePass):
    """Vertical kernel fusion by rows: groups nests that reduce the same rows, or compute points of them, for
    a GPU (as of softmax or layer normalization in one kernel).

    A group becomes one kernel, so there are fewer launches, and a row stays in shared memory while it is
    worked on. Nodes that only the group touches are declared in it, as far as there is room. Nests that share
    a row touch its own part of every node that one of them writes.
    """

    name = "fuse-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            RowGrouper(func, TargetDescription()).run()
