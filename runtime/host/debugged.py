"""Machine code that debuggers and profilers are told about, with its lines."""

from __future__ import annotations

from typing import Any

import llvmlite.binding

from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.runtime.host.jit import emit_object, llvm_target, new_target_machine
from ocannl.runtime.host.jit_dump import add_to_dump
from ocannl.runtime.host.perf_map import add_to_map
from ocannl.runtime.llvm_parser import parse_llvm

llvm: Any = llvmlite.binding  # llvmlite has no type stubs


class DebuggedModule:
    """Machine code loaded by MCJIT, which registers it by GDB's interface for JIT compilers. `perf report`
    finds its functions by their names, and `perf annotate` after `perf inject --jit` their lines.
    """

    def __init__(self, object_code: bytes, target: TargetDescription) -> None:
        empty = parse_llvm(llvm_target(target))
        # One allocation has all sections: in a full address space, others are too far apart for each other.
        self._engine = llvm.create_mcjit_compiler(empty, new_target_machine(target), use_lmm=True)
        self._engine.enable_jit_events()
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
        self._engine.finalize_object()
        add_to_map(object_code, self.address)
        add_to_dump(object_code, self.address)

    def address(self, name: str) -> int:
        """The address of a function or a global."""
        found: int = self._engine.get_function_address(name) or self._engine.get_global_value_address(name)
        return found


def debugged(text: str, target: TargetDescription) -> DebuggedModule:
    """Compiles a module with line tables for this processor, and loads it."""
    return DebuggedModule(emit_object(text, target), target)
