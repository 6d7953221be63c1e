"""Compiled nests against an interpreter of the `loops` dialect: any tiles, lanes, groups and threads."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.nests import check, nest_functions, parse_module, random_arrays, run_compiled, the_func
from xdsl.context import Context

from ocannl.lowering.loops_to_llvm import loops_to_llvm
from ocannl.passes.loops.plan_memory import PlanMemoryPass
from ocannl.passes.loops.schedule.schedule import SchedulePass

INDICES = {"step": 2, "batch": 3}
RANDOM = settings(
    max_examples=16, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


@RANDOM
@given(nest_functions())
def test_random_nests(text: str):
    check(parse_module(text), INDICES, 1e-3)


@RANDOM
@given(nest_functions(scheduled=False))
def test_random_nests_as_the_pass_schedules_them(text: str):
    module = parse_module(text)
    SchedulePass().apply(Context(), module)
    module.verify()
    PlanMemoryPass().apply(Context(), module)
    check(module, INDICES, 1e-3)


GROUP = """
loops.func @rows indices (step, batch = 4) attributes {arena = 0 : i64} {
  %x = assign.node "x" on_device : memref<4x6x37xf32>
  %y = assign.node "y" on_device : memref<6x37xf32>
  %sum = assign.node "sum" on_device : memref<37xf32>
  loops.group "m .. y" (b_block = 3) {
    %m = assign.node "m" local because "intermediate value" : memref<2xf32>
    %e = assign.node "e" local because "intermediate value" : memref<2x37xf32>
    loops.nest "m" (b = 2) {
      %r = loops.reduce max (o = 37) : f32 {
        %v = loops.load %x[batch, 2*b_block + b, o]
        loops.yield %v
      }
      loops.store %r, %m[b]
    }
    loops.nest "e" (b = 2, o = 37) {
      %v = loops.load %x[batch, 2*b_block + b, o]
      %r = loops.load %m[b]
      %d = arith.subf %v, %r : f32
      loops.store %d, %e[b, o]
    }
    loops.nest "y" (b = 2, o = 37) {
      %v = loops.load %e[-b + 1, o]
      %n = loops.index 10*b_block + b + step : f32
      %d = arith.addf %v, %n : f32
      loops.store %d, %y[2*b_block + b, o]
    }
    loops.nest "sum" (o = 37) {
      %old = loops.load %sum[o]
      %r = loops.reduce add (b = 2) : f32 {
        %v = loops.load %e[b, o]
        loops.yield %v
      }
      %new = arith.addf %old, %r : f32
      loops.store %new, %sum[o]
    }
  }
}"""


@pytest.mark.parametrize("scheduled", [False, True])
def test_nests_of_a_group_run_in_turn_at_every_point(scheduled: bool):
    module = parse_module(GROUP)
    if scheduled:
        SchedulePass().apply(Context(), module)
    check(module, INDICES)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("block", [1, 2])
def test_threads_share_a_group(block: int, threads: int):
    text = GROUP.replace("(b_block = 3)", f"(b_block = 3) schedule <parallel = (b_block : {block})>")
    module = parse_module(re.sub(r"    loops.nest \"sum\".*?\n    }\n", "", text, flags=re.DOTALL))
    check(module, INDICES, threads=threads)


@pytest.mark.exhaustive
@settings(RANDOM, max_examples=10)
@given(nest_functions(), st.sampled_from((2, 3, 5)))
def test_threads_do_not_change_bits(text: str, threads: int):
    module = parse_module(text)
    alone = random_arrays(the_func(module))
    shared = {label: array.copy() for label, array in alone.items()}
    run_compiled(module, alone, INDICES)
    run_compiled(module, shared, INDICES, threads)
    for label, array in alone.items():
        np.testing.assert_array_equal(shared[label], array, err_msg=label)


def contraction(element: str, schedule: str, w: str = "o, i", shape: str = "37x23") -> str:
    """`y[b, o] = w[o, i] x[b, i]` for 21 rows, 37 outputs and 23 inputs."""
    return f"""
