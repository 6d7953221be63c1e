"""Routines as native code of the CPU, which may emulate a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field

from numpy.typing import DTypeLike
from xdsl.dialects.builtin import ModuleOp

from ocannl.lowering.kernels_to_llvm import Emulation, to_llvm
from ocannl.lowering.llvm.range_check import VIOLATION
from ocannl.runtime.cpu.profile import profile
from ocannl.runtime.cpu.violation import Violation
from ocannl.runtime.host.jit import CompiledModule, compile_llvm
from ocannl.runtime.host.processor import host_target
from ocannl.runtime.host.run import HostRun
from ocannl.runtime.interface import Interface
from ocannl.runtime.memory import ArgBlock, HostMemory, aligned_array


@dataclass(frozen=True)
class NativeDevice:
    """This CPU. Kernels for a GPU are emulated."""

    emulation: Emulation = field(default_factory=Emulation)
    name: str = ""
    language: str = "llvm"

    @property
    def key(self) -> str:
        return " ".join([str(self.emulation), *sorted(host_target().converted)])

    def memory(self, shape: tuple[int, ...], dtype: DTypeLike) -> HostMemory:
        return HostMemory(aligned_array(shape, dtype))

    def synchronize(self) -> None:
        """A run has ended when its call returns."""

    def text(self, module: ModuleOp) -> str:
        return to_llvm(module, self.emulation, converted=host_target().converted)

    def program(self, text: str, interface: Interface) -> NativeProgram:
        code = compile_llvm(text)
        checks = self.emulation.check and VIOLATION in text
        violation = Violation(code.address(VIOLATION)) if checks else None
        return NativeProgram(code, code.address(interface.name), violation)


@dataclass(frozen=True)
class NativeProgram:
    """A routine; `function` is the address of its `void f(ptr args)`."""

    code: CompiledModule
    function: int
    violation: Violation | None

    def bind(self, args: ArgBlock) -> NativeRun:
        return NativeRun(self.function, args, self.violation)


class NativeRun(HostRun):
    """Native code on a block of arguments."""

    def profile(self, module: ModuleOp, runs: int) -> list[float]:
        return profile(module, self.args, runs)
