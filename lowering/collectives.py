"""The steps of collectives: exchanges of rows, and assignments that pack, unpack and accumulate them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

from ocannl.dialects import assign
from ocannl.dialects.index.linear import Linear, Map
from ocannl.dialects.index.memref import element_bytes, memref_shape
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.texpr.collectives import (
    AllGatherOp,
    AllReduceOp,
    AllToAllOp,
    CollectiveOp,
    ReduceScatterOp,
    part_of,
)
from ocannl.passes.analysis.projection import Projection

# Fewer bytes of all ranks together are gathered and summed by each: one message's latency is then more than
# the time of its bytes.
FEW_BYTES = 2**16

Fresh: TypeAlias = Callable[[str, tuple[int, ...]], SSAValue]


@dataclass
class CollectiveSteps:
    """The steps of one collective over a mesh axis; `fresh` declares a node by a suffix and its sizes.

    An all-reduce sends 2(n-1)/n of the bytes, which is optimal (Patarasuk and Yuan, "Bandwidth Optimal
    All-reduce Algorithms for Clusters of Workstations", 2009): the ranks' terms of a part meet on one rank,
    which accumulates them in a fixed order, and sums are gathered.
    """

    mesh: str
    ranks: int
    taken: Iterable[str]
    fresh: Fresh
    steps: list[Operation] = field(default_factory=list[Operation])

    def add(self, op: CollectiveOp, result: SSAValue, source: SSAValue) -> None:
        """Adds the steps that set the node of the result, given that of the operand."""
        match op:
            case AllReduceOp():
                self.all_reduce(result, source, op.accum.data)
            case ReduceScatterOp():
                self.reduce_scatter(result, source, op.accum.data, op.target.data)
            case AllGatherOp():
                self.all_gather(result, source, op.source.data)
            case AllToAllOp():
                self.unpack(result, self.swapped(source, op.target.data), op.source.data)
            case _:
                raise AssertionError(f"{op.name} is no collective")

    def all_reduce(self, result: SSAValue, source: SSAValue, accum: str) -> None:
        sizes = memref_shape(source)
        cells = math.prod(sizes)
        if not sizes or self.ranks * cells * element_bytes(source) < FEW_BYTES:
            rows = self.exchange("all_gather", source, (self.ranks, *sizes))
            self.accumulate(result, rows, accum)
        elif cells % self.ranks == 0:
            self.all_reduce_rows(result, source, accum, cells // self.ranks)
        else:
            axis = min(range(len(sizes)), key=lambda axis: part_of(sizes[axis], self.ranks) / sizes[axis])
            part = self.fresh("part", with_size(sizes, axis, part_of(sizes[axis], self.ranks)))
            self.reduce_scatter(part, source, accum, axis)
            self.all_gather(result, part, axis)

    def all_reduce_rows(self, result: SSAValue, source: SSAValue, accum: str, cells: int) -> None:
        """An all-reduce whose parts are `cells` neighbours in memory each, so that nothing is copied."""
        part = self.fresh("part", (cells,))
        self.accumulate(part, self.exchange("all_to_all", source, (self.ranks, cells)), accum)
        self.steps.append(assign.CollectiveOp("all_gather", [result, part], self.mesh))

    def reduce_scatter(self, result: SSAValue, source: SSAValue, accum: str, axis: int) -> None:
        self.accumulate(result, self.swapped(source, axis), accum)

    def all_gather(self, result: SSAValue, source: SSAValue, axis: int) -> None:
        if self.is_rows(memref_shape(result), axis):
            self.steps.append(assign.CollectiveOp("all_gather", [result, source], self.mesh))
        else:
            rows = self.exchange("all_gather", source, (self.ranks, *memref_shape(source)))
            self.unpack(result, rows, axis)

    def is_rows(self, sizes: Sequence[int], axis: int) -> bool:
        """Whether the parts of an axis follow each other in memory, all of one size."""
        return math.prod(sizes[:axis]) == 1 and sizes[axis] % self.ranks == 0

    def exchange(self, kind: str, source: SSAValue, sizes: tuple[int, ...]) -> SSAValue:
        target = self.fresh("rows", sizes)
        self.steps.append(assign.CollectiveOp(kind, [target, source], self.mesh))
        return target

    def swapped(self, source: SSAValue, axis: int) -> SSAValue:
        """Rows of what each rank has of this rank's part of an axis."""
        sizes = memref_shape(source)
        rows = (self.ranks, *with_size(sizes, axis, part_of(sizes[axis], self.ranks)))
        if not self.is_rows(sizes, axis):
            packed = self.fresh("packed", rows)
            self.copy_parts(packed, source, axis, packs=True)
            source = packed
        return self.exchange("all_to_all", source, rows)

    def unpack(self, result: SSAValue, rows: SSAValue, axis: int) -> None:
        """Sets an array to rows, one behind the other along an axis."""
        self.copy_parts(result, rows, axis, packs=False)

    def copy_parts(self, target: SSAValue, source: SSAValue, axis: int, *, packs: bool) -> None:
        """Copies an array to the rows of its parts along an axis, or back. What is beyond the array is 0."""
        rows, whole = (target, source) if packs else (source, target)
        sizes, part = memref_shape(whole), memref_shape(rows)[axis + 1]
        full, rest = divmod(sizes[axis], part)
        runs = [(Linear(), full, part), (Linear((), full), 1, rest)]
        copies = [run for run in runs if run[1] * run[2]]
        for number, (first, count, own) in enumerate(copies):
            projection = Projection(set(self.taken))
            row = projection.variable(count, "r") + first
            cells = [projection.variable(size, "i") for size in with_size(sizes, axis, own)]
            of_rows: Map = (row, *cells)
            of_whole: Map = (*cells[:axis], row * part + cells[axis], *cells[axis + 1 :])
            maps = (of_rows, of_whole) if packs else (of_whole, of_rows)
            covers = len(copies) == 1 or packs
            self.assign(target, maps[0], source, maps[1], projection, reset=covers and number == 0)

    def accumulate(self, result: SSAValue, rows: SSAValue, accum: str) -> None:
        """Accumulates rows, on all ranks in one order."""
        projection = Projection(set(self.taken))
        cells = tuple([projection.variable(size, "i") for size in memref_shape(result)])
        row = projection.variable(self.ranks, "r")
        self.assign(result, cells, rows, (row, *cells), projection, accum)

    def assign(
        self,
        target: SSAValue,
        at: Map,
        source: SSAValue,
        read: Map,
        projection: Projection,
        accum: str | None = None,
        *,
        reset: bool = True,
    ) -> None:
        combination, space = Combination(Arg(0), (source,), (read,)), tuple(projection.space.items())
        self.steps.append(assign.AccumOp(target, at, combination, space, accum, reset))


def with_size(sizes: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    return (*sizes[:axis], size, *sizes[axis + 1 :])