loops.func @contraction {{
  %w = assign.node "w" on_device : memref<{shape}x{element}>
  %x = assign.node "x" on_device : memref<21x23x{element}>
  %y = assign.node "y" on_device : memref<21x37x{element}>
  loops.nest "y" (b = 21, o = 37){schedule} {{
    %sum = loops.reduce add (i = 23) : {element} {{
      %wv = loops.load %w[{w}]
      %xv = loops.load %x[b, i]
      %p = arith.mulf %wv, %xv : {element}
      loops.yield %p
    }}
    loops.store %sum, %y[b, o]
  }}
}}"""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("order", ["b, o", "o, b"])
@pytest.mark.parametrize(
    "tile",
    [
        "rows = b : 8, lanes = o : 16",
        "rows = b : 8, lanes = o : 64",
        "rows = o : 5, lanes = b : 8",
        "rows = o : 4, lanes = i : 8",
        "rows = b : 3, lanes = i : 32",
        "lanes = i : 4",
        "rows = b : 30",
        "rows = b : 3, lanes = o : 8, chains = 3",
        "lanes = o : 16, chains = 4",
        "chains = 30",
        "parallel = (b : 8), rows = b : 8, lanes = o : 16",
        "parallel = (o : 16, b : 16), rows = b : 8, lanes = o : 16",
        "parallel = (b : 2), rows = o : 4, lanes = i : 8",
        "parallel = (b : 20, o : 64), lanes = o : 64",
    ],
)
def test_tiles_of_a_contraction(element: str, order: str, tile: str):
    schedule = f" schedule <order = ({order}), {tile}>"
    tolerance = 1e-5 if element == "f32" else 1e-13
    check(parse_module(contraction(element, schedule)), tolerance=tolerance)
    check(parse_module(contraction(element, schedule, "i, o", "23x37")), tolerance=tolerance)


@pytest.mark.parametrize("rows", ["i", "o"])
@pytest.mark.parametrize("edge", [4, 8, 16])
def test_transposition_in_registers(rows: str, edge: int):
    lanes = "o" if rows == "i" else "i"
    text = f"""
loops.func @transpose {{
  %x = assign.node "x" on_device : memref<19x21xf32>
  %y = assign.node "y" on_device : memref<21x19xf32>
  loops.nest "y" (i = 21, o = 19) schedule <rows = {rows} : {edge}, lanes = {lanes} : {edge}> {{
    %v = loops.load %x[o, i]
    loops.store %v, %y[i, o]
  }}
}}"""
    check(parse_module(text), tolerance=0)


@pytest.mark.parametrize("element", ["f32", "f64", "f16", "i8"])
@pytest.mark.parametrize("sizes", [(67, 67), (100, 33), (17, 250)])
def test_sizes_beside_those_of_tiles_are_transposed_in_registers(element: str, sizes: tuple[int, int]):
    rows, columns = sizes
    text = f"""
loops.func @transpose {{
  %x = assign.node "x" on_device : memref<{rows}x{columns}x{element}>
  %y = assign.node "y" on_device : memref<{columns}x{rows}x{element}>
  loops.nest "y" (i = {columns}, j = {rows}) {{
    %v = loops.load %x[j, i]
    loops.store %v, %y[i, j]
  }}
}}"""
    module = parse_module(text)
    SchedulePass().apply(Context(), module)
    assert "rows = " in str(module)
    check(module, tolerance=0)


@pytest.mark.parametrize("maps", ["%x[j, i], %y[i, j]", "%x[i, j], %y[j, i]"])
@pytest.mark.parametrize("size", [64, 72])
def test_what_is_transposed_from_memory_is_read_in_panels(maps: str, size: int):
    load, store = maps.split(", %")
    text = f"""
