"""Products of a matrix and a vector: pairs of bf16 by an instruction, and rows that are read apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.dot_products import product_of_blocks, product_of_decoded_blocks, small_numbers
from support.interpret_loops import run_func
from support.nests import parse_module, run_compiled, the_func
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ocannl.lowering.loops_to_llvm.module import loops_to_llvm
from ocannl.passes.analysis.costs import far_arrays
from ocannl.passes.analysis.targets.processors import processor
from ocannl.passes.loops.plan_memory import PlanMemoryPass
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.runtime.host.processor import host


def product(rows: int, depth: int, schedule: str, types: tuple[str, str] = ("bf16", "bf16")) -> str:
    """A matrix times a vector, plus what stands in the place of the result and the number of its row."""
    widened = [
        ("", f"%{name}") if type == "f32" else (f"%{name}w = arith.extf %{name} : {type} to f32", f"%{name}w")
        for name, type in zip("ab", types, strict=True)
    ]
    (first, left), (second, right) = widened
    return f"""
loops.func @f {{
  %w = assign.node "w" constant : memref<{rows}x{depth}x{types[0]}>
  %x = assign.node "x" constant : memref<{depth}x{types[1]}>
  %y = assign.node "y" on_device : memref<{rows}xf32>
  loops.nest "y" (o = {rows}) {schedule} {{
    %r = loops.reduce add (k = {depth}) : f32 {{
      %a = loops.load %w[o, k]
      {first}
      %b = loops.load %x[k]
      {second}
      %p = arith.mulf {left}, {right} : f32
      loops.yield %p
    }}
    %float = loops.index o : f32
    %old = loops.load %y[o]
    %more = arith.addf %r, %float : f32
    %sum = arith.addf %more, %old : f32
    loops.store %sum, %y[o]
  }}
}}"""


def planned(text: str) -> ModuleOp:
    module = parse_module(text)
    PlanMemoryPass().apply(Context(), module)
    return module


def check(text: str, threads: int = 1) -> None:
    """Compiled code computes what the text does: all sums are exact."""
    module = planned(text)
    expected = small_numbers(the_func(module))
    found: dict[str, NDArray[Any]] = {label: array.copy() for label, array in expected.items()}
    run_func(the_func(parse_module(text)), expected)
    run_compiled(module, found, threads=threads)
    np.testing.assert_array_equal(found["y"], expected["y"])


def llvm(text: str, cpu: str = "znver4") -> str:
    return loops_to_llvm(planned(text), target=processor(cpu))


needs_pairs = pytest.mark.skipif(
    "avx512bf16" not in host().features, reason="this processor has no AVX-512 BF16"
)


@pytest.mark.sampled(3)
@needs_pairs
@pytest.mark.parametrize("lanes", [4, 8, 16, 32])
@pytest.mark.parametrize("depth", [8, 31, 32, 33, 64, 100, 127, 640])
@pytest.mark.parametrize("rows", [1, 4, 5])
def test_pairs_of_all_sizes(rows: int, depth: int, lanes: int):
    check(product(11, depth, f"schedule <order = (o), rows = o : {rows}, lanes = k : {lanes}>"))


@needs_pairs
@pytest.mark.parametrize("compensated", [False, True])
def test_pairs_of_long_sums_are_added_in_blocks(compensated: bool):
    text = product(5, 5000, "schedule <order = (o), rows = o : 2, lanes = k : 16>")
    kept = "blocks 64 compensated" if compensated else "blocks 64"
    check(text.replace("(k = 5000) : f32", f"(k = 5000) {kept} : f32"))


def test_pairs_are_for_two_factors_of_bf16_along_the_sum():
    schedule = "schedule <order = (o), rows = o : 4, lanes = k : 16>"
    assert "dpbf16ps.512" in llvm(product(8, 64, schedule))
    assert "dpbf16ps" not in llvm(product(8, 64, schedule, ("bf16", "f32")))
    assert "dpbf16ps" not in llvm(product(8, 64, schedule), "znver3")
    assert "dpbf16ps" not in llvm(
        product(8, 64, schedule).replace("%w[o, k]", "%w[k, o]").replace("8x64x", "64x8x")
    )
    assert "dpbf16ps" not in llvm(product(8, 20, schedule))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("parallel", ["", "parallel = (o : 16), ", "parallel = (o : 24), "])
@pytest.mark.parametrize("rows", [48, 100, 101, 175])
def test_rows_apart(rows: int, parallel: str, threads: int, monkeypatch: pytest.MonkeyPatch):
    """Whole tasks, a last one that is smaller, and rows that fill no tile."""
    monkeypatch.setattr(far_arrays, "FAR", 2**14)
    monkeypatch.setattr(far_arrays, "PART", 2**12)
    schedule = f"schedule <order = (o), {parallel}rows = o : 8, lanes = k : 16>"
    text = product(rows, 300, schedule, ("f32", "f32"))
    module = planned(text)
    apart = 300 * (rows // 8 if not parallel else 3 if "24" in parallel else 2)
    assert f"i64 {7 * apart}" in loops_to_llvm(module, target=host())
    check(text, threads)


@pytest.mark.parametrize("rows", [1024, 4096])
@pytest.mark.parametrize(
    ("blocks", "lanes"), [(product_of_blocks, "l : 8"), (product_of_decoded_blocks, "j : 32")]
)
def test_bytes_of_one_row_are_prefetched_where_they_are_far(
    blocks: Callable[[int], str], lanes: str, rows: int
):
    schedule = f"schedule <order = (o), lanes = {lanes}>"
    text = llvm(blocks(rows).replace(f"(o = {rows})", f"(o = {rows}) {schedule}"), "znver3")
    assert ("call void @llvm.prefetch" in text) is (rows == 4096)


def test_a_product_with_a_vector_has_few_tasks():
    module = parse_module(product(2304, 768, "", ("f32", "f32")))
    SchedulePass(cpu="znver4").apply(Context(), module)
    assert "parallel = (o : 144), rows = o : 8, lanes = k : 16" in str(module)
