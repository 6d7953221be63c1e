"""Products that tiles do not cover are two nests, which together compute what the one did."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.interpret_loops import run_func
from support.nests import parse_module, random_arrays, run_compiled, the_func
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ocannl.passes.analysis.nests import nests
from ocannl.passes.analysis.targets.processors import processor
from ocannl.passes.loops.plan_memory import PlanMemoryPass
from ocannl.passes.loops.schedule.remainders import Splitting, split_off_remainder
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.runtime.host.processor import missing_features

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "znver4", "neoverse-n1")
TARGETS = [name for name in LEVELS if not missing_features(processor(name))]


def update(rows: int, columns: int, depth: int, x: str = "k, i", g: str = "k, j") -> str:
    """The update of a weight by its gradient: the nest reads what it overwrites."""
    sizes = {"i": rows, "j": columns, "k": depth}
    shapes = {axes: "x".join(str(sizes[a]) for a in axes.split(", ")) for axes in (x, g)}
    return f"""
loops.func @update {{
  %x = assign.node "x" on_device : memref<{shapes[x]}xf32>
  %g = assign.node "g" on_device : memref<{shapes[g]}xf32>
  %w = assign.node "w" on_device : memref<{rows}x{columns}xf32>
  loops.nest "w" (i = {rows}, j = {columns}) {{
    %sum = loops.reduce add (k = {depth}) : f32 {{
      %xv = loops.load %x[{x}]
      %gv = loops.load %g[{g}]
      %p = arith.mulf %xv, %gv : f32
      loops.yield %p
    }}
    %old = loops.load %w[i, j]
    %new = arith.subf %old, %sum : f32
    loops.store %new, %w[i, j]
  }}
}}"""


@given(st.sampled_from("ij"), st.integers(1, 6))
def test_both_parts_compute_what_the_whole_did(variable: str, whole: int):
    module = parse_module(update(7, 8, 3))
    func = the_func(module)
    expected = random_arrays(func)
    found = {label: array.copy() for label, array in expected.items()}
    run_func(func, expected, {})
    (nest,) = nests(func)
    remainder = split_off_remainder(nest, Splitting(variable, whole))
    module.verify()
    assert nests(func) == [nest, remainder]
    assert dict(nest.space.data)[variable] == whole
    run_func(func, found, {})
    np.testing.assert_array_equal(found["w"], expected["w"])


def scheduled(text: str, target: str) -> ModuleOp:
    module = parse_module(text)
    SchedulePass(cpu=target).apply(Context(), module)
    PlanMemoryPass().apply(Context(), module)
    module.verify()
    return module


@pytest.mark.sampled(8)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("x", "g"), [("k, i", "k, j"), ("i, k", "k, j"), ("i, k", "j, k"), ("k, i", "j, k")])
@pytest.mark.parametrize("columns", [523, 700])
def test_large_products_are_right(target: str, x: str, g: str, columns: int):
    module = scheduled(update(413, columns, 601, x, g), target)
    arrays = random_arrays(the_func(module))
    before = {name: array.astype(np.float64) for name, array in arrays.items()}
    run_compiled(module, arrays, threads=2, target=processor(target))
    product = np.einsum(f"{x},{g}->ij".replace(", ", ""), before["x"], before["g"])
    np.testing.assert_allclose(arrays["w"], before["w"] - product, rtol=1e-4, atol=1e-3)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("x", "g"), [("i, k", "k, j"), ("i, k", "j, k"), ("k, i", "j, k")])
@pytest.mark.parametrize("columns", [9, 17, 20, 33])
def test_columns_beside_those_of_vectors_are_right(target: str, x: str, g: str, columns: int):
    module = scheduled(update(129, columns, 143, x, g), target)
    arrays = random_arrays(the_func(module))
    before = {name: array.astype(np.float64) for name, array in arrays.items()}
    run_compiled(module, arrays, threads=2, target=processor(target))
    product = np.einsum(f"{x},{g}->ij".replace(", ", ""), before["x"], before["g"])
    np.testing.assert_allclose(arrays["w"], before["w"] - product, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("before", "after"),
    [("reduce add", "reduce max"), ("store %new, %w[i, j]", "store %new, %w[i, 0]"), ("(i = 700", "(i = 1")],
)
def test_other_nests_stay_whole(before: str, after: str):
    """Another accumulation, results that several points store to, a small product."""
    assert "remainder" in str(scheduled(update(700, 700, 700), "x86-64-v3"))
    assert "remainder" not in str(scheduled(update(700, 700, 700).replace(before, after), "x86-64-v3"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("x", "g"), [("i, k", "k, j"), ("i, k", "j, k"), ("k, i", "k, j")])
@pytest.mark.parametrize("size", [243, 257])
def test_columns_that_begin_anywhere_in_a_line_are_right(target: str, x: str, g: str, size: int):
    module = scheduled(update(size, size, size, x, g), target)
    arrays = random_arrays(the_func(module))
    before = {name: array.astype(np.float64) for name, array in arrays.items()}
    run_compiled(module, arrays, threads=2, target=processor(target))
    product = np.einsum(f"{x},{g}->ij".replace(", ", ""), before["x"], before["g"])
    np.testing.assert_allclose(arrays["w"], before["w"] - product, rtol=1e-4, atol=1e-3)
