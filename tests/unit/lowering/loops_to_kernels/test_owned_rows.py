"""Sums at positions that are found at run time: blocks own rows, and no order of blocks changes a bit."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import check, gradient_of_rows, lowered
from support.nests import parse_module
from support.ptx.run import run_ptx
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.kernel import BarrierOp, LaunchOp
from ocannl.dialects.kernel.condition import IfOp
from ocannl.dialects.kernel.gpu import PROCESSORS
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.lowering.loops_to_kernels import owned_rows
from ocannl.lowering.loops_to_kernels.lower import LowerLoopsToKernelsPass
from ocannl.runtime.cuda.ptx import ptx_text


def launch_of(module: ModuleOp) -> LaunchOp:
    (launch,) = (op for op in module.walk() if isinstance(op, LaunchOp))
    return launch


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("batch", "length", "rows", "columns"),
    [(2, 48, 9, 40), (3, 37, 1000, 8), (1, 96, 5, 30), (7, 64, 70, 1), (5, 128, 3, 1100)],
)
@pytest.mark.parametrize("id", ["i32", "f32"])
def test_rows(batch: int, length: int, rows: int, columns: int, id: str):
    """As the interpreter of nests computes them: with checks for races, blocks and threads in any order."""
    module = check(gradient_of_rows(batch, length, rows, columns, id), Emulation(shuffle=3, check=True))
    assert any(isinstance(op, IfOp) for op in module.walk())


@pytest.mark.parametrize("accum", ["maximumf", "mulf"])
def test_other_accumulations(accum: str):
    check(gradient_of_rows(2, 48, 9, 12, accum=accum))


def test_two_positions_and_rows_beside_them():
    """Cells are found by two ids, in one matrix for each head."""
    check("""
loops.func @pairs {
  %one = assign.node "one" on_device : memref<40xi32>
  %two = assign.node "two" on_device : memref<40xi32>
  %g = assign.node "g" on_device : memref<40x3x8xf32>
  %w = assign.node "w" on_device : memref<3x6x5x8xf32>
  loops.nest "w" (t = 40, h = 3, d = 8) {
    %a = loops.load %one[t]
    %b = loops.load %two[t]
    %i, %is = loops.position %a below 6
    %j, %js = loops.position %b below 5
    %x = loops.load %g[t, h, d]
    %old = loops.load %w[h, %i, %j, d]
    %new = arith.addf %old, %x : f32
    loops.store %new, %w[h, %i, %j, d]
  }
}
""")


def test_a_table_for_each_head():
    """Which row it is may depend on variables of blocks; not on those of threads, where none owns a row."""
    text = """
loops.func @tables {{
  %ids = assign.node "ids" on_device : memref<40x3xi32>
  %g = assign.node "g" on_device : memref<40x3x{columns}xf32>
  %w = assign.node "w" on_device : memref<3x6x{columns}xf32>
  loops.nest "w" (t = 40, h = 3, d = {columns}) {{
    %a = loops.load %ids[t, h]
    %i, %is = loops.position %a below 6
    %x = loops.load %g[t, h, d]
    %old = loops.load %w[h, %i, d]
    %new = arith.addf %old, %x : f32
    loops.store %new, %w[h, %i, d]
  }}
}}
"""
    assert any(isinstance(op, IfOp) for op in check(text.format(columns=8)).walk())
    assert not any(isinstance(op, IfOp) for op in check(text.format(columns=1)).walk())


def test_a_large_table_has_blocks_for_all_processors():
    launch = launch_of(lowered(gradient_of_rows(8, 1024, 50257, 768)))
    assert launch.blocks > 2 * PROCESSORS
    assert launch.threads == 256


@pytest.mark.parametrize(("batch", "length", "rows", "columns"), [(4, 8, 9, 5), (1, 20, 9, 64)])
def test_few_points_are_done_by_one_block(
    batch: int, length: int, rows: int, columns: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(owned_rows, "LEAST_POINTS", 33)
    module = check(gradient_of_rows(batch, length, rows, columns))
    assert not any(isinstance(op, IfOp | BarrierOp) for op in module.walk())


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [40, 33])
def test_as_ptx(width: int):
    """In the order of positions, to the bit; ids that are none of the rows add nothing."""
    batch, length, rows = 3, 96, 50
    rng = np.random.default_rng(1)
    ids = rng.integers(-2, rows + 2, (batch, length)).astype(np.int32)
    ids[1] = 7
    arrays = {
        "ids": ids,
        "g": rng.standard_normal((batch, length, width)).astype(np.float32),
        "w": rng.standard_normal((rows, width)).astype(np.float32),
    }
    expected = arrays["w"].copy()
    for id, row in zip(ids.reshape(-1), arrays["g"].reshape(-1, width), strict=True):
        if 0 <= id < rows:
            expected[id] += row
    module = parse_module(gradient_of_rows(batch, length, rows, width))
    LowerLoopsToKernelsPass().apply(Context(), module)
    run_ptx(ptx_text(module, "sm_80"), arrays)
    np.testing.assert_array_equal(arrays["w"], expected)


def test_each_row_has_one_block(monkeypatch: pytest.MonkeyPatch):
    """Also where there are more rows than blocks, and more chunks than a block notes one by one."""
    monkeypatch.setattr(owned_rows, "PROCESSORS", 2)
    monkeypatch.setattr(owned_rows, "MOST_CHUNKS", 3)
    launch = launch_of(check(gradient_of_rows(3, 96, 50, 40)))
    assert dict(launch.grid.data) == {"owner": 8}
