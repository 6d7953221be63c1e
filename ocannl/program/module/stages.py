"""The text of a program at any stage of its compilation."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ocannl.dialects.ir.errors import OcannlError
from ocannl.dialects.kernel.gpu import WARPGROUP_ARCH
from ocannl.lowering.kernels_to_llvm import to_llvm
from ocannl.lowering.kernels_to_metal import to_metal
from ocannl.lowering.loops_to_c import to_c
from ocannl.lowering.pipelines import (
    GPU_PIPELINES,
    PIPELINES,
    for_target,
    module_text,
    passes_until,
    run_passes,
    stage_names,
)
from ocannl.passes.analysis.schedules.schedule_candidates import FindChoices
from ocannl.passes.analysis.targets.target import DEFAULT_TARGET, TargetDescription
from ocannl.program.meshes.mesh import latest_mesh
from ocannl.program.module.extract import ExtractedRoutine, extract
from ocannl.program.numbering import Numbering
from ocannl.runtime.cuda.ptx import DEFAULT_ARCH, ptx_text
from ocannl.runtime.host.processor import chosen_target
from ocannl.viewer.page import Program
from ocannl.viewer.show import show

# Stages that are text of a target, and those that only some pipelines have.
TEXTS: dict[str, Callable[[ModuleOp, TargetDescription, str], str]] = {
    "llvm": lambda module, target, _: to_llvm(module, target=target, counts_writes=True),
    "c": lambda module, _, __: to_c(module),
    "ptx": lambda module, _, pipeline: ptx_text(module, arch_of(pipeline)),
    "metal": lambda module, _, __: to_metal(module),
}
OWN_STAGES = {"c": ("c",), "kernels": GPU_PIPELINES, "ptx": GPU_PIPELINES, "metal": ("metal",)}
MESH_STAGES = ("partition", "split-stages")


def arch_of(pipeline: str) -> str:
    """The architecture of NVIDIA's GPUs that the kernels of a pipeline are for."""
    return WARPGROUP_ARCH if WARPGROUP_ARCH in pipeline else DEFAULT_ARCH


def stage_text(
    statements: Sequence[Operation],
    name: str,
    stage: str,
    pipeline: str = "cpu",
    numbering: Numbering | None = None,
    find: FindChoices | None = None,
    origins: bool = False,
    target: str | TargetDescription | None = None,
) -> str:
    """The text of a program at a stage: "texpr" as built, "assign", "loops", "llvm", or after the pass of
    that name; "c" is a text of C, and "kernels", "ptx" and "metal" are what it is for a GPU. Schedules are
    the cost model's, but for those that `find` has. They are for a target, or one of that name: by default
    that of `OCANNL_TARGET`, else `x86-64-v4`. With `origins`, each operation ends in those, as `loc(...)`;
    "llvm" and the like have none. The text after `partition` and `split-stages` is for the
    mesh that was made last.

    Raises `OcannlError` for an unknown stage, and what compiling raises.
    """
    program = extract(statements, name, numbering)
    if stage in MESH_STAGES and (mesh := latest_mesh()) is not None:
        program.routine.set_mesh(mesh.program_axes)
    return program_text(program, stage, pipeline, find, origins, target)


def program_text(
    program: ExtractedRoutine,
    stage: str,
    pipeline: str = "cpu",
    find: FindChoices | None = None,
    origins: bool = False,
    target: str | TargetDescription | None = None,
) -> str:
    """The text of a program, for the mesh that it has, at a stage: see `stage_text`. The program is consumed.

    Raises `OcannlError` for an unknown stage, and what compiling raises.
    """
    pipelines = OWN_STAGES.get(stage, (pipeline,))
    pipeline = pipeline if pipeline in pipelines else pipelines[0]
    try:
        passes = PIPELINES[pipeline] if stage in TEXTS else passes_until(pipeline, stage)
    except KeyError:
        known = ", ".join(dict.fromkeys([*stage_names(pipeline), *TEXTS, *OWN_STAGES]))
        raise OcannlError(f"there is no stage {stage!r}; the stages are {known}") from None
    if not isinstance(target, TargetDescription):
        target = chosen_target(target, DEFAULT_TARGET)
    keep = pipeline == "cpu" and program.routine.mesh is None
    run_passes(program.module, for_target(passes, target, find, keep=keep))
    return (
        TEXTS[stage](program.module, target, pipeline)
        if stage in TEXTS
        else module_text(program.module, origins)
    )


def view_statements(statements: Sequence[Operation], name: str, path: str | os.PathLike[str] | None) -> Path:
    """Shows a program for the processor that its text is for."""
    target = chosen_target(None, DEFAULT_TARGET)
    program = extract(statements, name)
    return show(Program(program.module, name, "cpu", target, extracted=program), path)


def lowered(
    statements: Sequence[Operation], name: str, target: str, numbering: Numbering | None = None
) -> ModuleOp:
    """A program at the end of a target's pipeline."""
    program = extract(statements, name, numbering)
    run_passes(program.module, PIPELINES[target])
    return program.module
