"""The text of a program at any stage of its compilation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ocannl.dialects.ir.errors import OcannlError
from ocannl.lowering.kernels_to_llvm import to_llvm
from ocannl.lowering.kernels_to_metal import to_metal
from ocannl.lowering.pipelines import (
    GPU_PIPELINES,
    PIPELINES,
    module_text,
    passes_until,
    run_passes,
    stage_names,
    with_choices,
)
from ocannl.passes.analysis.schedule_candidates import FindChoices
from ocannl.program.extract import Numbering, extract
from ocannl.runtime.cuda.ptx import ptx_text

# Stages that are text of a target, and those that only a GPU has, with its pipeline.
TEXTS: dict[str, Callable[[ModuleOp], str]] = {"llvm": to_llvm, "ptx": ptx_text, "metal": to_metal}
GPU_STAGES = {"kernels": GPU_PIPELINES, "ptx": GPU_PIPELINES, "metal": ("metal",)}


def stage_text(
    statements: Sequence[Operation],
    name: str,
    stage: str,
    target: str = "cpu",
    numbering: Numbering | None = None,
    find: FindChoices | None = None,
    origins: bool = False,
) -> str:
    """The text of a program at a stage: "texpr" as built, "assign", "loops", "llvm", or after the pass of
    that name; "kernels", "ptx" and "metal" are what it is for a GPU. Schedules are the cost model's, but for
    those that `find` has. With `origins`, each operation ends in those, as `loc(...)`; text of a target has
    none.

    Raises `OcannlError` for an unknown stage, and what compiling raises.
    """
    program = extract(statements, name, numbering)
    targets = GPU_STAGES.get(stage, (target,))
    target = target if target in targets else targets[0]
    try:
        passes = PIPELINES[target] if stage in TEXTS else passes_until(target, stage)
    except KeyError:
        known = ", ".join(dict.fromkeys([*stage_names(target), *TEXTS, *GPU_STAGES]))
        raise OcannlError(f"there is no stage {stage!r}; the stages are {known}") from None
    run_passes(program.module, passes if find is None else with_choices(passes, find))
    return TEXTS[stage](program.module) if stage in TEXTS else module_text(program.module, origins)


def lowered(
    statements: Sequence[Operation], name: str, target: str, numbering: Numbering | None = None
) -> ModuleOp:
    """A program at the end of a target's pipeline."""
    program = extract(statements, name, numbering)
    run_passes(program.module, PIPELINES[target])
    return program.module
