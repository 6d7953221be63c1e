"""The contract of a routine with its caller: nodes that it reads first, nodes that it writes, and the values
of static indices for which its accesses stay inside their nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from xdsl.ir import SSAValue

from ocannl.dialects.assign.node import OWN_MEMORY
from ocannl.dialects.index.images import Box, boxes_of, overlap, without
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import CollectiveOp, FuncOp, GroupOp, LoadOp, NestOp, RepeatOp, StoreOp
from ocannl.dialects.loops.values import position_sizes
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import declaration, names_in, nodes, touches, ungrouped_steps

Terms: TypeAlias = tuple[tuple[str, int], ...]
# The label of a node, a store to it, and the ranges of the variables around the store.
Stored: TypeAlias = tuple[str, StoreOp, dict[str, int]]


@dataclass(frozen=True)
class IndexLimit:
    """The least and the greatest value of a sum of static indices, given by their coefficients: that of a
    single index is 1. Where the least one is greater, there is no value.
    """

    terms: Terms
    least: int
    greatest: int


@dataclass
class RoutineFacts:
    """Labels of nodes that keep their values between runs: `reads` are needed from before a run, `writes`
    are set by it, `parts` not in all of their cells; `limits` bound static indices, for each sum of them that
    an access has.
    """

    reads: set[str] = field(default_factory=set[str])
    writes: set[str] = field(default_factory=set[str])
    parts: set[str] = field(default_factory=set[str])
    limits: list[IndexLimit] = field(default_factory=list[IndexLimit])


def routine_facts(func: FuncOp) -> RoutineFacts:
    labels: dict[SSAValue, str] = {
        node.result: node.label.data for node in nodes(func) if node.mode.data in OWN_MEMORY
    }
    reader = _Reader(func, labels, func.rank_sizes)
    reader.visit(func)
    whole = {label for label, written in reader.written.items() if written.is_whole}
    reader.facts.parts = reader.facts.writes - whole
    reader.facts.limits = [IndexLimit(terms, *interval) for terms, interval in reader.limits.items()]
    return reader.facts


@dataclass(slots=True)
class Written:
    """The boxes of a node that have not been written so far, which do not overlap."""

    missing: list[Box]

    @staticmethod
    def of(sizes: Sequence[int]) -> Written:
        """Nothing yet of a node of these sizes."""
        return Written([tuple((0, size) for size in sizes)] if all(sizes) else [])

    @property
    def is_whole(self) -> bool:
        return not self.missing

    def copy(self) -> Written:
        return Written(list(self.missing))

    def add(self, box: Box) -> None:
        self.missing = [rest for part in self.missing for rest in without(part, box)]

    def has(self, box: Box) -> bool:
        """Whether all cells of a box have been written."""
        return not any(overlap(part, box) for part in self.missing)


class _Reader:
    """Reads the nests of a function in the order in which they run.

    `labels` are those of the nodes that keep their values between runs of the routine; `repeated` are the
    ranges of the loops that the function is the body of.
    """

    def __init__(
        self, func: FuncOp, labels: Mapping[SSAValue, str], repeated: dict[str, int] | None = None
    ) -> None:
        self.labels = labels
        self.repeated = repeated or {}
        self.ranges = {name: size for name, size in func.ranges.items() if name not in self.repeated}
        self.facts = RoutineFacts()
        self.written: dict[str, Written] = {}
        self.limits: dict[Terms, tuple[int, int]] = {}
        self.limited: set[int] = set()
        """The accesses of which the limits are known, by `id`."""
        self.boxes: dict[int, Box] = {}
        """The boxes that loads reach, by the `id` of these."""
        self.stored: list[Stored] = []
        """The stores that run at least once."""

    def visit(self, func: FuncOp) -> None:
        for step in ungrouped_steps(func):
            if isinstance(step, RepeatOp):
                self.visit_repeat(step)
            elif isinstance(step, CollectiveOp):
                self.visit_collective(step)
            else:
                self.visit_nest(step)

    def visit_repeat(self, repeat: RepeatOp) -> None:
        """Reads a body for one value of its index, and then notes what all values together write."""
        if repeat.flag is not None:
            self.read(repeat.flag)
        if not repeat.count.data:
            return
        body, bound = repeat.func, repeat.bound
        labels: dict[SSAValue, str] = {}
        for node in nodes(body):
            outer = bound.get(node.label.data)
            if outer is not None and outer in self.labels:
                labels[node.result] = self.labels[outer]
        index, count = repeat.index.data, repeat.count.data
        reader = _Reader(body, labels, {**self.repeated, index: count})
        reader.facts, reader.limits = self.facts, self.limits
        reader.written = {label: written.copy() for label, written in self.written.items()}
        reader.visit(body)
        if repeat.flag is None:
            self.store(
                [
                    (label, store, sizes | {index: count} if index in names_in(store.indices.data) else sizes)
                    for label, store, sizes in reader.stored
                ]
            )

    def visit_collective(self, collective: CollectiveOp) -> None:
        """It reads all of the source, and writes all of the target."""
        for node in collective.read:
            self.read(node)
        for node in collective.written:
            label = self.labels.get(node)
            if label is None:
                continue
            sizes = memref_shape(node)
            self.facts.writes.add(label)
            self.written.setdefault(label, Written.of(sizes)).add(tuple((0, size) for size in sizes))

    def visit_nest(self, nest: NestOp) -> None:
        stored: list[tuple[str, StoreOp]] = []
        for op, node in touches(nest):
            # Nests whose bodies are not made yet have the accesses of one pattern.
            if id(op) not in self.limited:
                self.limited.add(id(op))
                self.limit(op)
            label = self.labels.get(node)
            if label is None:
                continue
            if isinstance(op, StoreOp):
                self.facts.writes.add(label)
                stored.append((label, op))
            else:
                self.read(node, self.boxes.get(id(op)) or self.loaded(op))
        if stored:
            around = scope_sizes(nest) | dict(nest.space.data)
            self.store([(label, store, around) for label, store in stored])

    def read(self, node: SSAValue, box: Box | None = None) -> None:
        """Notes that the cells of a box are read, or all of a node."""
        label = self.labels.get(node)
        if label is None:
            return
        written = self.written.get(label)
        if written is None or not (written.is_whole if box is None else written.has(box)):
            self.facts.reads.add(label)

    def loaded(self, load: LoadOp) -> Box:
        """A box around the cells that a load reaches."""
        sizes = scope_sizes(load) | position_sizes(load) | self.repeated
        box = self.boxes[id(load)] = tuple(
            (0, size) if extremes is None else (extremes[0], extremes[1] - extremes[0] + 1)
            for size, extremes in zip(
                memref_shape(load.node), (index.extremes(sizes) for index in load.indices.data), strict=True
            )
        )
        return box

    def store(self, stored: Sequence[Stored]) -> None:
        self.stored += stored
        for label, store, sizes in stored:
            for box in boxes_of(store.indices.data, sizes):
                self.written.setdefault(label, Written.of(memref_shape(store.node))).add(box)

    def limit(self, op: LoadOp | StoreOp) -> None:
        """Reads off the values of static indices for which an access stays inside its axes."""
        if not any(name in self.ranges for index in op.indices.data for name in index.names):
            return
        if isinstance(declaration(op.node).parent_op(), GroupOp):
            return
        sizes = scope_sizes(op) | position_sizes(op) | self.repeated
        if 0 in sizes.values():
            return
        for index, size in zip(op.indices.data, memref_shape(op.node), strict=True):
            own = Linear.of({name: c for name, c in index.terms if name in self.ranges})
            others = index + own * -1
            extremes = others.extremes(sizes)
            if own.terms and extremes is not None:
                self.bound(own.terms, -extremes[0], size - 1 - extremes[1])

    def bound(self, terms: Terms, least: int, greatest: int) -> None:
        """Notes that a sum of static indices is in an interval, which may be empty."""
        if len(terms) == 1:
            ((name, coefficient),) = terms
            ends = (least, greatest) if coefficient > 0 else (-greatest, -least)
            terms, least, greatest = (
                ((name, 1),),
                -(-ends[0] // abs(coefficient)),
                ends[1] // abs(coefficient),
            )
        known = self.limits.get(terms, (least, greatest))
        self.limits[terms] = (max(least, known[0]), min(greatest, known[1]))
