"""Meshes of NVIDIA GPUs: one for each rank."""

from __future__ import annotations

import hashlib
import platform
import weakref
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.records import dataclass
from ocannl.runtime.collectives.device import MeshDevice, MeshProgram
from ocannl.runtime.collectives.engine import Engine
from ocannl.runtime.collectives.grid import Grid
from ocannl.runtime.cpu.native import ForeignProgram
from ocannl.runtime.cuda.communicator import Communicator
from ocannl.runtime.cuda.device import CudaDevice
from ocannl.runtime.cuda.driver import Driver
from ocannl.runtime.cuda.gpu import count_devices
from ocannl.runtime.cuda.links import Fate, GpuExchanger, RankLinks, close
from ocannl.runtime.cuda.nccl import Nccl, UniqueId, nccl
from ocannl.runtime.interface import Exchange, Interface


class Links:
    """The communicators of all ranks in this process, which are made when a routine first needs them."""

    def __init__(self, engine: Engine, grid: Grid, gpus: Sequence[CudaDevice]) -> None:
        self.engine = engine
        self.grid = grid
        self.fate = Fate()
        self.ranks = [
            RankLinks(engine, rank, gpu, self.fate) for rank, gpu in zip(engine.ranks, gpus, strict=True)
        ]
        self.axes: set[str] = set()
        weakref.finalize(self, close, self.ranks, self.fate)

    def of(self, rank: int, axes: Sequence[str]) -> RankLinks:
        """Those of a rank, which can exchange over some axes. Raises `DeviceError`."""
        for axis in axes:
            if axis not in self.axes:
                self.connect(axis, nccl())
                self.axes.add(axis)
        return self.ranks[[*self.engine.ranks].index(rank)]

    def connect(self, axis: str, library: Nccl) -> None:
        """Makes the communicators along an axis. The first rank of each group names its own."""
        self.fate.check()
        groups = [self.grid.group(links.rank, axis) for links in self.ranks]
        names = [
            library.unique_id() if group[0] == links.rank else bytes(UniqueId())
            for links, group in zip(self.ranks, groups, strict=True)
        ]
        found = self.engine.all_parts([np.frombuffer(name, np.uint8) for name in names])
        for links, group in zip(self.ranks, groups, strict=True):
            made = Communicator(library, links.gpu, group, links.rank, found[group[0]].tobytes())
            links.communicators[axis] = made
            self.fate.communicators.append(made)
        for links in self.ranks:
            links.come_together(axis)


@dataclass(frozen=True)
class CudaMesh(MeshDevice):
    """The GPUs of the ranks of a mesh."""

    gpus: Sequence[CudaDevice] = ()
    """Those of the ranks of this process."""
    links: Links = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", Links(self.engine, self.grid, self.gpus))

    @property
    def devices(self) -> Sequence[CudaDevice]:
        return self.gpus

    def exchanger(self, rank: int, exchanges: Sequence[Exchange]) -> GpuExchanger:
        axes = dict.fromkeys(exchange.mesh for exchange in exchanges)
        return GpuExchanger(self.links.of(rank, [*axes]), exchanges)

    def program(self, text: str, interface: Interface) -> MeshProgram | ForeignProgram:
        if interface.stages:
            raise DeviceError("stages run on CPUs so far, and not on GPUs")
        return super().program(text, interface)


def cuda_mesh(grid: Grid, engine: Engine, first: int | None, arch: str | None = None) -> CudaMesh:
    """The mesh whose ranks have the GPUs of their machines from the first one on, in their order, with code
    for `arch`, by default their own. A process that sees one GPU alone has that one.

    Raises `DeviceError` where there are not as many, or they are of different architectures.
    """
    places = places_on_machines(engine)
    if first is None and len(places) == 1 and count_devices(Driver()) == 1:
        places = [0]
    gpus = [CudaDevice((first or 0) + place, arch) for place in places]
    archs = sorted({gpu.arch for gpu in gpus})
    if len(archs) > 1:
        raise DeviceError(f"the GPUs of a mesh are of one architecture, these are {' and '.join(archs)}")
    return CudaMesh(gpus[0], grid, engine, gpus)


def places_on_machines(engine: Engine) -> list[int]:
    """The place of each rank of this process among those of its machine."""
    digests = [hashlib.blake2b(machine(rank).encode(), digest_size=8).digest() for rank in engine.ranks]
    found = engine.all_parts([np.frombuffer(digest, np.uint8) for digest in digests])
    machines = [each.tobytes() for each in found]
    return [machines[:rank].count(machines[rank]) for rank in engine.ranks]


def machine(_: int) -> str:
    """The name of the machine of a rank of this process."""
    return platform.node()
