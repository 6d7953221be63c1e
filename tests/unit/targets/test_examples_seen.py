"""The routines of all examples: exported ones have the same bits, or as C, on AArch64 and in WebAssembly
close ones; each of their nodes has its reasons, and each of their operations its line.
"""

from __future__ import annotations

import base64
import ctypes
import json
import shutil
import subprocess
from collections.abc import Callable
from itertools import accumulate, count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.arm_on_cpu import EMULATOR, LINKER, NEEDS_ARM
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
from ocannl.shipping.header import header
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


def run_shared(made: Library, path: Path) -> dict[str, bytes]:
    """The bytes of the nodes of a library for this process after one run, with all indices 0."""
    loaded = ctypes.CDLL(str(path))
    loaded.step_default.restype = ctypes.POINTER(ctypes.c_void_p)
    memory = loaded.step_default()
    indices = (ctypes.c_int64 * max(1, len(made.indices)))()
    loaded.step_run(memory, indices)
    return {node.label: ctypes.string_at(memory[at], node.bytes) for at, node in enumerate(made.nodes)}


def run_exported(made: Library, folder: Path) -> dict[str, bytes]:
    """The bytes of the nodes of an object for this processor after one run."""
    (folder / "code.o").write_bytes(made.code)
    subprocess.run(["cc", "-shared", "code.o", "-o", "code.so", "-lm"], cwd=folder, check=True)
    return run_shared(made, folder / "code.so")


def own_target(routine: oc.Routine) -> TargetDescription:
    target = routine.context.device.target
    assert isinstance(target, TargetDescription)
    return target


@pytest.mark.skipif(CC is None, reason="there is no C compiler")
@pytest.mark.parametrize("row", EXAMPLES)
def test_exported_routines_have_the_same_bits(row: str, tmp_path: Path):
    for number, routine in enumerate(routines_of(row)):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = library(routine, "step", own_target(routine), are_loaded=False)
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


def check_routines(row: str, run: Callable[[oc.Routine], tuple[Library, dict[str, bytes]]]) -> None:
    """One run of each exported routine of an example gives close to what its own run gives."""
    for routine in routines_of(row):
        made, found = run(routine)
        routine(**dict.fromkeys([name for name, _ in made.indices], 0))
        for label, contents in found.items():
            wanted = routine._nodes[label].memory.read()
            array = np.frombuffer(contents, wanted.dtype).reshape(wanted.shape)
            check_close(array, wanted, f"{routine.name}: {label}")


@pytest.mark.skipif(CC is None, reason="there is no C compiler")
@pytest.mark.parametrize("row", EXAMPLES)
def test_routines_as_text_of_c_have_close_results(row: str, tmp_path: Path):
    options = ["-std=c11", "-O1", "-march=native", "-fno-strict-aliasing", "-fPIC", "-shared"]
    numbers = count()

    def run(routine: oc.Routine) -> tuple[Library, dict[str, bytes]]:
        made = library(routine, "step", own_target(routine), are_loaded=False, as_text=True)
        (tmp_path / "code.c").write_bytes(made.code)
        (tmp_path / "step.h").write_text(header(made, routine.name))
        linked = f"code{next(numbers)}.so"
        subprocess.run(["cc", *options, "code.c", "-o", linked, "-lm"], cwd=tmp_path, check=True)
        return made, run_shared(made, tmp_path / linked)

    check_routines(row, run)


# Runs once, and writes what each node has.
MAIN = """
#include <stdint.h>
#include <stdio.h>

void **step_default(void);
void step_run(void **memory, const int64_t *indices);

int main(void) {{
    static const int64_t sizes[] = {{{sizes}}}, indices[{indices}] = {{0}};
    void **memory = step_default();
    step_run(memory, indices);
    for (int64_t k = 0; k < {nodes}; k++) fwrite(memory[k], 1, sizes[k], stdout);
}}
"""


def run_on_arm(made: Library, folder: Path) -> dict[str, bytes]:
    """The bytes of the nodes of an object for AArch64 after one run, under emulation."""
    sizes = [node.bytes for node in made.nodes]
    text = MAIN.format(sizes=str(sizes)[1:-1], indices=max(1, len(made.indices)), nodes=len(sizes))
    (folder / "main.c").write_text(text)
    (folder / "code.o").write_bytes(made.code)
    command = [str(LINKER), "-static", "main.c", "code.o", "-o", "main", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run([str(EMULATOR), str(folder / "main")], capture_output=True, check=True)
    ends = [*accumulate(sizes)]
    assert len(done.stdout) == ends[-1]
    return {n.label: done.stdout[end - n.bytes : end] for n, end in zip(made.nodes, ends, strict=True)}


@pytest.mark.sampled(3)
@NEEDS_ARM
@pytest.mark.parametrize("row", EXAMPLES)
def test_objects_for_aarch64_have_close_results(row: str, tmp_path: Path):
    def run(routine: oc.Routine) -> tuple[Library, dict[str, bytes]]:
        made = library(routine, "step", processor("neoverse-n1"), are_loaded=False)
        return made, run_on_arm(made, tmp_path)

    check_routines(row, run)


@pytest.mark.sampled(3)
@NEEDS_BROWSER
@pytest.mark.skipif(shutil.which("wasm-ld") is None, reason="there is no wasm-ld")
@pytest.mark.parametrize("row", IN_WEBASSEMBLY)
def test_routines_in_webassembly_have_close_results(row: str, tmp_path: Path):
    with browser(tmp_path) as page:

        def run(routine: oc.Routine) -> tuple[Library, dict[str, bytes]]:
            made = library(routine, "step", processor("wasm32"), are_loaded=False)
            return made, run_in_browser(page, made, tmp_path)

        check_routines(row, run)
