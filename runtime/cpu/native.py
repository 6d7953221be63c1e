"""Routines as native code of the CPU, which may emulate a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import DTypeLike, NDArray
from xdsl.dialects.builtin import ModuleOp

from ocannl.lowering.kernels_to_llvm import Emulation, to_llvm
from ocannl.lowering.kernels_to_llvm.checks import VIOLATION
from ocannl.runtime.cpu.host import host_target
from ocannl.runtime.cpu.jit import CompiledModule, compile_llvm
from ocannl.runtime.cpu.loop_driver import run_loop
from ocannl.runtime.cpu.profile import profile
from ocannl.runtime.cpu.violation import Violation
from ocannl.runtime.device import Memory
from ocannl.runtime.interface import Interface
from ocannl.runtime.memory import ArgBlock, HostMemory, aligned_array, bind_call


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


class Failures(Protocol):
    """Where a GPU, or an emulated one that checks, tells what went wrong."""

    def raise_first(self) -> None:
        """Raises `DeviceError` for the first thing that went wrong, and forgets it."""
        ...


class NativeRun:
    """A function `void f(ptr args)` on a block of arguments."""

    def __init__(self, function: int, args: ArgBlock, failures: Failures | None = None) -> None:
        self.function = function
        self.args = args
        self.failures = failures
        self.run = bind_call(function, args)
        self.call: Callable[[], None] = self.run if failures is None else self.checked_run

    def checked_run(self) -> None:
        self.run()
        self.raise_failure()

    def raise_failure(self) -> None:
        if self.failures is not None:
            self.failures.raise_first()

    def loop(
        self,
        *,
        epochs: int,
        ranged: Sequence[tuple[int, int]],
        advance: Sequence[int],
        record: Sequence[Memory],
    ) -> list[NDArray[Any]]:
        arrays = [memory.array for memory in record if isinstance(memory, HostMemory)]
        assert len(arrays) == len(record), "routines on the CPU have memory there"
        found = run_loop(
            self.function, self.args, epochs=epochs, ranged=ranged, advance=advance, record=arrays
        )
        self.raise_failure()
        return found

    def profile(self, module: ModuleOp, runs: int) -> list[float]:
        return profile(module, self.args, runs)
