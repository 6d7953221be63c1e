"""`rematerialize`: values that are cheap to compute are computed again where they are read late, instead of
kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import field

from xdsl.context import Context
from xdsl.dialects.arith import MulfOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.loops import CollectiveOp, FuncOp, GroupOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.cost import instructions
from ocannl.passes.analysis.dataflow.liveness import Timeline
from ocannl.passes.analysis.equality.layers import LAST, folded_layers
from ocannl.passes.analysis.names import Names, labels_of
from ocannl.passes.analysis.nests import (
    Opaque,
    Step,
    all_steps,
    covering_axes,
    declaration,
    functions,
    node_mode,
    nodes,
    points,
    stores_by_node,
    with_reduced,
)
from ocannl.passes.analysis.targets.target_options import TargetOptions
from ocannl.passes.analysis.values.slices import slice_in
from ocannl.passes.rewrites.common_subexpressions import Eliminator
from ocannl.passes.rewrites.dead_stores import FUSED, mark_virtual, remove_dead_stores
from ocannl.passes.rewrites.declarations import declare
from ocannl.passes.rewrites.fuser import Fuser
from ocannl.passes.rewrites.indices import Copier

# While no more than so many second-level caches hold is live, or such a part of the last level, nothing is
# computed again.
LITTLE, LITTLE_PART = 8, 1 / 4
# The part of all instructions that freeing a part of all bytes is worth, and the most instructions for a
# byte: those of a layer with 64 inputs.
WORTH, HIGHEST_PRICE = 0.3, 16.0
# A node that is so much larger than its inputs, as the scores of attention, or takes so few instructions for
# a byte, is always computed again: fused with its readers, it need not be in memory at all.
MUCH_LARGER, LOWEST_PRICE = 6, 2.0
# An input that is so much smaller than a node is kept for it.
SMALL_INPUT = 1 / 8
# The most nodes that are computed again for one.
LONGEST_CHAIN = 4


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The only store to a node, which covers it, and the backward slice of its value in the nest."""

    position: int
    nest: NestOp
    store: StoreOp
    ops: list[Operation]
    inputs: dict[SSAValue, None]


@dataclass(slots=True)
class Plan:
    """How a node is computed again: between the nests `after`, its last early touch, and `before`, its first
    late one.

    `chain` are the nodes to compute, inputs first; `inputs` are the others that they read.
    """

    node: SSAValue
    after: int
    before: int
    chain: list[SSAValue] = field(default_factory=list[SSAValue])
    inputs: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    cost: int = 0
    gain: int = 0
    read: int = 0

    @property
    def price(self) -> float:
        """Instructions for each byte that is freed."""
        return self.cost / self.gain


