"""What a routine needs from outside and leaves behind: nodes it reads first, nodes it writes, limits of
its indices.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ocannl.dialects.assign import OWN_MEMORY, memref_shape
from ocannl.dialects.linear import Linear
from ocannl.dialects.loop_values import position_sizes
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.scopes import scope_sizes
from ocannl.passes.images import Box, box_of, fill
from ocannl.passes.nests import declaration, names_in, nests


@dataclass
class RoutineFacts:
    """By label of a node that keeps its values between runs: `reads` are needed from before the run, `writes`
    are set by it; `limits` bound static indices.
    """

    reads: set[str] = field(default_factory=set[str])
    writes: set[str] = field(default_factory=set[str])
    limits: dict[str, int] = field(default_factory=dict[str, int])


def routine_facts(func: FuncOp) -> RoutineFacts:
    facts, written = RoutineFacts(), dict[str, Written]()
    for nest in nests(func):
        _visit(nest, facts, written)
    return facts


@dataclass(slots=True)
class Written:
    """The boxes of a node that have been written so far, and whether they are all of it."""

    boxes: list[Box] = field(default_factory=list[Box])
    is_whole: bool = False

    def add(self, box: Box, sizes: tuple[int, ...]) -> None:
        if box not in self.boxes:
            self.boxes.append(box)
            self.is_whole = self.is_whole or fill([box], sizes) or fill(self.boxes, sizes)


def _visit(nest: NestOp, facts: RoutineFacts, written: dict[str, Written]) -> None:
    around = scope_sizes(nest) | dict(nest.space.data)
    sizes = dict(around)
    stores: list[StoreOp] = []
    for op in nest.walk():
        if isinstance(op, ReduceOp):
            sizes.update(op.space.data)
        if not isinstance(op, LoadOp | StoreOp):
            continue
        node = declaration(op.node)
        if not names_in(op.indices.data) <= sizes.keys() and not isinstance(node.parent_op(), GroupOp):
            _limit(op, sizes | position_sizes(op), facts)
        if node.mode.data not in OWN_MEMORY:
            continue
        label = node.label.data
        if isinstance(op, LoadOp):
            if label not in written or not written[label].is_whole:
                facts.reads.add(label)
        else:
            facts.writes.add(label)
            stores.append(op)
    for store in stores:
        box = box_of(store.indices.data, around)
        if box is not None:
            written.setdefault(_label(store), Written()).add(box, memref_shape(store.node))


def _label(op: LoadOp | StoreOp) -> str:
    return declaration(op.node).label.data


def _limit(op: LoadOp | StoreOp, sizes: dict[str, int], facts: RoutineFacts) -> None:
    """The greatest value of a static index for which the access stays inside its axis."""
    for index, size in zip(op.indices.data, memref_shape(op.node), strict=True):
        for name, coefficient in index.terms:
            others = index + Linear.var(name) * -coefficient
            extremes = others.extremes(sizes)
            if name in sizes or coefficient <= 0 or extremes is None:
                continue
            limit = (size - 1 - extremes[1]) // coefficient
            facts.limits[name] = min(limit, facts.limits.get(name, limit))
