"""Links between the levels of a routine: from every line up to Python, and down to machine code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import ModuleOp

import ocannl as oc
from ocannl.lowering.pipelines import PIPELINES, for_target
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.program.module.extract import extract
from ocannl.viewer.levels import Levels, Stage, read_levels

# Lines that are no operation and no instruction, by how they begin, in each kind of text.
FRAME = {
    "texpr": ("builtin.module", "}"),
    "assign": ("builtin.module", "}"),
    "loops": ("builtin.module", "}"),
    "llvm": ("attributes", "declare", "target", "source_filename", "@", "!"),
    "machine code": (".", "#"),
}


def levels_of(routine: oc.Routine) -> Levels:
    """The texts of a routine for a CPU at all levels."""
    program = extract(routine.code.statements, routine.name, routine.context.numbering.copy())
    target = routine.context.device.target
    assert isinstance(target, TargetDescription)
    find = None if routine.tunings is None else routine.tunings.find
    passes = for_target(PIPELINES["cpu"], target, find, keep=True)

    def watch(name: str, module: ModuleOp, levels: Levels) -> None:
        pass

    return read_levels(program.module, passes, target, watch, to_machine_code=True)


def lines(levels: Levels, stage: Stage) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The lines of a stage, each with its origins."""
    texts, sets = list(levels.texts), list(levels.sets)
    for text, linked in zip(stage.lines[::2], stage.lines[1::2], strict=True):
        yield texts[text], sets[linked]


def orphans(levels: Levels) -> list[str]:
    """The lines of operations and instructions of no line of Python, and the expressions that no machine code
    is for.
    """
    found: list[str] = []
    for stage in levels.stages:
        frame = FRAME[stage.level]
        found += [
            f"{stage.name}: {text}"
            for text, linked in lines(levels, stage)
            if not linked and text.strip() and not text.strip().startswith(frame)
        ]
    *_, loops, llvm, machine = levels.stages
    names: list[Any] = list(levels.origins)
    stored = {n for text, linked in lines(levels, loops) if "loops.store" in text for n in linked}
    for stage in (llvm, machine):
        reached = {n for _, linked in lines(levels, stage) for n in linked}
        found += [f"no {stage.level} for {names[n]}" for n in stored - reached]
    return found


def files_of(levels: Levels) -> set[str]:
    """The files of the origins."""
    files = list(levels.files)
    return {files[file] for _, file, _ in levels.origins}
