"""Compiles a module with one routine for the CPU: passes, LLVM text, native code."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.loops import FuncOp
from ocannl.lowering.loops_to_llvm import EntryLayout, entry_layout, loops_to_llvm
from ocannl.lowering.pipelines import PIPELINES, module_text, run_passes
from ocannl.runtime.jit import CompiledModule, compile_llvm


@dataclass(frozen=True)
class Executable:
    """Native code of one routine; `function` is the address of its `void f(ptr args)`."""

    code: CompiledModule
    function: int
    layout: EntryLayout
    func: FuncOp
    seconds: dict[str, float]


def compile_module(module: ModuleOp, target: str = "cpu") -> Executable:
    """Runs the target's whole pipeline on a module with one routine, in place, and compiles what comes out.

    `OCANNL_VERIFY=1` verifies between passes, `OCANNL_DUMP=folder` writes every stage there,
    `OCANNL_TIMING=1` prints where the time went.
    """
    seconds: dict[str, float] = {}
    dump = Dump.from_environment(module)

    def observe(name: str, after: ModuleOp, elapsed: float) -> None:
        seconds[name] = elapsed
        dump.stage(name, after)

    dump.stage("texpr", module)
    run_passes(module, PIPELINES[target], verify=os.environ.get("OCANNL_VERIFY") == "1", observe=observe)
    (func,) = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    start = time.perf_counter()
    text = loops_to_llvm(module)
    seconds["lower-loops-to-llvm"] = time.perf_counter() - start
    dump.write("llvm", text, "ll")
    start = time.perf_counter()
    code = compile_llvm(text)
    function = code.address(func.sym_name.data)
    seconds["llvm"] = time.perf_counter() - start
    if os.environ.get("OCANNL_TIMING") == "1":
        print(timing_table(func.sym_name.data, seconds), file=sys.stderr)
    return Executable(code, function, entry_layout(func), func, seconds)


def timing_table(name: str, seconds: dict[str, float]) -> str:
    """Milliseconds by pass."""
    total = sum(seconds.values())
    rows = [f"  {1e3 * s:9.2f} ms  {p}" for p, s in seconds.items()]
    return "\n".join([f"compiled {name} in {1e3 * total:.2f} ms", *rows])


@dataclass
class Dump:
    """Writes the stages of one routine as numbered files, if a folder is given."""

    folder: Path | None
    routine: str
    count: int = 0

    @staticmethod
    def from_environment(module: ModuleOp) -> Dump:
        folder = os.environ.get("OCANNL_DUMP")
        first = module.body.block.first_op
        name = getattr(first, "sym_name", None)
        return Dump(Path(folder) if folder else None, "routine" if name is None else name.data)

    def stage(self, name: str, module: ModuleOp) -> None:
        if self.folder is not None:
            self.write(name, module_text(module), "mlir")

    def write(self, name: str, text: str, suffix: str) -> None:
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{self.routine}.{self.count:02}-{name}.{suffix}").write_text(text)
        self.count += 1
