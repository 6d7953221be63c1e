"""Devices of several ranks: the CPU for each, or what a subclass has."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from numpy.typing import DTypeLike
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.runtime.collectives.engine import Engine
from ocannl.runtime.collectives.exchanger import Exchanger
from ocannl.runtime.collectives.grid import Grid
from ocannl.runtime.collectives.memory import MeshMemory
from ocannl.runtime.collectives.run import MeshRun, RankDevice, RankExchanger, RankProgram
from ocannl.runtime.cpu.native import ForeignProgram
from ocannl.runtime.interface import Exchange, Interface
from ocannl.runtime.memory import ArgBlock


@dataclass(frozen=True)
class MeshDevice:
    """The devices of the ranks of a mesh, of which `base` is one. Each rank runs its part of a routine on its
    parts of memory.
    """

    base: RankDevice
    grid: Grid
    engine: Engine

    @property
    def devices(self) -> Sequence[RankDevice]:
        """Those of the ranks of this process: one CPU for all."""
        return [self.base] * len(self.engine.ranks)

    def exchanger(self, rank: int, exchanges: Sequence[Exchange]) -> RankExchanger:
        """The object that a rank's part of a routine calls for its collectives."""
        return Exchanger(self.engine, self.grid, rank, exchanges)

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def language(self) -> str:
        return self.base.language

    @property
    def key(self) -> str:
        return self.base.key

    @property
    def target(self) -> TargetDescription:
        return self.base.target

    def memory(self, shape: tuple[int, ...], dtype: DTypeLike) -> MeshMemory:
        makes = [device.memory for device in self.devices]
        return MeshMemory(self.engine, self.grid, makes, shape, dtype)

    def once(self, action: Callable[[], object]) -> None:
        """Does something in the process of rank 0, while those of other ranks wait for it."""
        if 0 in self.engine.ranks:
            action()
        self.engine.check_same("what rank 0 does for all", b"done")

    def synchronize(self) -> None:
        for device in self.devices:
            device.synchronize()

    def text(self, module: ModuleOp) -> str:
        return self.base.text(module)

    def program(self, text: str, interface: Interface) -> MeshProgram | ForeignProgram:
        self.engine.check_same(f"routine {interface.name!r}", hashlib.blake2b(text.encode()).digest())
        own = interface.stages[0] if interface.stages else interface
        apart = {id(device): device for device in self.devices}
        made = {key: device.program(text, own) for key, device in apart.items()}
        programs: list[RankProgram] = []
        for device in self.devices:
            program = made[id(device)]
            if isinstance(program, ForeignProgram):
                return program
            programs.append(program)
        return MeshProgram(programs, interface, self)


@dataclass(frozen=True)
class MeshProgram:
    """A routine that every rank runs: its programs for the ranks of this process."""

    programs: Sequence[RankProgram]
    interface: Interface
    device: MeshDevice

    def bind(self, args: ArgBlock) -> MeshRun:
        device = self.device
        return MeshRun(self.programs, self.interface, device.engine, device.grid, args, device.exchanger)
