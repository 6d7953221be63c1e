"""Modules for a CPU that emulates the kernels in them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.kernel import LaunchOp
from ocannl.dialects.loops import FuncOp
from ocannl.lowering.entry import EntrySlots
from ocannl.lowering.kernels_to_llvm.emulate import EmulatedKernel, Emulation
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.debug_info import DebugInfo
from ocannl.lowering.loops_to_llvm.calls import Call
from ocannl.lowering.loops_to_llvm.module import ModuleEmitter
from ocannl.passes.analysis.target import DEFAULT_TARGET, TargetDescription

# The name of a function, in its definition.
_FUNCTION = re.compile(r'define internal void @"([^"]+)"')


def to_llvm(
    module: ModuleOp,
    emulation: Emulation | None = None,
    *,
    clocked: bool = False,
    target: TargetDescription = DEFAULT_TARGET,
    lines: bool = False,
) -> str:
    """The LLVM IR text of all routines of a module, for a CPU: nests are its code, kernels are emulated.

    `clocked` and `target` are those of `loops_to_llvm`. With `lines`, instructions have the lines of the
    user's program, for debuggers.
    """
    emitter = _EmulationEmitter(emulation or Emulation(), clocked, target)
    emitter.debug = DebugInfo() if lines else None
    return emitter.emit(module)


def to_llvm_with_steps(
    module: ModuleOp, target: TargetDescription = DEFAULT_TARGET
) -> tuple[str, dict[str, list[Operation]]]:
    """The same text, and the steps of routines that each of its functions runs, by the function's name."""
    emitter = _TracingEmitter(Emulation(), False, target)
    return emitter.emit(module), emitter.steps


class _EmulationEmitter(ModuleEmitter):
    def __init__(self, emulation: Emulation, clocked: bool, target: TargetDescription) -> None:
        super().__init__(clocked, target, emulation.check)
        self.emulation = emulation
        self.kernels = 0

    def emit_body(
        self,
        b: FunctionBuilder,
        step: Operation,
        pointers: dict[SSAValue, str],
        positions: dict[str, Position],
        first: Mapping[SSAValue, int],
    ) -> None:
        if isinstance(step, LaunchOp):
            self.kernels += 1
            EmulatedKernel(b, step, pointers, positions, self.emulation, self.kernels).emit()
        else:
            super().emit_body(b, step, pointers, positions, first)


class _TracingEmitter(_EmulationEmitter):
    """Notes which steps the functions that it emits are for."""

    def __init__(self, emulation: Emulation, clocked: bool, target: TargetDescription) -> None:
        super().__init__(emulation, clocked, target)
        self.steps: dict[str, list[Operation]] = {}
        self.emitted: dict[str, list[str]] = {}

    def call(self, func: FuncOp, step: Operation, places: EntrySlots) -> Call:
        before = len(self.parts)
        call = super().call(func, step, places)
        made = [match[1] for match in map(_FUNCTION.match, self.parts[before:]) if match]
        names = self.emitted.setdefault(call.kernel, made)
        for name in names:
            self.steps.setdefault(name, []).append(step)
        return call
