"""Every operator, block and example on every target gives what it gives on the CPU.

A column is a target, and a cell a row of `rows.py` on it. The ordinary run takes some cells of each column,
`pytest -m exhaustive` all of them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest
from cuda_on_cpu import FakeDriver, install
from metal_on_cpu import COMPILER, FakeDevice, FakeMetal
from unit.ocannl.nn import tables
from unit.targets import functions
from unit.targets.rows import ROWS, Array, DType, Values

import ocannl as oc
from ocannl import train
from ocannl.runtime.ptxas import find_ptxas

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@contextmanager
def nothing() -> Generator[None]:
    yield


@contextmanager
def driver(capability: tuple[int, int]) -> Generator[None]:
    """A stand-in for the driver of an NVIDIA GPU."""
    with pytest.MonkeyPatch.context() as patch:
        found = FakeDriver()
        found.capability = capability
        install(patch, found)
        yield


@contextmanager
def mac() -> Generator[None]:
    """A stand-in for the framework of a Mac."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "Metal", FakeMetal(FakeDevice()))
        patch.setenv("OCANNL_CACHE", "off")
        yield


@dataclass(frozen=True)
class Column:
    """A target.

    Attributes:
        context: makes a context on it.
        around: what stands in for the hardware.
        dtype: the type of numbers.
        assembles: whether ptxas is to take its kernels.
        reference: the target whose bits it gives; without one it is close to the CPU.
    """

    context: Callable[[], oc.Context]
    around: Callable[[], Any] = nothing
    dtype: DType = np.float32
    assembles: bool = False
    reference: str | None = None

    @property
    def lacks(self) -> str | None:
        """What has to be installed first."""
        if self.assembles and find_ptxas() is None:
            return "there is no ptxas: install nvidia-cuda-nvcc"
        if self.around is mac and COMPILER is None:
            return "there is no C++ compiler: install clang or g++"
        return None


AMPERE, HOPPER = partial(driver, (8, 0)), partial(driver, (9, 0))
COLUMNS = {
    "emulated": Column(oc.Context.emulated_gpu),
    "shuffled": Column(lambda: oc.Context.emulated_gpu(shuffle=5), reference="emulated"),
    "checked": Column(lambda: oc.Context.emulated_gpu(check=True, shuffle=3), reference="emulated"),
    "checked f64": Column(lambda: oc.Context.emulated_gpu(check=True), dtype=np.float64),
    "sm_80": Column(oc.Context.cuda, AMPERE, assembles=True, reference="emulated"),
    "sm_90": Column(oc.Context.cuda, HOPPER, assembles=True, reference="emulated"),
    "sm_90 f64": Column(oc.Context.cuda, HOPPER, np.float64, assembles=True),
    "metal": Column(oc.Context.metal, mac),
}
CELLS = [
    (column, row)
    for column, target in COLUMNS.items()
    for row, program in ROWS.items()
    if program.in_f64 or target.dtype == np.float32
]
SAMPLE = 47
"""Every so many cells are always tested."""


@cache
def on_cpu(row: str, dtype: DType) -> Values:
    return ROWS[row].run(oc.Context.cpu(threads=1), dtype)


@cache
def on_target(column: str, row: str) -> Values:
    return ROWS[row].run(COLUMNS[column].context(), COLUMNS[column].dtype)


@contextmanager
def noted() -> Generator[list[oc.Routine]]:
    """The routines that any context compiles."""
    routines: list[oc.Routine] = []
    compile = oc.Context._compile

    def note(*args: Any, **named: Any) -> oc.Routine:
        routines.append(compile(*args, **named))
        return routines[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oc.Context, "_compile", note)
        yield routines


def check_cell(column: str, row: str) -> None:
    target, program = COLUMNS[column], ROWS[row]
    if target.lacks:
        pytest.skip(target.lacks)
    exact = target.reference
    wanted = on_target(exact, row) if exact else on_cpu(row, target.dtype)
    tolerance = 0 if exact else program.tolerance if target.dtype == np.float32 else 1e-10
    with target.around(), noted() as routines:
        ctx = target.context()
        found = program.run(ctx, target.dtype)
        assert {routine.context for routine in routines} == {ctx}
        for routine in routines if target.assembles else ():
            check_resources(routine, target.dtype)
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        check_close(found[name], array, tolerance, name)


def check_close(found: Array, wanted: Array, tolerance: float, what: str) -> None:
    """In terms of the greatest number."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    scale = np.max(np.abs(wanted), initial=1, where=np.isfinite(wanted))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=min(tolerance * scale, 1), err_msg=what)


def check_resources(routine: oc.Routine, dtype: DType) -> None:
    """ptxas takes the kernels, and the schedule says what each has. Nothing is spilled, but perhaps around
    divisions in f64, which are calls, and no contractions.
    """
    table = routine.assemble()
    assert table == routine.schedule()
    head, *rows = table.splitlines()
    assert head.endswith("shared bytes  registers a thread  spilled bytes")
    for row in rows:
        shared, registers, spilled = map(int, row.split()[-3:])
        assert 0 < registers <= 255, row
        assert spilled == 0 or (dtype == np.float64 and not shared), row


@pytest.mark.parametrize(("column", "row"), CELLS[::SAMPLE])
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


def public_functions(module: Any) -> set[str]:
    return {name for name in module.__all__ if inspect.isfunction(getattr(module, name))}


def test_every_public_function_has_a_row():
    """Operators and blocks have rows by their tables."""
    called = names_in(compile(inspect.getsource(functions), "functions", "exec"))
    logics = {"einmax", "outer_sum", "tropical"}
    apart = {"tune"}  # for the CPU
    assert public_functions(oc) - called - logics == apart
    assert public_functions(train) - called == set()


def test_every_block_has_a_row():
    """`test_all_blocks` tells that each is in some table; these are all tables."""
    folder = Path(tables.__file__).parent
    found = {path.stem for path in folder.glob("test_*.py") if "\nCASES = {" in path.read_text()}
    assert {module.__name__.rpartition(".")[2] for module in tables.MODULES} == found


def test_every_example_has_a_row():
    folder = Path(__file__).parents[3] / "examples"
    programs = {path.stem for path in folder.glob("*.py") if "def main(" in path.read_text()}
    assert {f"example: {name}" for name in programs} <= ROWS.keys()
