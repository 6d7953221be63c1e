"""The routines of all examples: exported ones have the same bits, or in WebAssembly close ones; each of their
nodes has its reasons, and each of their operations its line.
"""

from __future__ import annotations

import base64
import ctypes
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.browser import NEEDS_BROWSER, Page, browser
from support.layering import ROOT, SUPPORT
from support.links import levels_of, orphans
from support.targets.columns import noted
from support.targets.rows import ROWS

import ocannl as oc
from ocannl.passes.analysis.dataflow.memory import memory_report
from ocannl.passes.analysis.targets.processors import processor
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.reasons.node_reasons import NodeReasons
from ocannl.shipping.export import WASM_OPTIONS
from ocannl.shipping.library import Library, library

CC = shutil.which("cc")
EXAMPLE_FILES = str(ROOT / "examples")
QUICK = {"example: moons"}
# One of these has a table of calls, and large frames.
QUICK_IN_WEBASSEMBLY = {*QUICK, "example: lenet_digits"}


def rows_of(quick: set[str]) -> list[Any]:
    """The examples, of which some run always."""
    rows = [row for row in ROWS if row.startswith("example: ")]
    return [pytest.param(row, marks=() if row in quick else pytest.mark.exhaustive) for row in rows]


EXAMPLES, IN_WEBASSEMBLY = rows_of(QUICK), rows_of(QUICK_IN_WEBASSEMBLY)


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
            reasons = NodeReasons(func).of(label)
            assert reasons.lines, f"{routine.name}: {label}"
            assert str(reasons.lines[-1].place).startswith(EXAMPLE_FILES), f"{routine.name}: {reasons}"
        for parameter in oc.params(routine.code).values():
            for question in ("shape", "dtype", "name"):
                assert str(oc.why(parameter, question).lines[-1].place).startswith(EXAMPLE_FILES)


@pytest.mark.parametrize("row", EXAMPLES)
def test_every_operation_has_its_way_up_to_python_and_down_to_machine_code(row: str):
    for routine in routines_of(row):
        assert orphans(levels_of(routine)) == [], routine.name


RUN_IN_BROWSER = (SUPPORT / "page_scripts" / "run_wasm.js").read_text("utf-8")


def run_in_browser(page: Page, made: Library, folder: Path) -> dict[str, bytes]:
    """The bytes of the nodes of a library after one run in Chromium."""
    (folder / "code.o").write_bytes(made.code)
    exports = [f"--export=step_{end}" for end in ("run", "default", "memory")]
    command = ["wasm-ld", "code.o", "-o", "code.wasm", *WASM_OPTIONS, *exports]
    subprocess.run(command, cwd=folder, check=True)
    packed = base64.b64encode((folder / "code.wasm").read_bytes()).decode()
    found = page.run(f"{RUN_IN_BROWSER.strip()}({json.dumps(packed)}, {[node.bytes for node in made.nodes]})")
    return {node.label: base64.b64decode(text) for node, text in zip(made.nodes, found, strict=True)}


def check_close(found: NDArray[Any], wanted: NDArray[Any], what: str) -> None:
    """Floats are close in terms of the greatest number, and others equal."""
    if not np.issubdtype(wanted.dtype, np.floating):
        np.testing.assert_array_equal(found, wanted, err_msg=what)
        return
    scale = float(np.max(np.abs(wanted), initial=1, where=np.isfinite(wanted)))
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * scale, err_msg=what)


@pytest.mark.sampled(3)
@NEEDS_BROWSER
@pytest.mark.skipif(shutil.which("wasm-ld") is None, reason="there is no wasm-ld")
@pytest.mark.parametrize("row", IN_WEBASSEMBLY)
def test_routines_in_webassembly_have_close_results(row: str, tmp_path: Path):
    with browser(tmp_path) as page:
        for routine in routines_of(row):
            made = library(routine, "step", processor("wasm32"), are_loaded=False)
            found = run_in_browser(page, made, tmp_path)
            routine(**dict.fromkeys([name for name, _ in made.indices], 0))
            for label, contents in found.items():
                wanted = routine._nodes[label].memory.read()
                array = np.frombuffer(contents, wanted.dtype).reshape(wanted.shape)
                check_close(array, wanted, f"{routine.name}: {label}")
