"""Index maps of which one variable is divided among ranks: what is split along it, and what is read whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ocannl.dialects.index.linear import Linear, Map
from ocannl.dialects.records import dataclass
from ocannl.dialects.texpr.collectives import part_of
from ocannl.passes.analysis.infer_placements.problem import WHOLE, Split


@dataclass(frozen=True)
class Divided:
    """A variable of a space that is divided among ranks: each has `local` of its values, from
    `local * rank` on.
    """

    name: str
    space: Mapping[str, int]
    ranks: int
    rank: str

    @property
    def size(self) -> int:
        return self.space[self.name]

    @property
    def local(self) -> int:
        return part_of(self.size, self.ranks)

    @property
    def is_even(self) -> bool:
        return self.size % self.ranks == 0

    @property
    def start(self) -> Linear:
        """The first of a rank's values."""
        return Linear.var(self.rank) * self.local

    def split_of(self, indices: Sequence[Linear], sizes: Sequence[int]) -> Split | None:
        """The axis along which an array is split that is read or written at a map, and whole where the
        variable is another part of the map. None where parts of the size do not fit to it.
        """
        found = [axis for axis, index in enumerate(indices) if index.coefficient(self.name)]
        if len(found) == 1 and self._is_aligned(indices[found[0]], sizes[found[0]]):
            return found[0]
        return WHOLE if not found or self.is_even else None

    def _is_aligned(self, index: Linear, size: int) -> bool:
        """Whether the parts of an axis are what an index reaches with parts of the variable: that is all of
        the index, or its outermost digit.
        """
        coefficient, extent = index.coefficient(self.name), 1
        if index.variable == self.name:
            return size == self.size
        if index.constant or not self.is_even or any(name not in self.space for name in index.names):
            return False
        for name, own in sorted(index.terms, key=lambda term: term[1]):
            if name != self.name:
                extent += own * (self.space[name] - 1)
                if own > extent or own <= 0:
                    return False
        return coefficient >= extent and coefficient * self.size == size

    def moved(self, indices: Map, split: Split) -> Map:
        """A map in terms of a rank's own values: a part of an axis is indexed as the axis was, what is whole
        or partial from where the rank begins.
        """
        if split >= 0:
            return indices
        return tuple(
            index + self.start * index.coefficient(self.name) if index.coefficient(self.name) else index
            for index in indices
        )
