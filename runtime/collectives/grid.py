"""The grid of ranks, and the part of an array that each one has."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.index.splits import SplitAxis
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import STAGE

Array = NDArray[Any]


@dataclass(frozen=True)
class Grid:
    """Ranks in a grid of named axes. The last axis varies fastest."""

    sizes: Mapping[str, int]

    @property
    def ranks(self) -> int:
        return math.prod(self.sizes.values())

    def place(self, rank: int) -> dict[str, int]:
        """The coordinates of a rank, by axis."""
        found: dict[str, int] = {}
        for name in reversed([*self.sizes]):
            rank, found[name] = divmod(rank, self.sizes[name])
        return {name: found[name] for name in self.sizes}

    def holds(self, rank: int, stages: Collection[int]) -> bool:
        """Whether a rank is of one of some stages; `()` are all of them."""
        return not stages or self.place(rank)[STAGE] in stages

    def group(self, rank: int, axis: str) -> tuple[int, ...]:
        """The ranks along an axis through a rank, in order."""
        names = [*self.sizes]
        step = math.prod(self.sizes[name] for name in names[names.index(axis) + 1 :])
        first = rank - self.place(rank)[axis] * step
        return tuple(first + step * k for k in range(self.sizes[axis]))

    def part_sizes(self, sizes: Sequence[int], splits: Iterable[SplitAxis]) -> tuple[int, ...]:
        """The sizes of each rank's part of an array."""
        found = [*sizes]
        for split in splits:
            found[split.axis] = -(-split.size // self.sizes[split.mesh])
        return tuple(found)

    def cut(self, whole: Array, splits: Sequence[SplitAxis], rank: int) -> Array:
        """A rank's part of an array; what is beyond the array is 0."""
        part = np.zeros(self.part_sizes(whole.shape, splits), whole.dtype)
        inside, at = self.places(whole.shape, splits, rank)
        part[inside] = whole[at]
        return part

    def joined(
        self,
        parts: Sequence[Array],
        splits: Sequence[SplitAxis],
        sizes: Sequence[int],
        stages: Collection[int] = (),
    ) -> Array:
        """The array of which these are the parts of all ranks, in order, or of those of some stages."""
        whole = np.empty(tuple(sizes), parts[0].dtype)
        for rank, part in enumerate(parts):
            if not self.holds(rank, stages):
                continue
            inside, at = self.places(sizes, splits, rank)
            whole[at] = part[inside]
        return whole

    def places(
        self, sizes: Sequence[int], splits: Iterable[SplitAxis], rank: int
    ) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Where a part is real, in itself and in the whole."""
        place = self.place(rank)
        first, real = [0] * len(sizes), [*sizes]
        for split in splits:
            part, axis = -(-split.size // self.sizes[split.mesh]), split.axis
            start = place[split.mesh] * part
            first[axis] += start
            real[axis] = max(0, min(part, real[axis] - start))
        inside = tuple([slice(0, count) for count in real])
        return inside, tuple([slice(f, f + count) for f, count in zip(first, real, strict=True)])
