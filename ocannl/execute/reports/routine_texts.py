"""The texts of a compiled routine: its text at each level, its schedule, memory and reasons."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.ir.errors import DeviceError, OcannlError
from ocannl.dialects.loops import FuncOp, NestOp, StepOp
from ocannl.execute.memory.nodes import Nodes
from ocannl.execute.meshes import put_on_mesh
from ocannl.execute.reports.report import memory_table, schedule_table
from ocannl.lowering.kernels_to_metal import to_metal
from ocannl.lowering.pipelines import GPU_PIPELINES, for_other_arch
from ocannl.passes.analysis.nests import functions, nodes
from ocannl.program.code import Code
from ocannl.program.module.extract import ExtractedRoutine, extract
from ocannl.program.module.stages import lowered, program_text
from ocannl.program.numbering import Numbering
from ocannl.program.tensor import TensorLike, as_tensor
from ocannl.program.text.html import text_html
from ocannl.program.text.unnamed import with_expressions
from ocannl.program.values import Value, memory_key
from ocannl.program.why.reasons import Line, Reasons
from ocannl.reasons.node_reasons import NodeReasons
from ocannl.reasons.pair_reasons import pair_reasons
from ocannl.reasons.tile_reasons import TARGET, key_of, nests_before_schedule, tile_lines
from ocannl.runtime.cache.tunings import Tunings
from ocannl.runtime.compile import Executable
from ocannl.runtime.cpu.team import Team
from ocannl.runtime.cuda.ptx import kernel_resources, ptx_text
from ocannl.runtime.cuda.ptxas import Resources
from ocannl.runtime.device import Device
from ocannl.runtime.settings import is_on
from ocannl.viewer.page import Program
from ocannl.viewer.show import Viewable, show


class Target(Protocol):
    """The part of a context that says what its routines are compiled for."""

    backend: str
    target: str
    device: Device
    team: Team
    numbering: Numbering
    nodes: Nodes
    mesh: Mapping[str, int]

    @property
    def arch(self) -> str: ...


class RoutineTexts(Viewable):
    """Texts and tables about a routine. They change nothing."""

    name: str
    code: Code
    tunings: Tunings | None
    keys: Mapping[tuple[Value, bool], str]
    _program: ExtractedRoutine
    _executable: Executable
    _seconds: Mapping[StepOp, float] | None
    _resources: list[Resources] | None

    @property
    @abstractmethod
    def _target(self) -> Target:
        """The context."""

    def ir(self, stage: str = "texpr", *, origins: bool = False) -> str:
        """The text of what was compiled, at a stage of the pipeline; with `origins`, each operation is
        followed by the expressions and lines that it comes from.
        """
        find = None if self.tunings is None else self.tunings.find
        pipeline, target = self._target.target, self._target.device.target
        return program_text(self._extracted(), stage, pipeline, find, origins, target)

    def schedule(self) -> str:
        """A table of the kernels. Each has its loops, register tile, vectors and the work of one run: scalar
        operations, and bytes of the cells that it accesses; after `profile()` also its time, GFLOP/s and
        GB/s. The last line names the threads of parallel loops, if there are any. For a GPU, each kernel has
        its blocks, threads and register variables; after `assemble()` also the registers of a thread.
        """
        kernels = self._of_stages(lambda func: schedule_table(func, self._seconds, self._resources))
        if not self._executable.interface.layout.is_parallel:
            return kernels
        return f"{kernels}\nparallel loops run on {self._target.team}"

    def view(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Shows the routine at all levels of its compilation, as `oc.view`; after `profile()` with times."""
        target, pipeline = self._target.device.target, self._target.target
        program = self._extracted()
        seconds = self._seconds_of_steps()
        shown = Program(program.module, self.name, pipeline, target, self.tunings, seconds, program)
        return show(shown, path)

    def ptx(self, arch: str | None = None) -> str:
        """The PTX text of the routine's kernels for an NVIDIA GPU of an architecture, by default that of the
        context's GPU, or `sm_80`. It ends in a description of the kernels for their host, as JSON. With
        `OCANNL_DEBUG_INFO=1`, instructions have the lines of the program.
        """
        arch = arch or self._target.arch
        return ptx_text(self._kernels_for(arch), arch, lines=is_on("debug_info"))

    def metal(self) -> str:
        """The Metal text of the routine's kernels for the GPU of a Mac.

        It ends in a description of the kernels for their host, as JSON.
        """
        return to_metal(self._kernels("metal"))

    def assemble(self, arch: str | None = None) -> str:
        """Assembles the kernels with NVIDIA's ptxas; returns the schedule with the registers of a thread of
        each, and the bytes that are spilled to memory. The architecture is that of `ptx`.

        For a context whose routines are kernels. Raises `DeviceError` where there is no ptxas.
        """
        if self._target.target not in GPU_PIPELINES:
            raise DeviceError(f"a routine for {self._target.backend} has no kernels; see its ptx()")
        arch = arch or self._target.arch
        module = self._kernels_for(arch)
        resources = kernel_resources(module, arch)
        if module is not self._executable.func.parent_op():
            return schedule_table(functions(module)[-1], None, resources)
        self._resources = resources
        return self.schedule()

    def _kernels_for(self, arch: str) -> ModuleOp:
        """The kernels for an architecture of NVIDIA's GPUs."""
        return self._kernels(for_other_arch(self._target.target, arch))

    def _kernels(self, pipeline: str) -> ModuleOp:
        """The kernels by a pipeline."""
        if self._target.target != pipeline:
            return lowered(self.code.statements, self.name, pipeline, self._target.numbering.copy())
        module = self._executable.func.parent_op()
        assert isinstance(module, ModuleOp)
        return module

    def memory(self) -> str:
        """A table of the nodes: the bytes of each, its memory mode and why, and its offset in the arena; and
        the expressions of those that have no name but a number.
        """
        expressions = self._program.expressions
        return self._of_stages(lambda func: memory_table(func, expressions))

    def _seconds_of_steps(self) -> list[float] | None:
        """The times of the steps of the routine, or of all stages in order, after `profile()`."""
        known = self._seconds
        if known is None:
            return None
        return [known[step] for func in self._executable.stages for step in func.steps]

    def _of_stages(self, text: Callable[[FuncOp], str]) -> str:
        """The text of the routine, or that of each stage under its number."""
        funcs = self._executable.stages
        if len(funcs) == 1:
            return text(funcs[0])
        return "\n\n".join([f"stage {number}\n{text(func)}" for number, func in enumerate(funcs)])

    def why(self, node: TensorLike | str, other: TensorLike | str | None = None) -> Reasons:
        """Why a tensor, or a node by its name in `memory()`, has memory of its own in this routine or is
        computed where it is used, and where it is computed and read, by which schedule; why the nests that
        compute it are not one with those beside them; and on the CPU why they have their tiles: the cheapest
        candidates with the cycles that the cost model expects, and after `oc.tune` what was measured. With an
        `other` one, which of the two waits for the other, by which nests, and why these are not fused.

        Raises `OcannlError` where the routine has no such node.
        """
        name, *others = [
            n if isinstance(n, str) else self._name_of(n) for n in (node, other) if n is not None
        ]
        funcs = self._executable.stages
        func = next((own for own in funcs if name in {node.label.data for node in nodes(own)}), funcs[0])
        reasons = NodeReasons(func)
        found = [reasons.of(label) for label in (name, *others)]
        expressions = self._program.expressions
        if others:
            pair = pair_reasons(func, name, others[0])
            return Reasons(with_expressions(pair.answer, expressions), pair.lines)
        answer = with_expressions(found[0].answer, expressions)
        return Reasons(answer, (*found[0].lines, *self._tile_lines(reasons.writers(name))))

    def _tile_lines(self, computing: Sequence[NestOp]) -> Iterator[Line]:
        """Why the nests that compute a node have their tiles."""
        taken = {key_of(nest): nest.schedule for nest in computing}
        if self._target.target != TARGET or not taken:
            return
        target = self._target.device.target
        for nest in nests_before_schedule(self._extracted().module, target):
            if key_of(nest) in taken:
                schedule = taken.pop(key_of(nest))
                yield from tile_lines(nest, None if schedule is None else schedule.data, target, self.tunings)

    def _extracted(self) -> ExtractedRoutine:
        """The program as it was compiled: for the context's mesh, if it has one."""
        program = extract(self.code.statements, self.name, self._target.numbering.copy())
        put_on_mesh(program, self._target.nodes, self._target.mesh)
        return program

    def _name_of(self, tensor: TensorLike) -> str:
        value = as_tensor(tensor).ir_value
        label, copy = self.keys.get(memory_key(value)), self._program.copies.get(value)
        name = label or (None if copy is None else copy.name_hint)
        if name is None:
            raise OcannlError(f"routine {self.name!r} does not compute `{as_tensor(tensor).label}`")
        return name

    @property
    def compile_seconds(self) -> dict[str, float]:
        """The seconds of compilation, by pass."""
        return dict(self._executable.seconds)

    def _repr_html_(self) -> str:
        return text_html(f"{self!r}\n{self.schedule()}")
