"""Groups over blocks of rows and keys: one that computes a softmax with a running maximum, and those of the
sums that come later.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Iterable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.bounds import BoundsAttr
from ocannl.dialects.index.linear import Linear, Map
from ocannl.dialects.ir.origins import derive, union
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.scalar.accumulation import builder_for
from ocannl.passes.analysis.names import Names, joined_label, labels_of
from ocannl.passes.loops.online_softmax.blocks import BlockSpace, CopiedNest, node_inside
from ocannl.passes.loops.online_softmax.hidden_blocks import needed_blocks
from ocannl.passes.loops.online_softmax.recognize import Exponential, Softmax, load_of
from ocannl.passes.loops.online_softmax.score_nests import Kind, ScoreNest, variable
from ocannl.passes.rewrites.dead_code import remove_unused_operations
from ocannl.passes.rewrites.declarations import declare
from ocannl.passes.rewrites.rfactor import rfactor


class GroupBuilder:
    """Builds one group of the sums `sums` and of copies of the nests that compute the scores they read."""

    def __init__(self, func: FuncOp, softmax: Softmax, space: BlockSpace, sums: Sequence[ScoreNest]) -> None:
        self.func = func
        self.softmax = softmax
        self.space = space
        self.sums = sums
        self.labels: Names = labels_of(func)
        self.points = needed_points(softmax, sums)
        first, last = (*self.points, *sums)[0].nest, sums[-1].nest
        self.group = GroupOp(joined_label(first, last), space.space, Region(Block()))
        needed = needed_blocks(softmax, space, sums)
        if needed is not None:
            self.group.properties["where"] = BoundsAttr((needed,))
        self.group.location = union(*(member.nest.location for member in (*self.points, *sums)))
        self.inside: dict[SSAValue, NodeOp] = {}
        """The nodes in the group that stand for scores."""
        self.resets: list[NestOp] = []

    def declare(self, node: NodeOp) -> NodeOp:
        """Declares a node in the group."""
        after = [op for op in self.group.body.block.ops if isinstance(op, NodeOp)]
        block = self.group.body.block
        Rewriter.insert_op(node, InsertPoint.after(after[-1]) if after else InsertPoint.at_start(block))
        return node

    def declare_scores(self) -> None:
        size = (self.space.sizes.rows, self.space.sizes.keys)
        for node in dict.fromkeys(node for member in self.points for node in member.written):
            label = node.owner.label.data if isinstance(node.owner, NodeOp) else ""
            self.inside[node] = self.declare(node_inside(node, size, self.labels.fresh(f"{label}.block")))

    def add(self, nest: NestOp) -> None:
        self.group.body.block.add_op(nest)

    def add_points(self, member: ScoreNest) -> CopiedNest:
        """Adds a copy of a nest that computes scores."""
        copied = CopiedNest.of(member.nest, self.func)
        self.space.enter(copied.nest, member, self.inside)
        self.add(copied.nest)
        return copied

    def share(self, member: ScoreNest) -> tuple[NestOp, LoadOp]:
        """Moves the sum of a nest into the group, which adds it up in a node, from which the nest then takes
        it; returns the nest in the group, and its load of what is there so far.
        """
        label = self.labels.fresh(f"{member.nest.label.data}.partial")
        shared = rfactor(member.nest, member.reductions[0], label, ())
        declare(self.func, shared.node)
        self.resets.append(shared.before)
        so_far = next(
            op
            for op in shared.inside.body.block.ops
            if isinstance(op, LoadOp) and op.node is shared.node.result
        )
        self.space.enter(shared.inside, member, self.inside)
        self.add(shared.inside)
        return shared.inside, so_far

    def build(self) -> None:
        """Fills the group with later sums: maxima and sums of rows are known."""
        self.declare_scores()
        for member in self.points:
            self.add_points(member)
        for member in self.sums:
            self.share(member)


class OnlineBuilder(GroupBuilder):
    """Builds the group with the running maximum. What was added up so far is scaled to the new one."""

    def build(self) -> None:
        softmax = self.softmax
        self.declare_scores()
        reduction = softmax.maximum.reductions[0]
        row = MemRefType(reduction.result.type, [self.space.sizes.rows])
        self.safe, self.factor = (
            self.declare(NodeOp(self.labels.fresh(label), "local", why, row))
            for label, why in (("running", "running maximum"), ("factor", "exponential of its change"))
        )
        derive((self.safe, self.factor), softmax.maximum.nest.location)
        later = needed_after(softmax, self.points)
        for member in self.points:
            if member not in later:
                self.add_points(member)
        self.add_maximum()
        for member in self.points:
            if member in later:
                self.add_weights(member)
        for member in softmax.sums:
            self.add_sum(member)

    def add_maximum(self) -> None:
        """The new maximum, where it is a number; and the exponential of the old one without it."""
        member = self.softmax.maximum
        nest, so_far = self.share(member)
        store = next(op for op in nest.body.block.ops if isinstance(op, StoreOp))
        b = builder_for(store.value.type)
        lowest = b.cmp("oeq", store.value, b.const(-numbers.inf))
        safe = b.select(lowest, b.const(0.0), store.value)
        difference = b.sub(so_far.result, safe)
        assert isinstance(difference.owner, arith.SubfOp)
        self.change = difference.owner
        links = change(self.softmax.exponential, difference)
        place = self.row_of(member)
        stores = [
            StoreOp(safe, self.safe.result, place),
            StoreOp(links[-1].results[0], self.factor.result, place),
        ]
        made: list[Operation] = [*b.ops, *links, *stores]
        derive(made, nest.location)
        nest.body.block.add_ops(made)

    def add_weights(self, member: ScoreNest) -> None:
        """Adds a copy of a nest that computes exponentials or what is made of them, before sums divide it."""
        copied = self.add_points(member)
        exponential = self.softmax.exponential
        if member is exponential.member:
            load = copied.made_by(exponential.maximum)
            assert isinstance(load, LoadOp)
            replaced = LoadOp(self.safe.result, self.row_of(member))
            replaced.location = load.location
            Rewriter.replace_op(load, replaced)
        for degree in self.softmax.degrees.values():
            for division in degree.divisions:
                if nest_around(division) is member.nest:
                    made = copied.made_by(division)
                    if made.parent is not None:
                        Rewriter.replace_op(made, [], [made.operands[0]])
        remove_unused_operations(copied.nest.body.block)

    def add_sum(self, member: ScoreNest) -> None:
        """Adds a sum, scaled; the nest that takes its result divides it."""
        divisors = [
            self.divisor(load_of(division.rhs), member) for division in self.softmax.degrees[member].divisions
        ]
        for division in self.softmax.degrees[member].divisions:
            if nest_around(division) is member.nest:
                Rewriter.replace_op(division, [], [division.lhs])
        nest, so_far = self.share(member)
        factor = LoadOp(self.factor.result, self.row_of(member))
        scaled = arith.MulfOp(so_far.result, factor.result)
        derive((factor, scaled), nest.location)
        so_far.result.replace_uses_with_if(scaled.result, lambda use: use.operation is not scaled)
        nest.body.block.insert_ops_after([factor, scaled], so_far)
        total = next(
            op for op in member.nest.body.block.ops if isinstance(op, LoadOp) and op.node is so_far.node
        )
        divide(total, divisors)
        for each in (nest, member.nest):
            remove_unused_operations(each.body.block)

    def divisor(self, load: LoadOp, member: ScoreNest) -> LoadOp:
        """A load of the same sum of a row in a nest that may run over scores with other variables."""
        reader = next(m for m in self.softmax.nests.members if m.nest is nest_around(load))
        places = dict(zip(reader.at, member.at, strict=True))
        indices = [index if index.is_constant else places[index] for index in load.indices.data]
        return LoadOp(load.node, indices)

    def row_of(self, member: ScoreNest) -> Map:
        return (Linear.var(variable(member.at[self.space.nests.rows])),)


def divide(value: LoadOp, divisors: Sequence[LoadOp]) -> None:
    """Divides what is loaded by other numbers, one after the other, for all its users."""
    users = list(value.result.uses)
    result: SSAValue = value.result
    last: Operation = value
    for load in divisors:
        division = arith.DivfOp(result, load.result)
        derive((load, division), value.location)
        Rewriter.insert_op([load, division], InsertPoint.after(last))
        result, last = division.result, division
    for use in users:
        use.operation.operands[use.index] = result


def needed_points(softmax: Softmax, sums: Iterable[ScoreNest]) -> list[ScoreNest]:
    """The nests that compute the scores that sums read, directly or for each other, in order."""
    members = softmax.nests.members
    waiting = [node for member in sums for node in member.scores]
    found = set[ScoreNest]()
    while waiting:
        node = waiting.pop()
        for member in members:
            if member.kind is Kind.POINTS and node in member.written and member not in found:
                found.add(member)
                waiting += member.scores
    return [member for member in members if member in found]


def needed_after(softmax: Softmax, points: Iterable[ScoreNest]) -> set[ScoreNest]:
    """Those of the nests that need the maximum."""
    found, scores = set[ScoreNest](), set[SSAValue]()
    for member in points:
        if member is softmax.exponential.member or not scores.isdisjoint(member.scores):
            found.add(member)
            scores.update(member.written)
    return found


def change(exponential: Exponential, difference: SSAValue) -> list[Operation]:
    """The operations that give the exponential of another difference, of an old maximum from the new one."""
    values = {exponential.difference: difference}
    made: list[Operation] = []
    for link in exponential.links:
        for operand in link.operands:
            if operand not in values and isinstance(operand.owner, arith.ConstantOp):
                made.append(operand.owner.clone(values))
        made.append(link.clone(values))
    return made


def nest_around(op: Operation) -> Operation | None:
    """The nest in which an operation stands."""
    while not isinstance(op, NestOp):
        parent = op.parent_op()
        if parent is None:
            return None
        op = parent
    return op