loops.func @transpose {{
  %x = assign.node "x" on_device : memref<{size}x{size}xf32>
  %y = assign.node "y" on_device : memref<{size}x{size}xf32>
  loops.nest "y" (i = {size}, j = {size}) {{
    %v = loops.load {load}
    loops.store %v, %{store}
  }}
}}"""
    module = parse_module(text)
    SchedulePass(last_level_bytes=1024).apply(Context(), module)
    module.verify()
    assert ("_panel" in str(module)) == (size == 64)
    check(module, tolerance=0)


SCALARS = """
loops.func @scalars {
  %x = assign.node "x" on_device : memref<40xf32>
  %k = assign.node "k" on_device : memref<40xi32>
  %f = assign.node "f" on_device : memref<40xf32>
  %d = assign.node "d" on_device : memref<40xf64>
  %n = assign.node "n" on_device : memref<40xi32>
  loops.nest "all" (i = 40)SCHEDULE {
    %xv = loops.load %x[i]
    %kv = loops.load %k[i]
    %half = arith.constant 0.5 : f32
    %three = arith.constant 3 : i32
    %bits = arith.bitcast %xv : f32 to i32
    %shifted = arith.shrui %bits, %three : i32
    %signed = arith.shrsi %bits, %three : i32
    %left = arith.shli %kv, %three : i32
    %mixed = arith.xori %shifted, %left : i32
    %both = arith.andi %mixed, %signed : i32
    %either = arith.ori %both, %kv : i32
    %sum = arith.addi %either, %three : i32
    %number = arith.subi %sum, %kv : i32
    loops.store %number, %n[i]
    %less = arith.cmpi slt, %kv, %three : i32
    %below = arith.cmpf olt, %xv, %half : f32
    %which = arith.andi %less, %below : i1
    %one = arith.uitofp %which : i1 to f32
    %root = math.sqrt %xv : f32
    %size = math.absf %xv : f32
    %floor = math.floor %xv : f32
    %ceil = math.ceil %xv : f32
    %even = math.roundeven %xv : f32
    %whole = math.trunc %xv : f32
    %sign = math.copysign %size, %floor : f32
    %picked = arith.select %below, %root, %sign : f32
    %a = math.fma %ceil, %even, %whole : f32
    %least = arith.minimumf %picked, %a : f32
    %most = arith.maximumf %least, %one : f32
    %e = math.exp %size : f32
    %r = arith.divf %most, %e : f32
    loops.store %r, %f[i]
    %wide = arith.extf %r : f32 to f64
    %truth = arith.extui %which : i1 to i32
    %integer = arith.fptosi %floor : f32 to i32
    %total = arith.addi %truth, %integer : i32
    %double = arith.sitofp %total : i32 to f64
    %c = arith.addf %wide, %double : f64
    loops.store %c, %d[i]
  }
}"""


@pytest.mark.parametrize("schedule", ["", " schedule <lanes = i : 16>", " schedule <rows = i : 3>"])
def test_scalar_operations(schedule: str):
    check(parse_module(SCALARS.replace("SCHEDULE", schedule)), tolerance=1e-6)


def test_an_empty_nest_runs_nothing():
    text = """
loops.func @nothing {
  %y = assign.node "y" on_device : memref<3xf32>
  loops.nest "y" (i = 3, j = 0) {
    %c = arith.constant 1.0 : f32
    loops.store %c, %y[i]
  }
}"""
    check(parse_module(text))


def test_a_nest_reads_what_it_overwrites_before_it_does():
    text = """
loops.func @update {
  %x = assign.node "x" on_device : memref<6x20xf32>
  loops.nest "x" (i = 6, j = 20) schedule <order = (j, i), rows = i : 4, lanes = j : 8> {
    %v = loops.load %x[i, j]
    %s = arith.mulf %v, %v : f32
    loops.store %s, %x[i, j]
    %w = loops.load %x[i, j]
    %t = arith.addf %w, %v : f32
    loops.store %t, %x[i, j]
  }
}"""
    check(parse_module(text), tolerance=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("channels", [2, 3, 6, 8])
@pytest.mark.parametrize("lanes", ["j : 2", "j : 8", "j : 16", "i*j : 8"])
def test_rows_that_lie_element_by_element_beside_each_other(element: str, channels: int, lanes: str):
    merged = "merged = (i*j), " if lanes[1] == "*" else ""
    text = f"""