class Recomputer:
    """Lowers the peak of live bytes: rematerializes the nodes that are live there, the cheapest for their
    size first.
    """

    def __init__(self, func: FuncOp) -> None:
        self.func = func
        self.steps = all_steps(func)
        self.position: dict[Operation, int] = {step: position for position, step in enumerate(self.steps)}
        self.time = Timeline(self.steps)
        self.costs = [*map(instructions_of, self.steps)]
        all_bytes = max([1, *self.time.live])
        self.highest_price = min(HIGHEST_PRICE, WORTH * sum(self.costs) / all_bytes)
        self.labels = labels_of(func)
        self.definitions: dict[SSAValue, Recomputation | None] = {}
        self.versions: dict[SSAValue, list[tuple[int, SSAValue]]] = {}
        """The nodes that hold the value of a node, each from a position on."""
        self.kept = set[SSAValue]()
        """The inputs whose lifetime was extended."""
        self.clones: dict[int, list[tuple[int, NestOp]]] = {}
        """The nests that were put before one, with the positions of those that they repeat."""

    def run(self, enough: int) -> None:
        """Goes on until no more than `enough` bytes are live at once, or no node is cheap enough."""
        live, in_sight = self.time.live, enough * self.part_in_sight()
        if live and max(live) > in_sight:
            self.cut([node for node in self.time.local if self.time.bytes[node] > enough])
        while live and max(live) > in_sight and self.relieve(live.index(max(live))):
            pass
        self.fuse()

    def part_in_sight(self) -> float:
        """The part of the peak that is not in layers left out by `fold-layers`."""
        layers, most = folded_layers(self.func), max(self.time.live, default=0)
        if layers is None or not most:
            return 1.0
        touches = self.time.touches
        position = self.time.live.index(most)
        last = [node for node in self.time.local if layers.level(declaration(node).label.data) == LAST]
        passing = [node for node in last if touches[node][0] <= position <= touches[node][-1]]
        return most / (most + layers.left_out * sum(self.time.bytes[node] for node in passing))

    def cut(self, large: Sequence[SSAValue]) -> None:
        """Rematerializes nodes that are much larger than their inputs, after the longest time without a
        touch.

        Readers come before what they read, so that both are computed at the same place.
        """
        for node in reversed(large):
            plan = self.plan(node, self.time.longest_gap(node))
            if plan is not None and (plan.read * MUCH_LARGER <= plan.gain or plan.price <= LOWEST_PRICE):
                self.apply(plan)

    def relieve(self, position: int) -> bool:
        """Rematerializes cheap nodes that are live at a position, while the peak is there. Whether there was
        any.
        """
        live, found = self.time.live, False
        plans = [self.plan(node, position) for node in self.time.local if node not in self.kept]
        for first in sorted((plan for plan in plans if plan is not None), key=lambda plan: plan.price):
            if max(live) > live[position] or first.price > self.highest_price:
                break
            # Its inputs may live longer or shorter by now.
            plan = self.plan(first.node, position)
            if plan is not None and plan.price <= self.highest_price:
                self.apply(plan)
                found = True
        return found

    def plan(self, node: SSAValue, position: int) -> Plan | None:
        """How to free a node at a position at which it is not touched; None if that frees nothing."""
        gap = self.time.gap(node, position)
        if gap is None:
            return None
        plan = Plan(node, *gap)
        if not self.collect(node, plan) or plan.before <= position:
            return None
        bytes = self.time.bytes
        definitions = [found for link in plan.chain if (found := self.definition(link)) is not None]
        plan.cost = sum(self.costs[found.position] for found in definitions)
        plan.read = sum(bytes[input] for input in plan.inputs)
        plan.gain = bytes[node] - sum(bytes[input] for input, _ in self.to_keep(plan))
        return plan if plan.gain > 0 else None

    def collect(self, node: SSAValue, plan: Plan) -> bool:
        """Adds a node to a plan's chain, after those of its inputs that are neither live anyway nor small.
        Whether that is possible.
        """
        found = self.definition(node)
        if found is None or len(plan.chain) == LONGEST_CHAIN:
            return False
        for input in found.inputs:
            plan.before = min(plan.before, self.time.first_write(input, found.position))
            is_kept = node_mode(input) != "local" or self.last_touch(input, plan.before) >= plan.before
            if is_kept or self.time.bytes[input] <= SMALL_INPUT * self.time.bytes[plan.node]:
                plan.inputs[input] = None
            elif input not in plan.chain and not self.collect(input, plan):
                return False
        plan.chain.append(node)
        return True

    def to_keep(self, plan: Plan) -> Iterable[tuple[SSAValue, int]]:
        """The inputs whose lifetime a plan extends, with their last touches so far."""
        for input in plan.inputs:
            last = self.last_touch(input, plan.before)
            if node_mode(input) == "local" and last < plan.before:
                yield input, last

    def last_touch(self, node: SSAValue, position: int) -> int:
        return self.time.touches[self.version(node, position)][-1]

    def version(self, node: SSAValue, position: int) -> SSAValue:
        """The node that holds the value of a node at a position: itself, or its latest rematerialization."""
        earlier = [value for start, value in self.versions.get(node, ()) if start <= position]
        return earlier[-1] if earlier else node

    def definition(self, node: SSAValue) -> Recomputation | None:
        if node not in self.definitions:
            self.definitions[node] = self.find_definition(node)
        return self.definitions[node]

    def find_definition(self, node: SSAValue) -> Recomputation | None:
        writes = self.time.writes.get(node, ())
        if len(writes) != 1 or writes[0] == len(self.steps):
            return None
        (position,) = writes
        nest = self.steps[position]
        if not isinstance(nest, NestOp):
            return None
        stores = stores_by_node(nest)
        (store, *others) = stores[node]
        if others or store.positions or covering_axes(store, nest.space.data) is None:
            return None
        ops = slice_in(nest.body.block, [store.value])
        inputs = {op.node: None for op in with_reduced(ops) if isinstance(op, LoadOp)}
        return None if inputs.keys() & stores.keys() else Recomputation(position, nest, store, ops, inputs)

    def apply(self, plan: Plan) -> None:
        node, before, time = plan.node, plan.before, self.time
        for input, last in self.to_keep(plan):
            time.change(last + 1, before + 1, time.bytes[input])
            self.kept.add(input)
        for input in plan.inputs:
            if before not in (touches := time.touches[self.version(input, before)]):
                insort(touches, before)
        copies: dict[SSAValue, SSAValue] = {input: self.version(input, before) for input in plan.inputs}
        for link in plan.chain:
            copies[link] = self.repeat(link, before, copies)
            time.touches[copies[link]], time.bytes[copies[link]] = [before], time.bytes[link]
        new, touches = copies[node], time.touches[node]
        time.touches[new] += [at for at in touches if at >= before]
        time.touches[node] = [at for at in touches if at < before]
        time.change(plan.after + 1, before, -time.bytes[node])
        for use in list(node.uses):
            if isinstance(use.operation, LoadOp | Opaque) and self.position[step_of(use.operation)] >= before:
                use.operation.operands[use.index] = new
        self.versions.setdefault(node, []).append((before, new))

    def repeat(self, node: SSAValue, before: int, inputs: dict[SSAValue, SSAValue]) -> SSAValue:
        """Inserts a nest that computes a node into a new one, before the nest at a position."""
        found = self.definition(node)
        assert found is not None
        old = declaration(node)
        new = NodeOp(self.labels.fresh(f"{old.label.data}.again"), "local", "computed again", old.result.type)
        new.result.name_hint = node.name_hint
        new.location = old.location
        declare(self.func, new)
        names = Names(set(self.func.ranges) | set(found.nest.space.names))
        copier = Copier(names, {}, {**inputs, node: new.result})
        copied = [copier.copy(op) for op in (*found.ops, found.store)]
        nest = NestOp(new.label.data, found.nest.space.data, Region(Block(copied)))
        nest.location = found.nest.location
        self.position[nest] = before
        others = self.clones.setdefault(before, [])
        at = bisect_left(others, found.position, key=lambda other: other[0])
        following = others[at][1] if at < len(others) else self.steps[before]
        Rewriter.insert_op(nest, InsertPoint.before(following))
        others.insert(at, (found.position, nest))
        return new.result

    def fuse(self) -> None:
        """Fuses the nests that were inserted at the same place with each other and with a nest there."""
        forwarded: set[SSAValue] = set()
        for before, others in self.clones.items():
            fuser = Fuser(self.func, upwards=True)
            fuser.run([*(nest for _, nest in others), self.steps[before]])
            forwarded |= fuser.forwarded
            for group in filter(None, fuser.groups):
                Eliminator().run(group.nest.body.block)
        if self.clones:
            remove_dead_stores(self.func)
            mark_virtual(self.func, dict.fromkeys(forwarded, FUSED))


