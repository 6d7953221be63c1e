"""Modules for a CPU that emulates the kernels in them."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ocannl.dialects.kernel import LaunchOp
from ocannl.dialects.scalar.approximate import is_approximate
from ocannl.lowering.kernels_to_llvm.emulate import EmulatedKernel, Emulation
from ocannl.lowering.llvm.debug_info import DebugInfo
from ocannl.lowering.loops_to_llvm.environment import Environment
from ocannl.lowering.loops_to_llvm.module import ModuleEmitter
from ocannl.passes.analysis.targets.target import DEFAULT_TARGET, TargetDescription
from ocannl.passes.loops.expand_math import expand_block


def to_llvm(
    module: ModuleOp,
    emulation: Emulation | None = None,
    *,
    clocked: bool = False,
    target: TargetDescription = DEFAULT_TARGET,
    lines: bool = False,
    counts_writes: bool = False,
) -> str:
    """The LLVM IR text of all routines of a module, for a CPU: nests are its code, kernels are emulated.

    `clocked` and `target` are those of `loops_to_llvm`. With `lines`, instructions have the lines of the
    user's program, for debuggers. With `counts_writes`, entries count those of what others may have copied.
    """
    emitter = EmulationEmitter(emulation or Emulation(), clocked, target)
    emitter.debug = DebugInfo() if lines else None
    emitter.counts_writes = counts_writes
    return emitter.emit(module)


class EmulationEmitter(ModuleEmitter):
    """Emits routines with nests and with kernels."""

    def __init__(self, emulation: Emulation, clocked: bool, target: TargetDescription) -> None:
        super().__init__(clocked, target, emulation.check)
        self.emulation = emulation
        self.kernels = 0

    def emit_body(self, env: Environment, step: Operation) -> None:
        if isinstance(step, LaunchOp):
            self.kernels += 1
            if any(map(is_approximate, step.walk())):
                # A CPU has no instruction for them.
                step = step.clone()
                expand_block(step.body.block, approximations=True)
            pointers = dict(env.pointers)
            EmulatedKernel(env.b, step, pointers, env.positions, self.emulation, self.kernels).emit()
        else:
            super().emit_body(env, step)
