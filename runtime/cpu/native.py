"""Routines as native code of the CPU, which may emulate a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import partial
from typing import Any

from numpy.typing import DTypeLike, NDArray
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.loops import StepOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.entry import entry_symbol
from ocannl.lowering.kernels_to_llvm import Emulation, to_llvm
from ocannl.lowering.llvm.range_check import RECORD, VIOLATION
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.runtime.cpu.profile import profile
from ocannl.runtime.cpu.violation import Violation
from ocannl.runtime.host.debugged import DebuggedModule, debugged
from ocannl.runtime.host.jit import CompiledModule, compile_llvm
from ocannl.runtime.host.processor import check_runs, chosen_target, missing_features
from ocannl.runtime.host.run import Failures, HostRun
from ocannl.runtime.interface import Interface
from ocannl.runtime.memory import ArgBlock, HostMemory
from ocannl.runtime.settings import is_on


@dataclass(frozen=True)
class NativeDevice:
    """This CPU. Kernels for a GPU are emulated.

    `target` is the processor that code is for, by default as `OCANNL_TARGET` says. Code for one with other
    instructions has its text, but does not run.
    """

    emulation: Emulation = field(default_factory=Emulation)
    name: str = ""
    language: str = "llvm"
    target: TargetDescription = field(default_factory=chosen_target)
    lines: bool = field(default_factory=partial(is_on, "debug_info"))
    """Whether debuggers are told the user's lines, as `OCANNL_DEBUG_INFO` says."""
    opt_level: int = 2
    """LLVM's level of code generation, 0 to 3."""

    @property
    def key(self) -> str:
        return f"{self.emulation} {self.target}"

    def memory(self, shape: tuple[int, ...], dtype: DTypeLike) -> HostMemory:
        return HostMemory.counted(shape, dtype)

    def synchronize(self) -> None:
        """A run has ended when its call returns."""

    def text(self, module: ModuleOp) -> str:
        return to_llvm(module, self.emulation, target=self.target, lines=self.lines, counts_writes=True)

    def program(self, text: str, interface: Interface) -> NativeProgram | ForeignProgram:
        if missing_features(self.target):
            return ForeignProgram(partial(check_runs, self.target))
        code = (
            debugged(text, self.target)
            if self.lines
            else compile_llvm(text, target=self.target, opt_level=self.opt_level)
        )
        checks = self.emulation.check and RECORD in text
        violation = Violation(code.address(VIOLATION)) if checks else None
        return NativeProgram(code, code.address(entry_symbol(interface.name)), violation, self.target)


@dataclass(frozen=True)
class NativeProgram:
    """A routine; `function` is the address of its `void f(ptr args)`. One of several stages has a name."""

    code: CompiledModule | DebuggedModule
    function: int
    violation: Violation | None
    target: TargetDescription
    name: str = ""

    def entry(self, name: str) -> NativeProgram:
        """Another routine of the same text."""
        return replace(self, function=self.code.address(entry_symbol(name)), name=name)

    def bind(self, args: ArgBlock, exchanger: Failures | None = None) -> NativeRun:
        """`exchanger` raises the errors of what runs call."""
        return NativeRun(self, args, exchanger)


class NativeRun(HostRun):
    """Native code on a block of arguments."""

    def __init__(self, program: NativeProgram, args: ArgBlock, failures: Failures | None) -> None:
        super().__init__(program.function, args, failures or program.violation)
        self.target = program.target
        self.name = program.name
        self.lines = isinstance(program.code, DebuggedModule)

    def profile(self, module: ModuleOp, runs: int) -> dict[StepOp, float]:
        return profile(module, self.args, runs, self.target, self.name, lines=self.lines)


@dataclass(frozen=True)
class ForeignProgram:
    """A routine for a processor whose code this one cannot run: it has text, and every run raises what
    `refuse` does.
    """

    refuse: Callable[[], None]

    def bind(self, args: ArgBlock) -> ForeignProgram:
        return self

    def call(self) -> None:
        self.refuse()

    def loop(self, **_: object) -> list[NDArray[Any]]:
        self.refuse()
        return []

    def profile(self, module: ModuleOp, runs: int) -> dict[StepOp, float]:
        self.refuse()
        return {}
