"""Devices of several ranks: one CPU each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from numpy.typing import DTypeLike
from xdsl.dialects.builtin import ModuleOp

from ocannl.passes.analysis.target import TargetDescription
from ocannl.runtime.collectives.engine import Engine
from ocannl.runtime.collectives.grid import Grid
from ocannl.runtime.collectives.memory import MeshMemory
from ocannl.runtime.collectives.run import MeshRun
from ocannl.runtime.cpu.native import ForeignProgram, NativeDevice, NativeProgram
from ocannl.runtime.interface import Interface
from ocannl.runtime.memory import ArgBlock


@dataclass(frozen=True)
class MeshDevice:
    """The CPUs of the ranks of a mesh. Each rank runs its part of a routine on its parts of memory."""

    base: NativeDevice
    grid: Grid
    engine: Engine
    name: str = ""

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
        return MeshMemory(self.engine, self.grid, self.base.memory, shape, dtype)

    def once(self, action: Callable[[], object]) -> None:
        """Does something in the process of rank 0, while those of other ranks wait for it."""
        if 0 in self.engine.ranks:
            action()
        self.engine.check_same("what rank 0 does for all", b"done")

    def synchronize(self) -> None:
        """A run has ended when its call returns."""

    def text(self, module: ModuleOp) -> str:
        return self.base.text(module)

    def program(self, text: str, interface: Interface) -> MeshProgram | ForeignProgram:
        self.engine.check_same(f"routine {interface.name!r}", hashlib.blake2b(text.encode()).digest())
        found = self.base.program(text, interface.stages[0] if interface.stages else interface)
        return found if isinstance(found, ForeignProgram) else MeshProgram(found, interface, self)


@dataclass(frozen=True)
class MeshProgram:
    """A routine that every rank runs."""

    program: NativeProgram
    interface: Interface
    device: MeshDevice

    def bind(self, args: ArgBlock) -> MeshRun:
        return MeshRun(self.program, self.interface, self.device.engine, self.device.grid, args)
