"""Looking at a program at any stage of its compilation."""

from __future__ import annotations

from ocannl.code import Code
from ocannl.dialects.errors import OcannlError
from ocannl.extract import Numbering, extract
from ocannl.lowering.kernels_to_llvm import to_llvm
from ocannl.lowering.pipelines import (
    PIPELINES,
    module_text,
    passes_until,
    run_passes,
    stage_names,
    with_choices,
)
from ocannl.runtime.tunings import Tunings


def stage_text(
    code: Code,
    name: str,
    stage: str,
    target: str = "cpu",
    numbering: Numbering | None = None,
    tunings: Tunings | None = None,
) -> str:
    """The text of a program at a stage: "texpr" as built, "assign", "loops", "llvm", or after the pass of
    that name. Schedules are the cost model's, but for those that `tunings` have.

    Raises `OcannlError` for an unknown stage, and what compiling raises.
    """
    program = extract(code, name, numbering)
    try:
        passes = PIPELINES[target] if stage == "llvm" else passes_until(target, stage)
    except KeyError:
        known = ", ".join([*stage_names(target), "llvm"])
        raise OcannlError(f"there is no stage {stage!r}; the stages are {known}") from None
    run_passes(program.module, passes if tunings is None else with_choices(passes, tunings.find))
    return to_llvm(program.module) if stage == "llvm" else module_text(program.module)
