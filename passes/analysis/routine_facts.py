"""The interface of a routine: the nodes that it reads before it writes them, those that it writes, and bounds
of its static indices.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from ocannl.dialects.assign import OWN_MEMORY
from ocannl.dialects.index.images import Box, box_of, fill
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.loops.values import position_sizes
from ocannl.passes.analysis.nests import accesses, declaration, nests, nodes


@dataclass
class RoutineFacts:
    """Labels of nodes that keep their values between runs: `reads` are needed from before a run, `writes` are
    set by it. `limits` are the greatest values of static indices.
    """

    reads: set[str] = field(default_factory=set[str])
    writes: set[str] = field(default_factory=set[str])
    limits: dict[str, int] = field(default_factory=dict[str, int])


def routine_facts(func: FuncOp) -> RoutineFacts:
    reader = _Reader(func)
    for nest in nests(func):
        reader.visit(nest)
    return reader.facts


@dataclass(slots=True)
class Written:
    """The boxes of a node that have been written so far, and whether they cover all of it."""

    boxes: list[Box] = field(default_factory=list[Box])
    is_whole: bool = False

    def add(self, box: Box, sizes: tuple[int, ...]) -> None:
        if box not in self.boxes:
            self.boxes.append(box)
            self.is_whole = self.is_whole or fill([box], sizes) or fill(self.boxes, sizes)


class _Reader:
    """Reads the nests of a function in the order in which they run."""

    def __init__(self, func: FuncOp) -> None:
        self.ranges = func.ranges
        self.facts = RoutineFacts()
        self.written: dict[str, Written] = {}
        self.labels: dict[SSAValue, str] = {
            n.result: n.label.data for n in nodes(func) if n.mode.data in OWN_MEMORY
        }
        """Of the nodes that keep their values between runs."""

    def visit(self, nest: NestOp) -> None:
        stored: list[tuple[str, StoreOp]] = []
        for op in accesses(nest):
            self.limit(op)
            label = self.labels.get(op.node)
            if label is None:
                continue
            if isinstance(op, StoreOp):
                self.facts.writes.add(label)
                stored.append((label, op))
            elif label not in self.written or not self.written[label].is_whole:
                self.facts.reads.add(label)
        if stored:
            around = scope_sizes(nest) | dict(nest.space.data)
            for label, store in stored:
                box = box_of(store.indices.data, around)
                if box is not None:
                    self.written.setdefault(label, Written()).add(box, memref_shape(store.node))

    def limit(self, op: LoadOp | StoreOp) -> None:
        """Lowers the greatest values of static indices to those with which an access
        stays inside its axes.
        """
        for axis, index in enumerate(op.indices.data):
            for name, coefficient in index.terms:
                if name in self.ranges and coefficient > 0:
                    self.limit_index(op, axis, name, coefficient)

    def limit_index(self, op: LoadOp | StoreOp, axis: int, name: str, coefficient: int) -> None:
        if isinstance(declaration(op.node).parent_op(), GroupOp):
            return
        others = op.indices.data[axis] + Linear.var(name) * -coefficient
        extremes = others.extremes(scope_sizes(op) | position_sizes(op))
        if extremes is not None:
            limit = (memref_shape(op.node)[axis] - 1 - extremes[1]) // coefficient
            self.facts.limits[name] = min(limit, self.facts.limits.get(name, limit))
