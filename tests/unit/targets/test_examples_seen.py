"""The routines of all examples: exported ones have the same bits, and each of their nodes has its reasons."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.layering import ROOT
from support.targets.columns import noted
from support.targets.rows import ROWS

import ocannl as oc
from ocannl.passes.analysis.memory import memory_report
from ocannl.passes.analysis.target import TargetDescription
from ocannl.reasons.node_reasons import node_reasons
from ocannl.shipping.library import Library, library

CC = shutil.which("cc")
EXAMPLE_FILES = str(ROOT / "examples")
QUICK = {"example: moons"}
EXAMPLES = [
    pytest.param(row, marks=() if row in QUICK else pytest.mark.exhaustive)
    for row in ROWS
    if row.startswith("example: ")
]


def routines_of(row: str) -> list[oc.Routine]:
    """The routines that an example has compiled and run, one of each name."""
    with noted() as routines:
        ROWS[row].run(oc.Context.cpu(threads=1), np.float32)
    return list({routine.name: routine for routine in routines}.values())


def run_exported(made: Library, folder: Path) -> dict[str, bytes]:
    """The bytes of the nodes of a library after one run, with all indices 0."""
    (folder / "code.o").write_bytes(made.code)
    subprocess.run(["cc", "-shared", "code.o", "-o", "code.so", "-lm"], cwd=folder, check=True)
    loaded = ctypes.CDLL(str(folder / "code.so"))
    loaded.step_default.restype = ctypes.POINTER(ctypes.c_void_p)
    memory = loaded.step_default()
    indices = (ctypes.c_int64 * max(1, len(made.indices)))()
    loaded.step_run(memory, indices)
    return {node.label: ctypes.string_at(memory[at], node.bytes) for at, node in enumerate(made.nodes)}


@pytest.mark.skipif(CC is None, reason="there is no C compiler")
@pytest.mark.parametrize("row", EXAMPLES)
def test_exported_routines_have_the_same_bits(row: str, tmp_path: Path):
    for number, routine in enumerate(routines_of(row)):
        folder = tmp_path / str(number)
        folder.mkdir()
        target = routine.context.device.target
        assert isinstance(target, TargetDescription)
        made = library(routine, "step", target, are_loaded=False)
        found = run_exported(made, folder)
        routine(**dict.fromkeys([name for name, _ in made.indices], 0))
        for label, contents in found.items():
            wanted = routine._nodes[label].memory.read()
            assert contents == wanted.tobytes(), f"{routine.name}: {label}"


@pytest.mark.parametrize("row", EXAMPLES)
def test_every_node_has_reasons_of_the_users_lines(row: str):
    for routine in routines_of(row):
        func = routine._executable.func
        for label in [node.label for node in memory_report(func)]:
            reasons = node_reasons(func, label)
            assert reasons.lines, f"{routine.name}: {label}"
            assert str(reasons.lines[-1].place).startswith(EXAMPLE_FILES), f"{routine.name}: {reasons}"
        for parameter in oc.params(routine.code).values():
            for question in ("shape", "dtype", "name"):
                assert str(oc.why(parameter, question).lines[-1].place).startswith(EXAMPLE_FILES)
