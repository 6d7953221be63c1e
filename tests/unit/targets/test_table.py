"""Every operator, block and example on every target gives what it gives on the CPU.

A column is a target, and a cell a row of `rows.py` on it. The ordinary run takes some cells of each column,
`pytest -m exhaustive` all of them.
"""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np
import pytest
from support.layering import ROOT
from support.nn import tables
from support.targets import arrays, functions
from support.targets.columns import COLUMNS
from support.targets.rows import ROWS, Array, DType, Values

import ocannl as oc
from ocannl import train

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


CELLS = [
    (column, row)
    for column, target in COLUMNS.items()
    for row, program in ROWS.items()
    if program.in_f64 or target.dtype == np.float32
]
SAMPLE = 797
"""Every so many cells are always tested, and those of `ALWAYS`."""
ALWAYS = [("neon", "example: moons"), ("neon", "example: lenet_digits"), ("ptx", "program: random words")]


@cache
def on_cpu(row: str, dtype: DType) -> Values:
    return ROWS[row].run(oc.Context.cpu(threads=1), dtype)


@cache
def on_target(column: str, row: str) -> Values:
    return ROWS[row].run(COLUMNS[column].context(), COLUMNS[column].dtype)


def check_cell(column: str, row: str) -> None:
    target, program = COLUMNS[column], ROWS[row]
    exact = target.reference
    wanted = on_target(exact, row) if exact else on_cpu(row, target.dtype)
    tolerance = max(program.tolerance, target.rounding) if target.dtype == np.float32 else 1e-10
    with target.running() as ctx:
        found = program.run(ctx, target.dtype)
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        check_close(found[name], array, 0 if exact else tolerance, name)


def check_close(found: Array, wanted: Array, tolerance: float, what: str) -> None:
    """In terms of the greatest number."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    scale = np.max(np.abs(wanted), initial=1, where=np.isfinite(wanted))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=min(tolerance * scale, 1), err_msg=what)


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("column", "row"), [*CELLS[::SAMPLE], *ALWAYS])
def test_some_cells(column: str, row: str):
    check_cell(column, row)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("column", "row"), CELLS)
def test_all_cells(column: str, row: str):
    check_cell(column, row)


# Nothing is left out.


def names_in(code: CodeType) -> set[str]:
    """The names that a function uses, and the functions inside it."""
    inner = (names_in(const) for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*inner)


def names_of(module: ModuleType) -> set[str]:
    return names_in(compile(inspect.getsource(module), module.__name__, "exec"))


def public_functions(module: Any) -> set[str]:
    return {name for name in module.__all__ if inspect.isfunction(getattr(module, name))}


def test_every_public_function_has_a_row():
    """Operators and blocks have rows by their tables."""
    called = names_of(functions) | names_of(arrays)
    logics = {"einmax", "einmin", "outer_sum", "tropical"}
    of_host = {"export", "plan", "print", "tune", "view"}
    # Placements and stages change nothing on one device: `test_partitioned_programs.py`, `test_stages.py`.
    apart = {*of_host, "shard", "stage", "breakpoint", "debug", "diff", "print_values", "why"}
    assert public_functions(oc) - called - logics == apart
    of_host = {"batches", "csv", "dashboard", "plot", "progress", "tensorboard"}
    of_several_contexts = {"data_parallel", "shard_along"}
    assert public_functions(train) - called == of_host | of_several_contexts


def test_every_block_has_a_row():
    """`test_all_blocks` tells that each is in some table; these are all tables."""
    folder = Path(tables.__file__).parent
    found = {path.stem for path in folder.glob("*.py") if "\nCASES = {" in path.read_text()}
    assert {module.__name__.rpartition(".")[2] for module in tables.MODULES} == found


def test_every_example_has_a_row():
    folder = ROOT / "examples"
    programs = {path.stem for path in folder.glob("*.py") if "def main(" in path.read_text()}
    # Write files; needs PyTorch; write texts, whose ids their own tests compare; is for meshes.
    without = {"moons_page", "notebooks", "surgery", "beam_search", "speculative", "diloco"}
    assert {f"example: {name}" for name in programs - without} <= ROWS.keys()
