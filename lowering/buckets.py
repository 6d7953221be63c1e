"""Buckets of sums: small ones over ranks that are ready before one of them is needed are exchanged at once.

After Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training" (2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import accumulate
from typing import TypeAlias

from xdsl.dialects.builtin import ArrayAttr, LocationAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects import assign
from ocannl.dialects.index.linear import Linear, Map, MapAttr
from ocannl.dialects.index.memref import element_bytes, element_type, memref_shape
from ocannl.dialects.ir.origins import union
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import Arg
from ocannl.lowering.collectives import FEW_BYTES
from ocannl.passes.analysis.projection import Projection

Declare: TypeAlias = Callable[[str, Attribute, tuple[int, ...], LocationAttr], SSAValue]
"""Declares a node by its name, the type of its numbers, its sizes, and where it comes from."""


@dataclass(frozen=True)
class SmallSum:
    """The last two steps of a sum over ranks: an exchange of terms, of which each adds up all or its part."""

    gather: assign.CollectiveOp
    sum: assign.AccumOp
    layer: int | None = None
    """The layer to which it belongs, of a routine with equal layers: their exchanges stay apart."""

    @staticmethod
    def of(steps: Sequence[Operation], layer: int | None = None) -> list[SmallSum]:
        """The small sum that the steps of a collective are, if they are one."""
        match steps:
            case [assign.CollectiveOp() as gather, assign.AccumOp(accum=StringAttr()) as sum] if (
                gather.kind.data == "all_gather"
            ):
                return [SmallSum(gather, sum, layer)]
            case [*_, assign.CollectiveOp() as scatter, assign.AccumOp(accum=StringAttr()) as sum]:
                found = SmallSum(scatter, sum, layer)
                return [found] if found.bytes < FEW_BYTES else []
            case _:
                return []

    @property
    def source(self) -> SSAValue:
        return self.gather.arrays[1]

    @property
    def rows(self) -> SSAValue:
        return self.gather.arrays[0]

    @property
    def name(self) -> str:
        node = self.sum.lhs.owner
        assert isinstance(node, assign.NodeOp)
        return self.sum.lhs.name_hint or node.label.data

    @property
    def ranks(self) -> int:
        return memref_shape(self.rows)[0]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Those of the sum on a rank."""
        return memref_shape(self.rows)[1:]

    @property
    def cells(self) -> int:
        return math.prod(self.sizes)

    @property
    def bytes(self) -> int:
        """Those of the terms that a rank adds up."""
        return self.ranks * self.cells * element_bytes(self.source)

    @property
    def kind(self) -> tuple[str, str, Attribute, int | None]:
        """Sums of one kind can share an exchange."""
        return self.gather.kind.data, self.gather.mesh.data, element_type(self.source), self.layer


@dataclass
class Span:
    """Steps from a first small sum on: those that have to wait for its exchange, and those that need not."""

    steps: list[Operation] = field(default_factory=list[Operation])
    """All of them, as they were."""
    gathers: list[SmallSum] = field(default_factory=list[SmallSum])
    ahead: list[Operation] = field(default_factory=list[Operation])
    waiting: list[Operation] = field(default_factory=list[Operation])
    since: list[tuple[Operation, bool]] = field(default_factory=list[tuple[Operation, bool]])
    """Those after the last sum, and whether each waits: they stay where they are."""
    read: set[SSAValue] = field(default_factory=set[SSAValue])
    """The nodes that gathers and waiting steps read, and those that they write."""
    written: set[SSAValue] = field(default_factory=set[SSAValue])

    def gather(self, each: SmallSum) -> None:
        for op, waits in self.since:
            (self.waiting if waits else self.ahead).append(op)
        self.since.clear()
        self.gathers.append(each)
        self.steps.append(each.gather)
        self._note(each.gather)

    def add(self, op: Operation) -> None:
        waits = self.depends(op)
        if waits:
            self._note(op)
        self.since.append((op, waits))
        self.steps.append(op)

    def depends(self, op: Operation) -> bool:
        """Whether a step has to stay behind what waits."""
        read, written = accesses(op)
        return not (self.written.isdisjoint(read | written) and self.read.isdisjoint(written))

    def _note(self, op: Operation) -> None:
        read, written = accesses(op)
        self.read.update(read)
        self.written.update(written)


