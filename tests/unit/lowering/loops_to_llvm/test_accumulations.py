"""Compiled accumulations: reductions in lanes and without, and points of a nest that meet in a cell."""

from __future__ import annotations

import numpy as np
import pytest
from support.nests import Arrays, check, parse_module, random_arrays, run_compiled, the_func

from ocannl.lowering.loops_to_llvm import loops_to_llvm


def reduced(accum: str, lanes: str, size: int = 11) -> str:
    schedule = f" schedule <lanes = {lanes}>" if lanes else ""
    return f"""
loops.func @reduced {{
  %x = assign.node "x" on_device : memref<5x{size}xf32>
  %y = assign.node "y" on_device : memref<5xf32>
  loops.nest "y" (b = 5){schedule} {{
    %r = loops.reduce {accum} (i = {size}) : f32 {{
      %v = loops.load %x[b, i]
      loops.yield %v
    }}
    loops.store %r, %y[b]
  }}
}}"""


def run_reduced(accum: str, lanes: str, x: list[list[float]]) -> list[float]:
    module = parse_module(reduced(accum, lanes, len(x[0])))
    arrays: Arrays = random_arrays(the_func(module))
    arrays["x"][...] = x
    run_compiled(module, arrays)
    return arrays["y"].tolist()


LANES = ("", "b : 4", "i : 4")


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("accum", ["max", "min"])
def test_extrema_keep_nan(accum: str, lanes: str):
    x = np.arange(55.0).reshape(5, 11)
    for row, column in enumerate((0, 3, 7, 10)):
        x[row, column] = np.nan
    expected = [np.nan] * 4 + [54.0 if accum == "max" else 44.0]
    np.testing.assert_array_equal(run_reduced(accum, lanes, x.tolist()), expected)


@pytest.mark.parametrize("lanes", LANES)
def test_logic_gives_zero_or_one(lanes: str):
    x = [[0.0, 0, 0], [0.0, 2, 0], [3.0, -1, 2], [np.nan, 1, 1], [0.0, 0, np.nan]]
    assert run_reduced("or", lanes, x) == [0, 1, 1, 1, 1]
    assert run_reduced("and", lanes, x) == [0, 0, 1, 1, 0]


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(("accum", "neutral"), [("add", 0), ("mul", 1), ("max", -np.inf), ("and", 1)])
def test_an_empty_reduction_is_neutral(accum: str, neutral: float, lanes: str):
    module = parse_module(reduced(accum, lanes, 0))
    arrays = random_arrays(the_func(module))
    run_compiled(module, arrays)
    assert arrays["y"].tolist() == [neutral] * 5


def test_reductions_shared_by_all_lanes_get_lanes_of_their_own():
    text = """
loops.func @softmax {
  %x = assign.node "x" on_device : memref<7x37xf32>
  %y = assign.node "y" on_device : memref<7x37xf32>
  loops.nest "y" (b = 7, c = 37) schedule <lanes = c : 8> {
    %m = loops.reduce max (d = 37) : f32 {
      %v = loops.load %x[b, d]
      loops.yield %v
    }
    %s = loops.reduce add (d = 37) : f32 {
      %v = loops.load %x[b, d]
      %t = arith.subf %v, %m : f32
      %e = math.exp %t : f32
      loops.yield %e
    }
    %v = loops.load %x[b, c]
    %t = arith.subf %v, %m : f32
    %e = math.exp %t : f32
    %p = arith.divf %e, %s : f32
    loops.store %p, %y[b, c]
  }
}"""
    module = parse_module(text)
    check(module, tolerance=1e-5)
    assert "@llvm.exp.f32" not in loops_to_llvm(module)


@pytest.mark.parametrize(
    "schedule",
    [
        "lanes = k : 4",
        "rows = b : 3, lanes = o : 8",
        "rows = o : 4, lanes = c : 4",
        "rows = k : 2, lanes = c : 2",
        "order = (k, o, c, b), rows = o : 5",
        "merged = (k*c), order = (b, o, k*c), lanes = k*c : 8",
        "merged = (k*c), order = (k*c, o, b), rows = b : 2, lanes = k*c : 16",
        "merged = (k*c), order = (k*c, o, b), rows = k*c : 4, lanes = b : 4",
    ],
)
def test_points_that_meet_in_a_cell_all_count(schedule: str):
    text = f"""
loops.func @scatter {{
  %g = assign.node "g" constant : memref<5x7x3x4xf32>
  %x = assign.node "x" on_device : memref<5x9x4xf32>
  loops.nest "x" (b = 5, o = 7, k = 3, c = 4) schedule <{schedule}> {{
    %v = loops.load %g[b, o, k, c]
    %old = loops.load %x[b, k + o, c]
    %new = arith.addf %old, %v : f32
    loops.store %new, %x[b, k + o, c]
  }}
}}"""
    module = parse_module(text)
    arrays = random_arrays(the_func(module))
    expected = arrays["x"].copy()
    for k in range(3):
        expected[:, k : k + 7] += arrays["g"][:, :, k]
    run_compiled(module, arrays)
    np.testing.assert_allclose(arrays["x"], expected, rtol=1e-5, atol=1e-5)
