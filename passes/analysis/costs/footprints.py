"""The bytes of nodes that accesses and nests touch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

from xdsl.ir import SSAValue

from ocannl.dialects.index.linear import Map
from ocannl.dialects.index.memref import element_bytes, memref_shape
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.values import address_of, position_sizes
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.nests import names_in, operations

# Cycles to start a nest for one block of rows, and a contraction, which fills tiles first.
STARTED_NEST, STARTED_CONTRACTION = 30.0, 400.0


@dataclass(frozen=True, slots=True)
class AccessFootprint:
    """An access: its index map, its strides in bytes along the variables, the bytes that it touches at one
    point, and at most: those of its node.

    An access at positions that are found at run time may touch everything along their axes.
    """

    indices: Map
    strides: dict[str, int]
    bytes: int
    is_reduced: bool
    most: int

    @staticmethod
    def of(op: LoadOp | StoreOp, reduced: set[str]) -> AccessFootprint:
        indices, element = op.indices.data, element_bytes(op.node)
        strides = {name: step * element for name, step in address_of(op).terms}
        found = position_sizes(op) if op.positions else {}
        # Where the array has no elements, it has no strides.
        reach = sum(strides.pop(name, 0) * (size - 1) for name, size in found.items())
        most = element * math.prod(memref_shape(op.node))
        is_reduced = not names_in(indices).isdisjoint(reduced)
        return AccessFootprint(indices, strides, element + reach, is_reduced, most)

    def span(self, extents: Mapping[str, int]) -> int:
        """The cache footprint in bytes while variables run over the given extents, with the gaps between
        pieces that are shorter than a cache line.
        """
        run = self.bytes
        for stride, size in sorted(
            (abs(s), extents[name]) for name, s in self.strides.items() if name in extents
        ):
            run = run * size if run >= LINE and stride > run else run + stride * (size - 1)
        return run

    def size(self, extents: Mapping[str, int]) -> int:
        """The bytes touched while variables run over the given extents."""
        return min(self.most, self.bytes * math.prod([extents.get(name, 1) for name in self.strides]))


@dataclass
class NestFootprint:
    """A nest as a candidate for fusion by rows: its variables, reduced ones among them, and its accesses by
    node.

    `summed` is its only reduction, if it has one.
    """

    nest: NestOp
    sizes: dict[str, int]
    places: dict[SSAValue, list[AccessFootprint]]
    written: set[SSAValue]
    summed: ReduceOp | None

    @staticmethod
    def of(nest: NestOp) -> NestFootprint:
        sizes, reduced = dict(nest.space.data), set[str]()
        places: dict[SSAValue, list[AccessFootprint]] = {}
        written: set[SSAValue] = set()
        reductions: list[ReduceOp] = []
        for op in operations(nest.body.block):
            if isinstance(op, ReduceOp):
                reductions.append(op)
                sizes.update(op.space.data)
                reduced.update(op.space.names)
            elif isinstance(op, LoadOp | StoreOp):
                place = AccessFootprint.of(op, reduced)
                places.setdefault(op.node, []).append(place)
                if isinstance(op, StoreOp):
                    written.add(op.node)
        view = NestFootprint(nest, sizes, places, written, None)
        if len(reductions) == 1:
            view.summed = reductions[0]
        return view

    @property
    def is_streamed(self) -> bool:
        """Whether some access of the reductions has no temporal reuse: it touches new data at every point."""
        moving = {name for place in self.places_reduced for name in place.strides}
        return any(moving <= place.strides.keys() for place in self.places_reduced)

    def conflicts(self, other: NestFootprint) -> bool:
        """Whether one of two nests writes a node that the other touches."""
        return not (self.written.isdisjoint(other.places) and other.written.isdisjoint(self.places))

    @cached_property
    def reach(self) -> dict[SSAValue, int]:
        """The bytes of each node that the nest touches."""
        return {node: max(p.size(self.sizes) for p in places) for node, places in self.places.items()}

    @cached_property
    def all_places(self) -> list[AccessFootprint]:
        return [place for places in self.places.values() for place in places]

    @cached_property
    def places_reduced(self) -> list[AccessFootprint]:
        return [place for place in self.all_places if place.is_reduced]

    @cached_property
    def is_contraction(self) -> bool:
        return bool(self.places_reduced) and not self.is_streamed

    @property
    def started(self) -> float:
        return STARTED_CONTRACTION if self.is_contraction else STARTED_NEST

    @cached_property
    def counted(self) -> set[str]:
        """The variables whose points count as work: for a contraction those of the nest, else all."""
        return set(self.nest.space.names if self.is_contraction else self.sizes)

    @cached_property
    def free(self) -> set[str]:
        """The variables that may be rows: those of the nest and of a reduction that can be split, except the
        innermost axis of an array, which vectors lie along, and those along which a scatter may come to one
        cell again.
        """
        clashing = self.nest.clashing
        own = {name for name, size in self.nest.space.data if size > 1 and name not in clashing}
        reduced = set(self.summed.space.names) if self.summed is not None else set[str]()
        return {name for name in own | reduced if not self.is_contiguous(name)}

    def is_contiguous(self, name: str) -> bool:
        """Whether a variable moves along the innermost axis of an array that is at least as large as all in
        which it moves along others.
        """
        arrays = [(place.size(self.sizes), place) for place in self.all_places if len(place.strides) > 1]
        along = [
            (size, name == min(p.strides, key=lambda n: abs(p.strides[n])))
            for size, p in arrays
            if name in p.strides
        ]
        innermost = max((size for size, is_innermost in along if is_innermost), default=0)
        return innermost > 0 and innermost >= max(
            (size for size, is_innermost in along if not is_innermost), default=0
        )