def instructions_of(step: Step) -> int:
    """The instructions of a nest, of all points of a group, or of all iterations of a loop."""
    if isinstance(step, NestOp):
        return instructions_in(step.body.block, points(step.space.data))
    if isinstance(step, GroupOp):
        return points(step.space.data) * sum(map(instructions_of, step.nests))
    if isinstance(step, CollectiveOp):
        return 0
    return step.count.data * sum(map(instructions_of, all_steps(step.func)))


def instructions_in(block: Block, times: int) -> int:
    """The instructions of a block that runs so many times; a product that is summed is one `math.fma` with
    the sum.
    """
    total = 0
    for op in block.ops:
        if isinstance(op, ReduceOp):
            inner = times * points(op.space.data)
            total += instructions_in(op.body.block, inner)
            total += 0 if isinstance(op.yielded.owner, MulfOp) else inner
        else:
            total += times * instructions(op)
    return total


def step_of(op: Operation) -> Operation:
    """The nest or group around an operation, or the loop or collective that it is."""
    while not isinstance(op.parent_op(), FuncOp):
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


@dataclass(frozen=True)
class RematerializePass(TargetOptions, ModulePass):
    """Rematerialization: computes local nodes again before late reads, so that the arena need not keep them
    meanwhile (Briggs, Cooper and Torczon, "Rematerialization", 1992; for training, Chen et al., "Training
    Deep Nets with Sublinear Memory Cost", 2016).

    It applies where one nest stores to all of a node, and nothing that it reads has been written since. While
    more bytes are live than a few second-level caches hold, or a part of the last level, the nodes that are
    live at the peak and take the fewest instructions for each byte are computed again, if that is a much
    smaller part of all instructions than of all bytes. Nodes that alone are so large are computed again
    whenever they are much larger than their inputs. Inputs that are not live anyway are kept if they are
    small, else computed again too. Nests that are inserted at the same place are fused.
    """

    name = "rematerialize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.target
        for func in functions(op):
            if not nodes(func):
                continue
            little = max(LITTLE * target.l2_bytes, int(LITTLE_PART * target.last_level_bytes))
            Recomputer(func).run(little)