loops.func @channels {{
  %x = assign.node "x" constant : memref<3x13x{channels}x{element}>
  %s = assign.node "s" constant : memref<{channels}x3x13x{element}>
  %y = assign.node "y" on_device : memref<3x13x{channels}x{element}>
  loops.nest "y" (i = 3, j = 13, c = {channels}) schedule <{merged}rows = c : {channels}, lanes = {lanes}> {{
    %v = loops.load %x[i, j, c]
    %w = loops.load %s[c, i, j]
    %p = arith.mulf %v, %w : {element}
    loops.store %p, %y[i, j, c]
  }}
}}"""
    assert "shufflevector" in loops_to_llvm(parse_module(text))
    check(parse_module(text), tolerance=1e-6)


@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
@pytest.mark.parametrize("schedule", ["lanes = j : 8", "rows = i : 2, lanes = j : 16", "lanes = j : 32"])
def test_rows_from_their_ends(element: str, schedule: str):
    text = f"""
loops.func @reversed {{
  %x = assign.node "x" constant : memref<3x21x{element}>
  %y = assign.node "y" on_device : memref<3x21x{element}>
  %z = assign.node "z" on_device : memref<3x21x{element}>
  loops.nest "y" (i = 3, j = 21) schedule <{schedule}> {{
    %v = loops.load %x[i, -j + 20]
    loops.store %v, %y[i, j]
    loops.store %v, %z[i, -j + 20]
  }}
}}"""
    assert "insertelement" not in loops_to_llvm(parse_module(text))
    check(parse_module(text), tolerance=0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "i8"])
@pytest.mark.parametrize("apart", [2, 3, 4, -2, -3, 5])
@pytest.mark.parametrize("schedule", ["lanes = j : 8", "rows = i : 2, lanes = j : 16", "lanes = j : 32"])
def test_elements_a_few_apart(element: str, apart: int, schedule: str):
    """The last one is the last of its array, behind which nothing may be read."""
    size, start = 20 * abs(apart) + 1, max(0, -20 * apart)
    text = f"""
loops.func @apart {{
  %x = assign.node "x" constant : memref<3x{size}x{element}>
  %y = assign.node "y" on_device : memref<3x21x{element}>
  loops.nest "y" (i = 3, j = 21) schedule <{schedule}> {{
    %v = loops.load %x[i, {apart}*j + {start}]
    loops.store %v, %y[i, j]
  }}
}}"""
    assert ("insertelement" in loops_to_llvm(parse_module(text))) == (abs(apart) > 4)
    check(parse_module(text), tolerance=1e-6)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "i8"])
@pytest.mark.parametrize("order", [(0, 1), (2, 0, 1), (3, 1, 2, 0)])
@pytest.mark.parametrize("schedule", ["lanes = j : 8", "rows = i : 2, lanes = j : 16", "lanes = j : 32"])
def test_stores_that_fill_the_gaps_of_each_other(element: str, order: tuple[int, ...], schedule: str):
    count = len(order)
    loads = "\n".join(f"    %v{part} = loops.load %x[{part}, i, j]" for part in range(count))
    stores = "\n".join(f"    loops.store %v{part}, %y[i, j, {part}]" for part in order)
    text = f"""
loops.func @beside {{
  %x = assign.node "x" constant : memref<{count}x3x21x{element}>
  %y = assign.node "y" on_device : memref<3x21x{count}x{element}>
  loops.nest "y" (i = 3, j = 21) schedule <{schedule}> {{
{loads}
{stores}
  }}
}}"""
    assert "extractelement" not in loops_to_llvm(parse_module(text))
    check(parse_module(text), tolerance=1e-6)
