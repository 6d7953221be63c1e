"""Compiled nests against an interpreter of the `loops` dialect."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.interpret_loops import Array, run_func
from support.nests import (
    Arrays,
    check,
    compare,
    nest_functions,
    parse_module,
    random_arrays,
    run_compiled,
    the_func,
)
from xdsl.context import Context

from ocannl.dialects.ir.errors import OcannlError
from ocannl.lowering.entry import EntryLayout, entry_layout
from ocannl.lowering.loops_to_llvm import loops_to_llvm
from ocannl.lowering.loops_to_llvm.calls import MOST_CALLS
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


@pytest.mark.sampled(2)
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
@pytest.mark.parametrize("edge", [4, 8])
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


EXTREMES = [-(2**63), -(2**31), -1, 0, 1, 12, 13, 2**31 - 1, 2**31, 2**63 - 1]
FLOATS = [*map(float, EXTREMES), -0.0, 0.5, 12.5, math.nan, math.inf, -math.inf, 1e300, 5e-324]


POSITION_TILES = [
    "",
    ", lanes = d : 8",
    ", lanes = t : 4",
    ", lanes = b : 8",
    ", rows = t : 5",
    ", rows = b : 3, lanes = d : 4",
    ", rows = d : 8, lanes = b : 8",
]


def guarded(shape: tuple[int, ...], dtype: str) -> tuple[Array, Array]:
    """An array, and the larger one in whose middle it is."""
    size, room = math.prod(shape), 4096
    around = np.full(size + 2 * room, 7, dtype)
    array = around[room : room + size].reshape(shape)
    array[...] = np.random.default_rng(0).normal(size=shape)
    return array, around


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", ["b, t, d", "d, t, b", "t, d, b"])
@pytest.mark.parametrize("tile", POSITION_TILES)
@pytest.mark.parametrize("type", ["i32", "i64", "f32", "f64"])
def test_positions_never_leave_the_node(type: str, tile: str, order: str):
    """Gathered and scattered, by rows and by lanes, at ids of any value."""
    text = f"""
loops.func @positions {{
  %ids = assign.node "ids" constant : memref<9x5x{type}>
  %x = assign.node "x" constant : memref<13x9xf32>
  %y = assign.node "y" on_device : memref<9x5x9xf32>
  %z = assign.node "z" on_device : memref<9x5x13x9xf32>
  loops.nest "y" (b = 9, t = 5, d = 9) schedule <order = ({order}){tile}> {{
    %id = loops.load %ids[b, t]
    %v, %inside = loops.position %id below 13
    %row = loops.load %x[%v, d]
    %r = loops.reduce add (k = 3) : f32 {{
      %w, %is = loops.position %id below 10
      %other = loops.load %x[%w + k, d]
      %none = arith.constant 0.0 : f32
      %p = arith.select %is, %other, %none : f32
      loops.yield %p
    }}
    %zero = arith.constant 0.0 : f32
    %chosen = arith.select %inside, %row, %zero : f32
    %sum = arith.addf %chosen, %r : f32
    loops.store %sum, %y[b, t, d]
    %old = loops.load %z[b, t, %v, d]
    %new = arith.addf %old, %sum : f32
    loops.store %new, %z[b, t, %v, d]
  }}
}}"""
    numpy_type = {"i32": "int32", "i64": "int64", "f32": "float32", "f64": "float64"}[type]
    values = np.array(FLOATS if type[0] == "f" else EXTREMES)
    with np.errstate(all="ignore"):
        ids = np.resize(values, (9, 5)).astype(numpy_type)
    module = parse_module(text)
    found: Arrays = {"ids": ids}
    arounds: list[Array] = []
    for label, shape in (("x", (13, 9)), ("y", (9, 5, 9)), ("z", (9, 5, 13, 9))):
        found[label], around = guarded(shape, "float32")
        arounds.append(around)
    expected = {label: array.copy() for label, array in found.items()}
    run_compiled(module, found)
    run_func(the_func(module), expected)
    compare(found, expected)
    for around in arounds:
        np.testing.assert_array_equal(around[:4096], 7)
        np.testing.assert_array_equal(around[-4096:], 7)


def test_entry_layout():
    text = """
loops.func @layout indices (batch_n = 80, step_n) {
  %x = assign.node "x" constant : memref<80x4xf32>
  %a = assign.node "a" local at 64 : memref<3xf64>
  %unused = assign.node "unused" local : memref<3xf64>
  %v = assign.node "v" virtual : memref<3xf64>
  %y = assign.node "y" on_device : memref<3xf64>
  loops.nest "y" (i = 3) {
    %c = arith.constant 1.0 : f64
    loops.store %c, %a[i]
    loops.store %c, %y[i]
  }
}"""
    module = parse_module(text)
    layout = entry_layout(the_func(module))
    assert layout == EntryLayout(("x", "y"), ("batch_n", "step_n"), 88)
    assert (layout.node_slot, layout.index_slot, layout.slots) == (1, 3, 5)
    check(module, {"batch_n": 0, "step_n": 0})


def test_a_local_node_needs_a_place():
    text = """
loops.func @homeless {
  %a = assign.node "a" local : memref<3xf32>
  loops.nest "a" (i = 3) {
    %c = arith.constant 1.0 : f32
    loops.store %c, %a[i]
  }
}"""
    with pytest.raises(OcannlError, match="local node `a` has no place in the arena: run plan-memory"):
        loops_to_llvm(parse_module(text))


def test_nodes_that_share_memory_may_alias():
    text = """
loops.func @shared {
  %a = assign.node "a" local at 0 : memref<8xf32>
  %b = assign.node "b" local at 16 : memref<8xf32>
  %c = assign.node "c" local at 64 : memref<8xf32>
  loops.nest "c" (i = 8) {
    %av = loops.load %a[i]
    %bv = loops.load %b[i]
    %s = arith.addf %av, %bv : f32
    loops.store %s, %c[i]
  }
}"""
    assert "(ptr %p0, ptr %p1, ptr noalias %p2)" in loops_to_llvm(parse_module(text))


def test_an_entry_with_many_calls_is_a_table():
    count = MOST_CALLS + 1
    nests = "\n".join(
        f"""
      loops.nest "x" (i = {k + 1}) {{
        %a{k} = loops.load %x[i]
        %one{k} = arith.constant 1.0 : f32
        %b{k} = arith.addf %a{k}, %one{k} : f32
        loops.store %b{k}, %x[i]
      }}"""
        for k in range(count)
    )
    text = f"""
    loops.func @many {{
      %x = assign.node "x" on_device because "node" : memref<{count}xf32>
      {nests}
    }}"""
    module = parse_module(text)
    check(module, tolerance=1e-6)
    code = loops_to_llvm(module)
    assert f"[{count * 5} x i64] [i64 ptrtoint (ptr @" in code
    assert code.count('call void @"many') == count