@dataclass
class Joining:
    """Orders the steps of a routine so that small sums are exchanged together: a sum waits for later ones,
    and so do the steps that need it. A bucket ends where a sum needs a result of the others in it, and at a
    message, which keeps its place among exchanges. Where no two sums meet, the order stays as it was.
    """

    declare: Declare
    taken: frozenset[str]
    steps: list[Operation] = field(default_factory=list[Operation])
    span: Span = field(default_factory=Span)

    def run(self, code: Sequence[Operation], sums: Sequence[SmallSum]) -> list[Operation]:
        small: dict[Operation, SmallSum] = {each.gather: each for each in sums}
        for op in code:
            is_message = isinstance(op, assign.CollectiveOp) and op.message is not None
            if is_message or (op in small and self.span.depends(op)):
                self.flush()
            if op in small:
                self.span.gather(small[op])
            elif self.span.gathers:
                self.span.add(op)
            else:
                self.steps.append(op)
        self.flush()
        return self.steps

    def flush(self) -> None:
        """Exchanges what waits, before the steps that depend on it."""
        span, self.span = self.span, Span()
        found = buckets(span.gathers)
        if all(len(bucket) == 1 for bucket in found):
            self.steps += span.steps
            return
        self.steps += span.ahead
        for bucket in found:
            self.steps += [bucket[0].gather] if len(bucket) == 1 else self.joined(bucket)
        self.steps += [*span.waiting, *(op for op, _ in span.since)]

    def joined(self, bucket: Sequence[SmallSum]) -> list[Operation]:
        """Packs what is summed, the largest in front, and exchanges it; the sums read it there."""
        ordered = sorted(bucket, key=lambda each: -each.bytes)
        first = ordered[0]
        count, element = sum(each.cells for each in bucket), element_type(first.source)
        location = union(*(each.gather.location for each in bucket))
        kind, all_rows = first.gather.kind.data, (first.ranks, count)
        given = (count,) if kind == "all_gather" else all_rows
        packed = self.declare(f"{first.name}_bucket", element, given, location)
        rows = self.declare(f"{first.name}_bucket_rows", element, all_rows, location)
        names, starts = [each.name for each in ordered], accumulate(each.cells for each in ordered)
        start_of = {each: start - each.cells for each, start in zip(ordered, starts, strict=True)}
        for each, start in start_of.items():
            read_at(each.sum, each.sizes, rows, start)
        steps = [self.copied(each, packed, start_of[each]) for each in bucket]
        steps.append(assign.CollectiveOp(kind, [rows, packed], first.gather.mesh.data, sums=names))
        steps[-1].location = location
        for each in bucket:
            each.gather.erase()
        return steps

    def copied(self, each: SmallSum, packed: SSAValue, start: int) -> Operation:
        projection = Projection(self.taken)
        rows = [projection.variable(each.ranks, "r")] if each.gather.kind.data == "all_to_all" else []
        cells = [projection.variable(size, "i") for size in each.sizes]
        read: Map = in_rows(memref_shape(each.source), each.sizes, rows[0], cells) if rows else (*cells,)
        at = (*rows, place(cells, each.sizes, start))
        return assigned(packed, at, each.source, read, projection, each.gather)


def read_at(op: assign.AccumOp, sizes: Sequence[int], rows: SSAValue, start: int) -> None:
    """Lets a step read rows, each of an array of these sizes, from those of a bucket."""
    row, *cells = op.maps[0]
    at: Map = (row, place(cells, sizes, start))
    op.operands = [op.lhs, rows]
    op.properties["rhs_maps"] = ArrayAttr([MapAttr(at)])


def in_rows(sizes: Sequence[int], part: Sequence[int], row: Linear, cells: Sequence[Linear]) -> Map:
    """The index of a cell of a row in a node of these sizes. The node either has an axis of rows in front, or
    the rows are its parts along one of its axes.
    """
    if len(sizes) > len(part):
        return (row, *cells)
    axis = next((k for k, pair in enumerate(zip(sizes, part, strict=True)) if pair[0] != pair[1]), 0)
    return (*cells[:axis], row * part[axis] + cells[axis], *cells[axis + 1 :])


def assigned(
    target: SSAValue, at: Map, source: SSAValue, read: Map, projection: Projection, origin: Operation
) -> assign.AccumOp:
    """A copy of cells of one node to some of another."""
    combination, space = Combination(Arg(0), (source,), (read,)), tuple(projection.space.items())
    copy = assign.AccumOp(target, at, combination, space, reset=False)
    copy.location = origin.location
    return copy


def place(cells: Sequence[Linear], sizes: Sequence[int], start: int) -> Linear:
    """The place of a cell in a bucket."""
    found = Linear()
    for cell, size in zip(cells, sizes, strict=True):
        found = found * size + cell
    return found + Linear((), start)


def buckets(gathers: Sequence[SmallSum]) -> list[list[SmallSum]]:
    """Sums of one kind together, up to the size at which it is better that each rank adds up a part."""
    found: list[list[SmallSum]] = []
    for each in gathers:
        for bucket in found:
            if bucket[0].kind == each.kind and sum(own.bytes for own in (*bucket, each)) < FEW_BYTES:
                bucket.append(each)
                break
        else:
            found.append([each])
    return found


def accesses(op: Operation) -> tuple[set[SSAValue], set[SSAValue]]:
    """The nodes that a step reads and writes, or may read and write."""
    match op:
        case assign.AccumOp():
            return {*op.inputs, op.lhs}, {op.lhs}
        case assign.RangeOp() | assign.UniformOp():
            return {*op.operands}, {op.lhs}
        case assign.CollectiveOp():
            return {*op.read}, {*op.written}
        case _:
            return {*op.operands}, {*op.operands}
