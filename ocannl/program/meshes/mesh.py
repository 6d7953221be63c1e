"""Meshes: named axes of ranks, over which tensors are split."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from weakref import ref

from ocannl.dialects.routine import MICROBATCH, STAGE
from ocannl.program.arguments.checks import integer, number
from ocannl.program.arguments.errors import ArgumentError
from ocannl.runtime.collectives.grid import Grid


class Mesh:
    """Ranks in a grid of named axes: `oc.Mesh({"data": 4, "model": 2})` has 8. The last axis varies fastest.

    `loss.ir("partition")` is the program of each rank of the mesh that was made last. Raises `ArgumentError`
    for names that are not identifiers, sizes that are not positive integers, and other wrong arguments.

    `engine` says by what ranks talk: `"threads"` of this process, or `"mpi"`, one process a rank. A rank that
    does not come to a collective within `timeout` seconds is lost.

    Along an axis called `"stage"`, ranks compute the stages of a program, `oc.stage(i)`, one after the other.
    They do so for each of some `microbatches`, the parts of an axis of data with `shard={"batch":
    "microbatch"}`, 1024 at most. Without that axis, the ranks compute one microbatch after the other, too.

    Attributes:
        sizes: the number of ranks along each axis, by its name.
        microbatches: the number of microbatches of a run, at most 1024.
    """

    def __init__(
        self, axes: Mapping[str, int], *, microbatches: int = 1, engine: str = "mpi", timeout: float = 120.0
    ) -> None:
        if not isinstance(axes, Mapping) or not axes:
            raise ArgumentError(f'a mesh has named axes, as in oc.Mesh({{"data": 4}}); found {axes!r}')
        self.sizes = MappingProxyType({_axis(name): _size(name, size) for name, size in axes.items()})
        if MICROBATCH in self.sizes:
            way = 'their number is that of oc.Mesh({"stage": 2}, microbatches=4)'
            raise ArgumentError(f"microbatches are no axis of ranks: {way}")
        self.microbatches = integer(microbatches, "the number of microbatches", least=1)
        if self.microbatches > MOST_MICROBATCHES:
            why = "each is compiled, and more make no pipeline much fuller"
            raise ArgumentError(
                f"there are {MOST_MICROBATCHES} microbatches at most, found {self.microbatches}: {why}"
            )
        if engine not in ENGINES:
            raise ArgumentError(f"an engine is {' or '.join(ENGINES)}, found {engine!r}")
        self.engine = engine
        number(timeout, "the timeout of a mesh, in seconds,", below=1e9)
        self.timeout = timeout
        _latest.append(ref(self))
        del _latest[:-1]

    @property
    def ranks(self) -> int:
        """The number of all ranks."""
        return math.prod(self.sizes.values())

    @property
    def program_axes(self) -> Mapping[str, int]:
        """The axes for which a program is compiled: those of ranks, and that of microbatches in time."""
        has_stages = self.microbatches > 1 or self.sizes.get(STAGE, 1) > 1
        return {**self.sizes, MICROBATCH: self.microbatches} if has_stages else self.sizes

    def place(self, rank: int) -> dict[str, int]:
        """The coordinates of a rank, by axis."""
        return Grid(self.sizes).place(rank)

    def __repr__(self) -> str:
        axes = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
        return f"<mesh ({axes})>"


ENGINES = ("threads", "mpi")
# Of 16 stages, less than 1.5 % of a run is waiting then.
MOST_MICROBATCHES = 1024
_latest: list[ref[Mesh]] = []


def latest_mesh() -> Mesh | None:
    """The mesh that was made last, while it lives: what a program's text is for that names none."""
    return _latest[-1]() if _latest else None


def _axis(name: object) -> str:
    if isinstance(name, str) and name.isidentifier() and name.isascii():
        return name
    raise ArgumentError(f"an axis of a mesh is named by an identifier of ASCII letters, found {name!r}")


def _size(name: str, size: object) -> int:
    return integer(size, f"the number of ranks along `{name}`", least=1)
