"""Looking at a program at any stage of its compilation."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp

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
from ocannl.program.code import Code
from ocannl.program.extract import Numbering, extract
from ocannl.runtime.cache.tunings import Tunings
from ocannl.runtime.cuda.ptx import ptx_text

# Stages that are text of a target, and those that only a GPU has, with its pipeline.
TEXTS: dict[str, Callable[[ModuleOp], str]] = {"llvm": to_llvm, "ptx": ptx_text, "metal": to_metal}
GPU_STAGES = {"kernels": GPU_PIPELINES, "ptx": GPU_PIPELINES, "metal": ("metal",)}


def stage_text(
    code: Code,
    name: str,
    stage: str,
    target: str = "cpu",
    numbering: Numbering | None = None,
    tunings: Tunings | None = None,
) -> str:
    """The text of a program at a stage: "texpr" as built, "assign", "loops", "llvm", or after the pass of
    that name; "kernels", "ptx" and "metal" are what it is for a GPU. Schedules are the cost model's, but for
    those that `tunings` have.

    Raises `OcannlError` for an unknown stage, and what compiling raises.
    """
    program = extract(code, name, numbering)
    targets = GPU_STAGES.get(stage, (target,))
    target = target if target in targets else targets[0]
    try:
        passes = PIPELINES[target] if stage in TEXTS else passes_until(target, stage)
    except KeyError:
        known = ", ".join(dict.fromkeys([*stage_names(target), *TEXTS, *GPU_STAGES]))
        raise OcannlError(f"there is no stage {stage!r}; the stages are {known}") from None
    run_passes(program.module, passes if tunings is None else with_choices(passes, tunings.find))
    return TEXTS.get(stage, module_text)(program.module)


def lowered(code: Code, name: str, target: str, numbering: Numbering | None = None) -> ModuleOp:
    """A program at the end of a target's pipeline."""
    program = extract(code, name, numbering)
    run_passes(program.module, PIPELINES[target])
    return program.module
