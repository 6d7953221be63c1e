"""Random specs and programs on every target mean what they mean on the CPU.

Their sizes are small; in `small kernels`, so is what tiles and shared reductions begin at.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from support.kernels import SMALL
from support.program_check import check
from support.spec_claims import CLAIMS, SOME, Place
from support.targets.columns import COLUMNS
from support.tensor_programs import Program, programs

NAMES = ("checked", "sm_90", "gpu", "metal")
EVERYWHERE = pytest.mark.parametrize("column", NAMES)
SIZES = pytest.mark.parametrize("small", [False, True], ids=["kernels", "small kernels"])
SPECS = pytest.mark.parametrize("claim", [name for name in CLAIMS if name != "shapes"])
FEW, MANY = settings(SOME, max_examples=3), settings(SOME, max_examples=100, derandomize=False, database=None)


@contextmanager
def kernels(small: bool) -> Generator[None]:
    """Nothing that was compiled with other sizes comes from the cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCANNL_CACHE", "off")
        for module, values in SMALL.items() if small else ():
            for name, value in values.items():
                patch.setattr(module, name, value)
        yield


def check_specs(claim: str, column: str, small: bool, how: settings) -> None:
    spec_check, strategy = CLAIMS[claim]
    target = COLUMNS[column]

    def one(args: tuple[Any, ...]) -> None:
        note(f"{args[0].text!r}: {args}")
        with kernels(small), target.running() as ctx:
            spec_check(Place(ctx, target.dtype), *args)

    how(given(strategy)(one))()


def check_programs(column: str, small: bool, how: settings) -> None:
    target = COLUMNS[column]

    def one(program: Program, watched: set[int]) -> None:
        with kernels(small), target.running() as ctx:
            check(ctx, program, [np.float32] * len(program.leaves), watched, 2e-4)

    how(given(programs(), st.sets(st.integers(0, 9), max_size=3))(one))()


@pytest.mark.exhaustive
@pytest.mark.sampled(7)
@EVERYWHERE
@SPECS
def test_specs(claim: str, column: str):
    check_specs(claim, column, True, FEW)


@pytest.mark.sampled(3)
@EVERYWHERE
def test_programs(column: str):
    check_programs(column, True, FEW)


@pytest.mark.exhaustive
@EVERYWHERE
@SIZES
@SPECS
def test_many_specs(claim: str, column: str, small: bool):
    check_specs(claim, column, small, MANY)


@pytest.mark.exhaustive
@EVERYWHERE
@SIZES
def test_many_programs(column: str, small: bool):
    check_programs(column, small, MANY)
