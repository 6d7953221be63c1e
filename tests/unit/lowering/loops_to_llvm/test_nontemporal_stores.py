"""Stores past the caches set the same values, by instructions of their own where they write whole lines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from support.nests import check, nest_functions, parse_module
from xdsl.dialects.builtin import ModuleOp, UnitAttr

from ocannl.dialects.loops import StoreOp
from ocannl.lowering.loops_to_llvm import loops_to_llvm

INDICES = {"step": 2, "batch": 3}


def copy(rows: int, columns: int, schedule: str, indices: str = "i, j", element: str = "f32") -> ModuleOp:
    text = f"""
loops.func @copy {{
  %x = assign.node "x" on_device : memref<{rows}x{columns}x{element}>
  %y = assign.node "y" on_device : memref<{rows}x{columns}x{element}>
  loops.nest "y" (i = {rows}, j = {columns}) schedule <{schedule}> {{
    %v = loops.load %x[i, j]
    loops.store %v, %y[{indices}] nontemporal
  }}
}}"""
    return parse_module(text)


def instructions(module: ModuleOp) -> int:
    return loops_to_llvm(module).count("!nontemporal")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("module", "count"),
    [
        (copy(6, 64, "order = (i, j), lanes = j : 64"), 1),
        (copy(6, 64, "order = (i, j), parallel = (i : 2), lanes = j : 16"), 1),
        (copy(6, 64, "order = (j, i), rows = i : 4, lanes = j : 32"), 6),
        (copy(6, 48, "order = (i, j), lanes = j : 8", element="f64"), 1),
        # A rest of the vectors is no line.
        (copy(6, 80, "order = (i, j), lanes = j : 64"), 2),
        (copy(6, 336, "merged = (i*j), order = (i*j), lanes = i*j : 64"), 2),
        (copy(6, 33, "merged = (i*j), order = (i*j), lanes = i*j : 64"), 1),
        # A transposed square.
        (copy(32, 32, "order = (j, i), rows = j : 16, lanes = i : 16"), 16),
    ],
)
def test_whole_lines_go_past_the_caches(module: ModuleOp, count: int, threads: int):
    assert instructions(module) == count
    assert loops_to_llvm(module).count("fence seq_cst\n  ret void") == 1
    check(module, threads=threads)


@pytest.mark.parametrize(
    "module",
    [
        copy(6, 33, "order = (i, j), lanes = j : 16"),
        copy(6, 64, "order = (i, j), lanes = j : 8"),
        copy(6, 64, "order = (i, j), rows = j : 4"),
        copy(6, 64, "order = (i, j), lanes = j : 16", indices="i, -j + 63"),
        copy(32, 32, "order = (j, i), rows = j : 8, lanes = i : 8"),
        copy(6, 64, "order = (i, j)"),
    ],
)
def test_parts_of_lines_do_not(module: ModuleOp):
    text = loops_to_llvm(module)
    assert "!nontemporal" not in text
    assert "fence" not in text
    check(module)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(nest_functions())
def test_random_nests_may_ask_for_it(text: str):
    module = parse_module(text)
    for op in module.walk():
        if isinstance(op, StoreOp):
            op.properties["nontemporal"] = UnitAttr()
    check(module, INDICES, 1e-3)
