"""Memory of arrays that the ranks of a mesh hold together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ocannl.dialects.index.splits import SplitAxis
from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.routine import STAGE
from ocannl.runtime.collectives.engine import Engine
from ocannl.runtime.collectives.grid import Grid
from ocannl.runtime.device import Memory

Splits = tuple[SplitAxis, ...]
Make = Callable[[tuple[int, ...], DTypeLike], Memory]


class MeshMemory:
    """An array as ranks hold it: each has its part, or the whole. It is placed when a routine first uses it;
    before, this process has the whole once.

    `shape` are the sizes of the whole; reading gives it on each rank, and writing sets it.
    """

    def __init__(
        self, engine: Engine, grid: Grid, makes: Sequence[Make], shape: tuple[int, ...], dtype: DTypeLike
    ) -> None:
        self.engine = engine
        self.grid = grid
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.what = "memory"
        """Whose it is, for messages."""
        self.splits: Splits = ()
        self.stages: tuple[int, ...] = ()
        """The stages whose ranks have it; none where all have."""
        self.parts: list[Memory] = []
        """Those of the ranks in this process, once it is placed."""
        self._makes = makes
        """The functions that make those of each rank in this process."""
        self._whole: NDArray[Any] | None = None
        """Its initial values, where they are not 0."""

    @property
    def address(self) -> int:
        """None: each rank has its own."""
        return 0

    def place(
        self, splits: Splits, what: str, stages: tuple[int, ...] = (), *, written: bool = False
    ) -> Sequence[Memory]:
        """The parts of the ranks of this process. Memory that no code writes can be placed again, for further
        stages that read it; else, raises `DeviceError` where another routine has placed it otherwise.
        """
        if self.parts and splits == self.splits and not self._is_held(stages, written):
            self._check_stages(stages, what, written)
            whole, held = self.read(), self.stages
            self.parts, self._whole = [], whole
            stages = tuple(sorted({*held, *stages})) if stages else ()
        if not self.parts:
            self.splits, self.stages = splits, stages
            sizes = self.grid.part_sizes(self.shape, splits)
            self.parts = [
                make(sizes if own else self._nothing, self.dtype)
                for make, own in zip(self._makes, self._holds, strict=True)
            ]
            if self._whole is not None:
                self._set_parts(self._whole)
                self._whole = None
        elif splits != self.splits:
            raise DeviceError(
                f"`{what}` is {_text(splits)} in this routine, but another one has it {_text(self.splits)}: "
                "`shard=` where it is made decides for all"
            )
        return self.parts

    @property
    def _holds(self) -> list[bool]:
        """Which ranks of this process have it, those of its stages."""
        return [self.grid.holds(rank, self.stages) for rank in self.engine.ranks]

    @property
    def _nothing(self) -> tuple[int, ...]:
        """The sizes of what other ranks have."""
        return (0,) * len(self.shape)

    def _is_held(self, stages: tuple[int, ...], written: bool) -> bool:
        """Whether the ranks of some stages have it, and if they write it no others."""
        if stages == self.stages or (not written and not self.stages):
            return True
        return not written and bool(stages) and {*stages} <= {*self.stages}

    def _check_stages(self, stages: tuple[int, ...], what: str, written: bool) -> None:
        if written:
            own, other = (
                f"of stages {found}" if found else "of all stages" for found in (stages, self.stages)
            )
            raise DeviceError(f"`{what}` is {own} in this routine, but another one has it as {other}")

    def _set_parts(self, whole: NDArray[Any]) -> None:
        for rank, part, holds in zip(self.engine.ranks, self.parts, self._holds, strict=True):
            if holds:
                part.write(self.grid.cut(whole, self.splits, rank))

    def read(self) -> NDArray[Any]:
        if not self.parts:
            return np.zeros(self.shape, self.dtype) if self._whole is None else self._whole.copy()
        if not self.splits and not self.stages:
            return self.parts[0].read()
        return self.joined([part.read() for part in self.parts])

    def read_apart(self) -> tuple[tuple[str, ...], NDArray[Any]]:
        """The whole array. Where ranks along some axes of the mesh have others, as terms of a sum, these
        axes, and the array of each, along its first axes.
        """
        if not self.parts:
            return (), self.read()
        all_parts = self.engine.all_parts(self._alike([part.read() for part in self.parts]))
        places = [self.grid.places(self.shape, self.splits, rank) for rank in range(self.grid.ranks)]
        real = [part[inside] for part, (inside, _) in zip(all_parts, places, strict=True)]
        axes = tuple([axis for axis in self._shared_axes if self._differ(real, axis)])
        found = np.zeros((*(self.grid.sizes[axis] for axis in axes), *self.shape), self.dtype)
        for rank, (part, (_, at)) in enumerate(zip(real, places, strict=True)):
            if self.grid.holds(rank, self.stages):
                place = self.grid.place(rank)
                found[(*(place[axis] for axis in axes), *at)] = part
        return axes, found

    @property
    def _shared_axes(self) -> list[str]:
        """The axes along which all ranks have the same part."""
        others = [split.mesh for split in self.splits]
        return [
            axis for axis in self.grid.sizes if axis not in others and not (axis == STAGE and self.stages)
        ]

    def _differ(self, parts: Sequence[NDArray[Any]], axis: str) -> bool:
        firsts = [parts[self.grid.group(rank, axis)[0]] for rank in range(self.grid.ranks)]
        return any(part.tobytes() != first.tobytes() for part, first in zip(parts, firsts, strict=True))

    def joined(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The whole array, given the part of each rank; all of them may have further axes in front."""
        if not self.splits and not self.stages:
            return parts[0].copy()
        outer = parts[0].shape[: parts[0].ndim - len(self.shape)]
        parts = self._alike(parts, outer)
        splits = [SplitAxis(split.axis + len(outer), split.size, split.mesh) for split in self.splits]
        return self.grid.joined(self.engine.all_parts(parts), splits, (*outer, *self.shape), self.stages)

    def _alike(self, parts: Sequence[NDArray[Any]], outer: tuple[int, ...] = ()) -> list[NDArray[Any]]:
        """Parts of the same sizes on all ranks, with zeros where a rank has none."""
        sizes = (*outer, *self.grid.part_sizes(self.shape, self.splits))
        return [
            part if holds else np.zeros(sizes, self.dtype)
            for part, holds in zip(parts, self._holds, strict=True)
        ]

    def shards(self) -> dict[int, tuple[slice, ...]]:
        """The place in the whole of each part that is not empty, by the lowest rank that has the part."""
        if (not self.splits and not self.stages) or 0 in self.shape:
            return {0: tuple([slice(0, size) for size in self.shape])}
        others = dict.fromkeys({*self.grid.sizes} - {split.mesh for split in self.splits}, 0)
        if self.stages:
            others[STAGE] = self.stages[0]
        found: dict[int, tuple[slice, ...]] = {}
        for rank in range(self.grid.ranks):
            place = self.grid.place(rank)
            _, at = self.grid.places(self.shape, self.splits, rank)
            if all(place[axis] == at for axis, at in others.items()) and all(
                ranged.start < ranged.stop for ranged in at
            ):
                found[rank] = at
        return found

    def shard(self, rank: int) -> NDArray[Any]:
        """The part of a rank of this process, as `shards` tells it."""
        if not self.parts:
            return self.read()
        if 0 in self.shape:
            return np.zeros(self.shape, self.dtype)
        inside, _ = self.grid.places(self.shape, self.splits, rank)
        return self.parts[[*self.engine.ranks].index(rank)].read()[inside]

    def held(self) -> list[tuple[slice, ...]]:
        """Where in the whole the parts of this process are."""
        nothing = tuple([slice(0, 0) for _ in self.shape])
        return [
            self.grid.places(self.shape, self.splits, rank)[1] if holds else nothing
            for rank, holds in zip(self.engine.ranks, self._holds, strict=True)
        ]

    def write_shards(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Sets the parts of this process, as `held` tells them."""
        for rank, part, array, holds in zip(self.engine.ranks, self.parts, arrays, self._holds, strict=True):
            if not holds:
                continue
            inside, _ = self.grid.places(self.shape, self.splits, rank)
            values = np.zeros(part.shape, self.dtype)
            values[inside] = array
            part.write(values)

    def write(self, values: ArrayLike) -> None:
        whole = np.empty(self.shape, self.dtype)
        whole[...] = values
        self.engine.check_same(f"the value of {self.what}", hashlib.blake2b(whole.tobytes()).digest())
        if self.parts:
            self._set_parts(whole)
        else:
            self._whole = whole


def _text(splits: Splits) -> str:
    return " and ".join(map(str, splits)) or "whole on all ranks"
