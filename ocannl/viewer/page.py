"""One HTML file with everything about a program: its data, and the code that draws it."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.ir.errors import OcannlError
from ocannl.dialects.texpr import TexprRoutineOp
from ocannl.lowering.pipelines import PIPELINES, PassMaker, for_target
from ocannl.passes.analysis.nests import uncalled
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.program.module.extract import ExtractedRoutine
from ocannl.runtime.cache.tunings import Tunings
from ocannl.runtime.collector import collector_paused
from ocannl.viewer.levels import Levels, read_levels
from ocannl.viewer.pictures import pictures_of_expressions, pictures_of_memory, pictures_of_steps
from ocannl.viewer.proofs import Proofs
from ocannl.viewer.reasons import Tiles, pictures_of_reasons

# The pass after which all shapes are known, and no layer has been left out yet.
INFERRED = "infer-precisions"
# A file of more lines is shown only around the lines that the program comes from.
MOST_LINES, AROUND = 4000, 20
SCRIPTS = ("data.js", "highlight.js", "reasons.js", "panes.js", "graph.js", "charts.js", "page.js")


@dataclass(frozen=True)
class Program:
    """A program to be shown: a module as built, how it is compiled, and what is known of its runs."""

    module: ModuleOp
    name: str
    pipeline: str
    target: TargetDescription
    tunings: Tunings | None = None
    seconds: Sequence[float] | None = None
    """The time of each kernel, where it was measured."""
    extracted: ExtractedRoutine | None = None
    """The program that the module was made of, if it was not read as text."""


@collector_paused()
def page(program: Program) -> str:
    """The HTML text of the page. Compiles the program's module, in place; raises what compiling raises."""
    data = gzip.compress(json.dumps(page_data(program), separators=(",", ":")).encode(), 6, mtime=0)
    assets = files("ocannl.viewer") / "assets"
    scripts = "\n".join((assets / name).read_text("utf-8") for name in SCRIPTS)
    text = (assets / "page.html").read_text("utf-8")
    parts = {
        "TITLE": escape(program.name),
        "STYLE": (assets / "page.css").read_text("utf-8"),
        "DATA": base64.b64encode(data).decode(),
        "SCRIPT": scripts,
    }
    for name, part in parts.items():
        text = text.replace(f"/*{name}*/", part)
    return text


def page_data(program: Program) -> dict[str, Any]:
    """The data of the page, as it stands there in JSON."""
    find = None if program.tunings is None else program.tunings.find
    passes = for_target(PIPELINES[program.pipeline], program.target, find, keep=True)
    tiles, before_schedules = Tiles(program.target, program.tunings), _before(passes, SchedulePass.name)
    graph: list[dict[str, Any]] = []
    known = program.extracted
    proofs = Proofs({} if known is None else known.values)
    expressions = {} if known is None else known.expressions
    checks = [] if known is None else [label for label, _ in known.checked]

    def watch(name: str, module: ModuleOp, levels: Levels) -> None:
        if name == INFERRED:
            for op in module.body.block.ops:
                if isinstance(op, TexprRoutineOp):
                    graph.extend(pictures_of_expressions(op, levels, checks))
                    proofs.read(op, levels)
        if name == before_schedules:
            tiles.note(module)

    on_cpu = program.pipeline == "cpu"
    levels = read_levels(program.module, passes, program.target, watch, to_machine_code=on_cpu)
    funcs = uncalled(program.module)
    if not funcs:
        raise OcannlError(f"there is no routine in {program.name}")
    return {
        "title": program.name,
        "target": program.target.cpu if on_cpu else program.pipeline,
        "steps": pictures_of_steps(funcs, levels, tiles, program.seconds) if on_cpu else [],
        "memory": pictures_of_memory(funcs, levels),
        "graph": graph,
        "reasons": pictures_of_reasons(program.module, levels, expressions),
        "proofs": proofs.pictures,
        "proof_lines": proofs.lines,
        "stages": [vars(stage) for stage in levels.stages],
        "texts": list(levels.texts),
        "origins": list(levels.origins),
        "sets": list(levels.sets),
        "expressions": expressions,
        "files": [_source(path, number, levels) for path, number in levels.files.items()],
    }


def _before(passes: Sequence[PassMaker], name: str) -> str | None:
    """The name of the pass before one; None where there is none."""
    names = [make().name for make in passes]
    return names[names.index(name) - 1] if name in names[1:] else None


def _source(path: str, number: int, levels: Levels) -> Mapping[str, Any]:
    """A file of the user with the lines that are shown: pairs of a line number and its text."""
    wanted = {line for _, file, line in levels.origins if file == number}
    try:
        lines = Path(path).read_text("utf-8", "replace").splitlines()
    except OSError:
        return {"name": path, "lines": [(line, "") for line in sorted(wanted)]}
    shown = range(1, len(lines) + 1)
    if len(lines) > MOST_LINES:
        near = {at for line in wanted for at in range(line - AROUND, line + AROUND + 1)}
        shown = sorted(near & set(shown))
    return {"name": path, "lines": [(at, lines[at - 1]) for at in shown]}
