"""Buckets of gathers: small parts, as of parameters that ranks divide, are exchanged with the first of them.

After the flat parameters of Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel"
(2023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple

from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects import assign
from ocannl.dialects.index.memref import element_bytes, element_type, memref_shape
from ocannl.dialects.ir.origins import union
from ocannl.dialects.records import dataclass
from ocannl.lowering.buckets import Declare, accesses, assigned, in_rows, place, read_at
from ocannl.lowering.collectives import FEW_BYTES
from ocannl.passes.analysis.projection import Projection

# So many steps that compute what is gathered, as of parameters in another precision, run earlier with it.
MOST_MOVED = 2


@dataclass(frozen=True)
class SmallGather:
    """A gather of few bytes: its exchange, and the steps that read its rows, if these are not the result."""

    exchange: assign.CollectiveOp
    unpacking: tuple[assign.AccumOp, ...]
    layer: int | None = None
    """The layer to which it belongs, of a routine with equal layers: their exchanges stay apart."""

    @staticmethod
    def of(steps: Sequence[Operation], layer: int | None = None) -> list[SmallGather]:
        """The small gather that the steps of a collective are, if they are one."""
        match steps:
            case [assign.CollectiveOp() as exchange, *unpacking] if exchange.kind.data == "all_gather":
                target = exchange.arrays[0]
                reading = tuple(op for op in unpacking if isinstance(op, assign.AccumOp))
                found = SmallGather(exchange, reading, layer)
                few = math.prod(memref_shape(target)) * element_bytes(target) < FEW_BYTES
                return [found] if few and len(found.unpacking) == len(unpacking) else []
            case _:
                return []

    @property
    def source(self) -> SSAValue:
        return self.exchange.arrays[1]

    @property
    def target(self) -> SSAValue:
        return self.exchange.arrays[0]

    @property
    def name(self) -> str:
        result = self.unpacking[0].lhs if self.unpacking else self.target
        assert isinstance(result.owner, assign.NodeOp)
        return result.name_hint or result.owner.label.data

    @property
    def sizes(self) -> tuple[int, ...]:
        """Those of a part."""
        return memref_shape(self.source)

    @property
    def ranks(self) -> int:
        return math.prod(memref_shape(self.target)) // max(1, math.prod(self.sizes))

    @property
    def kind(self) -> tuple[str, Attribute]:
        """Gathers of one kind can share an exchange."""
        return self.exchange.mesh.data, element_type(self.source)


class Placed(NamedTuple):
    """A step by its number in the old order, with the nodes that it reads and writes."""

    at: int
    op: Operation
    read: set[SSAValue]
    written: set[SSAValue]


@dataclass
class Bucket:
    """Gathers that are exchanged at the place of the first, and the steps since that."""

    first: int
    gathers: list[SmallGather]
    moved: list[int] = field(default_factory=list[int])
    """The steps that run before the exchange, as they compute what is gathered."""
    since: list[Placed] = field(default_factory=list["Placed"])
    """The others since the first, which is among them."""

    @property
    def layer(self) -> int | None:
        return self.gathers[0].layer

    @property
    def sources(self) -> dict[SSAValue, SmallGather]:
        """The nodes that are exchanged, each once."""
        found: dict[SSAValue, SmallGather] = {}
        for each in self.gathers:
            found.setdefault(each.source, each)
        return found

    def needed(self, each: SmallGather) -> list[int] | None:
        """The steps that would run earlier, if this gather joined the bucket; None where that cannot be."""
        sources = {*self.sources, each.source}
        if sum(math.prod(memref_shape(s)) * element_bytes(s) for s in sources) * each.ranks >= FEW_BYTES:
            return None
        found, needs, reads, writes = list[int](), {each.source}, {each.source}, set[SSAValue]()
        for at, op, read, written in reversed(self.since):
            if not needs.isdisjoint(written):
                if not isinstance(op, assign.AccumOp):
                    return None
                found.insert(0, at)
                needs |= read
                reads |= read
                writes |= written
            elif not (written.isdisjoint(reads | writes) and read.isdisjoint(writes)):
                return None
        is_free = writes.isdisjoint(self.sources)
        return found if len(found) <= MOST_MOVED and is_free else None

    def add(self, each: SmallGather, moved: Sequence[int]) -> None:
        self.gathers.append(each)
        self.moved += moved
        self.since = [own for own in self.since if own.at not in moved]


@dataclass
class Gathering:
    """The steps of a routine, in which small gathers share exchanges: a bucket stands where its first gather
    was, and others are read where they were, as long as nothing between writes what is gathered.
    """

    declare: Declare
    taken: frozenset[str]
    buckets: list[Bucket] = field(default_factory=list[Bucket])
    moved: set[int] = field(default_factory=set[int])
    """The steps that run earlier, with the first gather of some bucket."""

    def run(self, code: Sequence[Operation], gathers: Sequence[SmallGather]) -> list[Operation]:
        small: dict[Operation, SmallGather] = {each.exchange: each for each in gathers}
        last: dict[tuple[str, Attribute], Bucket] = {}
        for at, op in enumerate(code):
            if isinstance(op, assign.CollectiveOp) and op.message is not None:
                last.clear()  # it keeps its place among exchanges
            if op in small:
                self._join(small[op], at, last)
            if last:
                placed = Placed(at, op, *accesses(op))
                for bucket in last.values():
                    bucket.since.append(placed)
        places: list[list[Operation]] = [[op] for op in code]
        for bucket in self.buckets:
            if len(bucket.gathers) > 1:
                self._place(bucket, places, {op: at for at, op in enumerate(code)})
        return [op for steps in places for op in steps]

    def _join(self, each: SmallGather, at: int, last: dict[tuple[str, Attribute], Bucket]) -> None:
        """Adds a gather to the last bucket of its kind, or begins another one."""
        bucket = last.get(each.kind)
        moved = None if bucket is None or bucket.layer != each.layer else bucket.needed(each)
        if bucket is None or moved is None or not self.moved.isdisjoint(moved):
            last[each.kind] = Bucket(at, [each])
            self.buckets.append(last[each.kind])
        else:
            bucket.add(each, moved)
            self.moved.update(moved)

    def _place(self, bucket: Bucket, places: list[list[Operation]], numbers: dict[Operation, int]) -> None:
        first, location = bucket.gathers[0], union(*(each.exchange.location for each in bucket.gathers))
        element = element_type(first.source)
        starts, count = dict[SSAValue, int](), 0
        for source in bucket.sources:
            starts[source] = count
            count += math.prod(memref_shape(source))
        packed = self.declare(f"{first.name}_bucket", element, (count,), location)
        rows = self.declare(f"{first.name}_bucket_rows", element, (first.ranks, count), location)
        names = list(dict.fromkeys(each.name for each in bucket.gathers))
        exchange = assign.CollectiveOp("all_gather", [rows, packed], first.kind[0], gathers=names)
        exchange.location = location
        before = [step for at in sorted(bucket.moved) for step in places[at]]
        for at in bucket.moved:
            places[at] = []
        packing = [self._packed(each, packed, starts[source]) for source, each in bucket.sources.items()]
        for each in bucket.gathers:
            places[numbers[each.exchange]] = self._read(each, rows, starts[each.source])
        places[bucket.first] = [*before, *packing, exchange, *places[bucket.first]]
        for each in bucket.gathers:
            each.exchange.erase()

    def _packed(self, each: SmallGather, packed: SSAValue, start: int) -> Operation:
        projection = Projection(self.taken)
        cells = tuple([projection.variable(size, "i") for size in each.sizes])
        at = (place(cells, each.sizes, start),)
        return assigned(packed, at, each.source, cells, projection, each.exchange)

    def _read(self, each: SmallGather, rows: SSAValue, start: int) -> list[Operation]:
        """Lets a gather read its rows from the bucket; the steps that are new."""
        for op in each.unpacking:
            read_at(op, each.sizes, rows, start)
        if each.unpacking:
            return []
        projection = Projection(self.taken)
        row = projection.variable(each.ranks, "r")
        cells = [projection.variable(size, "i") for size in each.sizes]
        at = in_rows(memref_shape(each.target), each.sizes, row, cells)
        read = (row, place(cells, each.sizes, start))
        return [assigned(each.target, at, rows, read, projection, each.exchange)]
