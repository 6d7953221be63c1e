"""`unfold-layers`: adds the layers that `fold-layers` has left out, as copies of an equal one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import cached_property, partial
from itertools import pairwise
from operator import attrgetter
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.assign.node import OWN_MEMORY
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.late_locations import locate_late
from ocannl.dialects.ir.op_helpers import copied
from ocannl.dialects.loops import CollectiveOp, FuncOp, GroupOp, NestOp, RepeatOp, StoreOp
from ocannl.dialects.loops.late_bodies import Pattern, late_copy
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.equality.layered_origins import LayeredOrigins, settle
from ocannl.passes.analysis.equality.layers import ATTRIBUTE, FIRST, LAST, Layers, folded_layers
from ocannl.passes.analysis.equality.structural_equality import StructuralNumbering
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import accesses, all_steps, declaration, functions, nodes, used_nodes
from ocannl.passes.rewrites.declarations import declare

# The properties of steps that name nodes.
LABELS = {"label", "summed", "gathered"}
# A character that cannot stand in the name of a value.
OTHER_CHARACTER = re.compile(r"\W")


@dataclass(eq=False)
class LayerStep:
    """A step with its position, and the number of the last layer whose nodes it uses, if it uses any."""

    step: NestOp | GroupOp | CollectiveOp
    position: int
    level: int | None = None

    @cached_property
    def nodes(self) -> list[SSAValue]:
        return used_nodes(self.step)

    @cached_property
    def stored(self) -> set[SSAValue]:
        if isinstance(self.step, CollectiveOp):
            return {*self.step.written}
        return {op.node for op in accesses(self.step) if isinstance(op, StoreOp)}

    @cached_property
    def pattern(self) -> Pattern:
        """The step as it was when first copied, which has nodes of its own in place of those that it uses."""
        return Pattern(self.step, {node: copied(declaration(node), {}).result for node in self.nodes})


# A step of the folded function, and the layer of the node that it uses, or the distance of the step.
Use: TypeAlias = tuple[LayerStep, int]


@dataclass(frozen=True, slots=True)
class Placed:
    """A step with its place in the unfolded function. `view` and `distance` say to which step of the folded
    one it corresponds: that of the last layer before those left out, so many layers later.
    """

    place: int
    step: Operation
    view: LayerStep
    distance: int = 0


@dataclass
class LayerRun:
    """Pairs of equal steps, of the last layer before those left out and of the first one after them, in a
    part of the function where layers run one after the other.
    """

    is_forward: bool
    start: int
    stop: int
    pairs: list[tuple[LayerStep, LayerStep]] = field(default_factory=list[tuple[LayerStep, LayerStep]])

    def add(self, last: LayerStep, first: LayerStep) -> None:
        self.pairs.append((last, first))
        self.start = min(self.start, last.position, first.position)
        self.stop = max(self.stop, last.position + 1, first.position + 1)

    @cached_property
    def period(self) -> int:
        """The number of steps of a layer: the most frequent distance between the steps of a pair."""
        ((distance, _),) = Counter(abs(a.position - b.position) for a, b in self.pairs).most_common(1)
        return distance

    def is_before(self, view: LayerStep) -> bool:
        """Whether a step runs before those of the layers left out."""
        if not self.start <= view.position < self.stop:
            return view.position < self.start
        if view.level is None:
            raise irregular(view.step)
        return (view.level <= LAST) == self.is_forward


class Unfolder:
    """Inserts steps of the layers left out between those of the layers before and after them."""

    def __init__(self, func: FuncOp, layers: Layers) -> None:
        self.func = func
        self.left_out = layers.left_out
        self.declared = nodes(func)
        declared: dict[str, SSAValue] = {node.label.data: node.result for node in self.declared}
        self.names = Names({*declared, *(label for row in layers.rows for label in row)})
        self.layers = layers
        self.levels = {
            node: level for label, node in declared.items() if (level := layers.level(label)) is not None
        }
        self.following = {
            declared[row[LAST]]: declared[row[-FIRST]]
            for row in layers.rows
            if row[LAST] in declared and row[-FIRST] in declared
        }
        self.structures = StructuralNumbering()
        self.views = [LayerStep(step, position) for position, step in enumerate(steps_of(func))]
        self.number_layers()
        self.runs = self.find_runs()
        self.copies: dict[SSAValue, list[SSAValue]] = {}
        self.origins = LayeredOrigins(layers, func)

    def number_layers(self) -> None:
        """Numbers the layers of steps. A node that passes have made belongs to the first layer that uses it,
        or to none if layers further apart do.
        """
        declared, shared, known = {*self.levels}, set[SSAValue](), -1
        while known < len(self.levels) + 2 * len(shared):
            known = len(self.levels) + 2 * len(shared)
            used: dict[SSAValue, set[int]] = {}
            for view in self.views:
                levels = [level for node in view.nodes if (level := self.levels.get(node)) is not None]
                view.level = max(levels, default=None) if view.level is None else view.level
                for node in view.nodes:
                    if view.level is not None and node not in declared:
                        used.setdefault(node, set()).add(view.level)
            shared |= {node for node, found in used.items() if max(found) - min(found) > 1}
            for node, found in used.items():
                if node not in shared:
                    self.levels.setdefault(node, min(found))
            for node in shared:
                self.levels.pop(node, None)
        for view in self.views:
            levels = {level for node in view.nodes if (level := self.levels.get(node)) is not None}
            if view.level is not None and not levels <= {view.level - 1, view.level}:
                raise irregular(view.step)

    def find_runs(self) -> list[LayerRun]:
        """The runs of layers in program order, disjoint. Raises `IrregularLayers` if there are none."""
        last, first = ([view for view in self.views if view.level == level] for level in (LAST, FIRST))
        if len(last) != len(first):
            raise irregular(self.func)
        found: list[LayerRun] = []
        for one, other in zip(last, first, strict=True):
            self.match(one, other)
            is_forward, start = one.position < other.position, min(one.position, other.position)
            if not found or found[-1].is_forward != is_forward or start >= found[-1].stop:
                found.append(LayerRun(is_forward, start, start))
            found[-1].add(one, other)
        if not found or any(later.start < earlier.stop for earlier, later in pairwise(found)):
            raise irregular(self.func)
        return found

    def match(self, last: LayerStep, first: LayerStep) -> None:
        """Raises `IrregularLayers` unless two steps are equal but for the layer of their nodes."""
        number, own = self.structures.number_and_nodes(last.step)
        first_number, following = self.structures.number_and_nodes(first.step)
        if number != first_number:
            raise irregular(last.step)
        for node, other in zip(own, following, strict=True):
            level = self.levels.get(node)
            if level is None:
                fits = node is other
            else:
                fits = self.levels.get(other) == level + 1 and self.following.setdefault(node, other) is other
            if not fits:
                raise irregular(last.step)

    def run(self) -> None:
        self.declare()
        order = sorted(self.placed(), key=attrgetter("place"))
        self.check_order(order)
        for run in self.runs:
            for _, first in run.pairs:
                self.redirect(first)
        self.settle_origins()
        for view in self.views:
            view.step.detach()
        self.func.body.block.add_ops(placed.step for placed in order)

    def settle_origins(self) -> None:
        """Those before the layers left out come from the first of them where they come from any, and those
        after them from the last.
        """
        levels = [(view.step, view.level) for view in self.views]
        declared = [(node, self.levels.get(node.result)) for node in self.declared]
        for op, level in (*levels, *declared):
            settle(op, None if level is None else 0 if level <= LAST else self.left_out)

    def placed(self) -> Iterator[Placed]:
        """All steps with their places, those of the layers left out included."""
        others = dict.fromkeys(self.views)
        for run in self.runs:
            for last, first in run.pairs:
                yield Placed(self.place(last), last.step, last)
                yield Placed(self.place(first), first.step, last, self.left_out + 1)
                for distance, place in self.places(run, last, first):
                    yield Placed(place, self.copy(last, distance), last, distance)
                del others[last], others[first]
        yield from (Placed(self.place(view), view.step, view) for view in others)

    def check_order(self, order: Sequence[Placed]) -> None:
        """Raises `IrregularLayers` unless the unfolded order keeps dependences: each layer and the one before
        use their nodes, and those of no layer, in the same order as the layers that stay.
        """
        folded = {view: Placed(view.position, view.step, view) for view in self.views}
        for run in self.runs:
            folded |= {first: Placed(first.position, first.step, last, 1) for last, first in run.pairs}
        (expected,) = self.uses(folded.values(), 1)
        for found in self.uses(order, self.left_out + 1):
            if any(uses != expected.get(node) for node, uses in found.items()):
                raise irregular(self.func)

    def uses(self, order: Iterable[Placed], layers: int) -> list[dict[SSAValue, list[set[Use]]]]:
        """For the last layer and each of its next `layers - 1` copies, with the layer after it: of each node
        of these or of no layer alternately the steps that store to it and those that load in between.
        """
        found: list[dict[SSAValue, list[set[Use]]]] = [{} for _ in range(layers)]
        for placed in order:
            view, distance = placed.view, placed.distance
            is_repeated, near = view.level == LAST, range(max(distance - 1, 0), min(distance + 1, layers))
            for node in view.nodes:
                last, places = node, near if is_repeated else range(layers)
                if (level := self.levels.get(node)) is not None:
                    last = self.following[node] if is_repeated and level < LAST else node
                    at = distance + level - LAST
                    places = (at,) if is_repeated and 0 <= at < layers else ()
                for at in places:
                    uses = found[at].setdefault(last, [set()])
                    uses += [set(), set()] if node in view.stored else ()
                    uses[-2 if node in view.stored else -1].add((view, distance - at if is_repeated else 0))
        return found

    def place(self, view: LayerStep) -> int:
        """The place of a step of the folded function in the unfolded one."""
        passed = [run for run in self.runs if not run.is_before(view)]
        return view.position + sum(self.left_out * run.period for run in passed)

    def places(self, run: LayerRun, last: LayerStep, first: LayerStep) -> Iterator[tuple[int, int]]:
        """The places of the copies of a step, each with its distance from the last layer."""
        start = self.place(last if run.is_forward else first)
        for k in range(1, self.left_out + 1):
            yield k if run.is_forward else self.left_out + 1 - k, start + k * run.period

    def declare(self) -> None:
        """Declares the nodes of the layers left out."""
        last = [node for node in nodes(self.func) if self.levels.get(node.result) == LAST]
        self.copies = {node.result: [] for node in last}
        declared: list[NodeOp] = []
        for distance in range(1, self.left_out + 1):
            locations = self.origins.at(distance)
            for node in last:
                copy = copied(node, {})
                locate_late(copy, partial(locations, node.location))
                self.rename(copy, distance)
                declared.append(copy)
                self.copies[node.result].append(copy.result)
        for node in last:
            self.rename(node, 0)
        declare(self.func, declared)
        kept = [node.label.data for node in nodes(self.func) if node.mode.data in OWN_MEMORY]
        if len(set(kept)) < len(kept):
            raise irregular(self.func)

    def rename(self, node: NodeOp, distance: int) -> None:
        """Gives a node the label of the node `distance` layers later. Nodes that keep their values must have
        one, as users refer to them by it.
        """
        label, is_known = node.label.data, node.mode.data in OWN_MEMORY
        found = self.layers.at(label, distance)
        if found is None and is_known:
            raise irregular(node)
        if found == label:
            return
        if found is None or not (is_known or label in self.layers.places):
            found = self.names.fresh(found or label)
        node.properties["label"] = StringAttr(found)
        node.result.name_hint = hint(found)

    def at(self, node: SSAValue, distance: int) -> SSAValue:
        """The node that replaces `node` in a copy of a step of the last layer, `distance` layers later."""
        level = self.levels.get(node)
        if level is None:
            return node
        last, distance = (node, distance) if level == LAST else (self.following[node], distance - 1)
        return (last, *self.copies[last])[distance]

    def copy(self, view: LayerStep, distance: int) -> Operation:
        """A copy of a step of the last layer for the layer `distance` later."""
        there, locations = [self.at(node, distance) for node in view.nodes], self.origins.at(distance)
        if isinstance(view.step, NestOp):
            pattern = view.pattern
            copy = late_copy(pattern, dict(zip(pattern.own, there, strict=True)), locations)
        else:
            copy = copied(view.step, dict(zip(view.nodes, there, strict=True)), locations)
            for node in nodes(copy) if isinstance(copy, GroupOp) else ():
                self.rename(node, distance)
        self.relabel(copy, distance)
        return copy

    def relabel(self, step: Operation, distance: int) -> None:
        """Gives a step the names that it has in another layer."""
        for op in (step, *(step.nests if isinstance(step, GroupOp) else ())):
            for name in LABELS & op.properties.keys():
                op.properties[name] = self.label_at(op.properties[name], distance)

    def label_at(self, label: Attribute, distance: int) -> Attribute:
        """A label, or several, `distance` layers later."""
        if isinstance(label, StringAttr):
            found = self.layers.at(label.data, distance)
            return label if found is None else StringAttr(found)
        assert isa(label, ArrayAttr[StringAttr])
        return ArrayAttr([self.label_at(own, distance) for own in label])

    def redirect(self, view: LayerStep) -> None:
        """Makes a step of the first layer after those left out use the nodes of the last of them."""
        self.relabel(view.step, self.left_out)
        for op in view.step.walk():
            for k, node in enumerate(op.operands):
                if self.levels.get(node) == LAST:
                    op.operands[k] = self.at(node, self.left_out)


def steps_of(func: FuncOp) -> Iterator[NestOp | GroupOp | CollectiveOp]:
    """The steps, which can be copied for other layers. Raises `IrregularLayers` where there are loops, which
    run functions of their own, and messages, which have numbers of their own.
    """
    for step in all_steps(func):
        if isinstance(step, RepeatOp) or (isinstance(step, CollectiveOp) and step.message is not None):
            raise irregular(step)
        yield step


def hint(label: str) -> str | None:
    name = OTHER_CHARACTER.sub("_", label)
    return name if SSAValue.is_valid_name(name) else None


class IrregularLayers(OcannlError):
    """Layers that were equal when they were folded are not any more, so that no copy can stand for those left
    out.
    """


def irregular(op: Operation) -> IrregularLayers:
    return IrregularLayers(at_line(op, "what passes made of equal layers differs: do without `fold-layers`"))


@dataclass(frozen=True)
class UnfoldLayersPass(ModulePass):
    """Adds nests, collectives and nodes of the layers left out: copies of those of the last one before them.

    Raises `IrregularLayers` where that layer and the first one after are not equal any more, and where there
    are loops or messages between stages.
    """

    name = "unfold-layers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            layers = folded_layers(func)
            if layers is not None:
                Unfolder(func, layers).run()
                del func.attributes[ATTRIBUTE]
