"""GPUs that are not here, but that code is compiled for."""

from __future__ import annotations

from numpy.typing import DTypeLike

from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.records import dataclass
from ocannl.runtime.cpu.native import ForeignProgram
from ocannl.runtime.cuda.device import PtxWriter
from ocannl.runtime.interface import Interface
from ocannl.runtime.memory import HostMemory


@dataclass
class AbsentGpu(PtxWriter):
    """An NVIDIA GPU of an architecture: its routines have their text, in the cache too, and do not run for a
    `reason`. Memory is that of the host.
    """

    arch: str
    reason: str
    name: str = "no GPU"

    def memory(self, shape: tuple[int, ...], dtype: DTypeLike) -> HostMemory:
        return HostMemory.counted(shape, dtype)

    def synchronize(self) -> None:
        """Nothing runs."""

    def program(self, text: str, interface: Interface) -> ForeignProgram:
        return ForeignProgram(self.refuse)

    def refuse(self) -> None:
        """Raises `DeviceError`."""
        raise DeviceError(f"code for {self.arch} is compiled, and does not run here: {self.reason}")
