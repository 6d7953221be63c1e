"""Kernels of small programs, emulated, against an interpreter of the nests that they come from."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
from support.interpret_loops import run_func
from support.nests import compare, parse_module, random_arrays, run_compiled, the_func
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.lowering.loops_to_kernels import contraction, fused_rows, pointwise
from ocannl.lowering.loops_to_kernels.lower import LowerLoopsToKernelsPass
from ocannl.lowering.pipelines import module_text
from ocannl.passes.analysis.patterns import contractions
from ocannl.passes.analysis.schedules import shared_reductions
from ocannl.passes.loops.fuse_rows import fuse_rows
from ocannl.passes.loops.fuse_rows.fuse_rows import FuseRowsPass
from ocannl.passes.loops.plan_memory import PlanMemoryPass
from ocannl.passes.loops.split_k import split_k
from ocannl.passes.loops.split_k.split_k import SplitKPass

INDICES = {"step": 2, "batch": 3}


SMALL: dict[ModuleType, dict[str, object]] = {
    shared_reductions: {"LEAST_REDUCED": 2, "THREADS": 64, "LONG": 9},
    fuse_rows: {"LEAST_REDUCED": 2},
    fused_rows: {"THREADS": 64, "LONG": 9},
    contractions: {"LEAST_SIDE": 2, "LEAST_REDUCED": 2},
    contraction: {"DEPTHS": (3, 2)},
    pointwise: {"THREADS": 32, "MANY_POINTS": 8},
    split_k: {"STEP_DEPTH": 1, "LAUNCH_CYCLES": -500},
}
"""Tiles, shared reductions and vectors also for nests that are small."""


@pytest.fixture(scope="class")
def small_kernels() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, values in SMALL.items():
            for name, value in values.items():
                patch.setattr(module, name, value)
        yield


def lowered(text: str) -> ModuleOp:
    module = parse_module(text)
    SplitKPass().apply(Context(), module)
    FuseRowsPass().apply(Context(), module)
    PlanMemoryPass().apply(Context(), module)
    LowerLoopsToKernelsPass().apply(Context(), module)
    module.verify()
    assert module_text(parse_module(module_text(module))) == module_text(module)
    return module


def operations(module: ModuleOp) -> set[type]:
    return {type(op) for op in module.walk()}


def check(text: str, emulation: Emulation | None = None, tolerance: float = 1e-4) -> ModuleOp:
    """The kernels of a program compute what the interpreter does; returns them."""
    original = parse_module(text)
    found = random_arrays(the_func(original))
    expected = {label: array.copy() for label, array in found.items()}
    module = lowered(text)
    run_compiled(module, found, INDICES, emulation=emulation or Emulation(shuffle=5, check=True))
    run_func(the_func(original), expected, INDICES)
    compare(found, expected, tolerance)
    return module


def layer(
    rows: int,
    columns: int,
    depth: int,
    element: str = "f32",
    w: str = "o, i",
    accum: str = "add",
    op: str = "mulf",
    y: str = "b, o",
) -> str:
    """A product with a bias before it and an addition after it."""
    sizes = {"b": rows, "o": columns, "i": depth}
    shape = {axes: "x".join(str(sizes[a]) for a in axes.split(", ")) for axes in (w, y)}
    return f"""
loops.func @layer {{
  %w = assign.node "w" on_device : memref<{shape[w]}x{element}>
  %x = assign.node "x" on_device : memref<{rows}x{depth}x{element}>
  %b = assign.node "b" on_device : memref<{columns}x{element}>
  %y = assign.node "y" on_device : memref<{shape[y]}x{element}>
  loops.nest "y" (b = {rows}, o = {columns}) {{
    %bias = loops.load %b[o]
    %sum = loops.reduce {accum} (i = {depth}) : {element} {{
      %wv = loops.load %w[{w}]
      %xv = loops.load %x[b, i]
      %p = arith.{op} %wv, %xv : {element}
      loops.yield %p
    }}
    %z = arith.addf %sum, %bias : {element}
    loops.store %z, %y[{y}]
  }}
}}
"""


def gradient_of_rows(
    batch: int, length: int, rows: int, columns: int, id: str = "i32", accum: str = "addf"
) -> str:
    """The gradient of an embedding; an id that is no row adds nothing."""
    return f"""
loops.func @gradient {{
  %ids = assign.node "ids" on_device : memref<{batch}x{length}x{id}>
  %g = assign.node "g" on_device : memref<{batch}x{length}x{columns}xf32>
  %w = assign.node "w" on_device : memref<{rows}x{columns}xf32>
  loops.nest "w" (b = {batch}, t = {length}, d = {columns}) {{
    %id = loops.load %ids[b, t]
    %at, %inside = loops.position %id below {rows}
    %x = loops.load %g[b, t, d]
    %old = loops.load %w[%at, d]
    %sum = arith.{accum} %old, %x : f32
    %new = arith.select %inside, %sum, %old : f32
    loops.store %new, %w[%at, d]
  }}
}}
"""


def sums(space: str, reduced: str, load: str, shape: str, store: str, result: str) -> str:
    return f"""
loops.func @sums {{
  %x = assign.node "x" on_device : memref<{shape}xf32>
  %y = assign.node "y" on_device : memref<{result}xf32>
  loops.nest "y" ({space}) {{
    %top = loops.reduce max ({reduced}) : f32 {{
      %v = loops.load %x[{load}]
      loops.yield %v
    }}
    %sum = loops.reduce add ({reduced}) : f32 {{
      %v = loops.load %x[{load}]
      %d = arith.subf %v, %top : f32
      loops.yield %d
    }}
    %r = arith.mulf %top, %sum : f32
    loops.store %r, %y[{store}]
  }}
}}
"""


def many_nodes(count: int) -> str:
    nodes = "".join(f'%n{k} = assign.node "n{k}" on_device : memref<4xf32>\n' for k in range(count))
    ops = "".join(f"%l{k} = loops.load %n{k}[i]\n" for k in range(count))
    ops += "".join(
        f"%s{k + 1} = arith.addf %{'l0' if k == 0 else f's{k}'}, %l{k + 1} : f32\n" for k in range(count - 1)
    )
    body = f'loops.nest "sum" (i = 4) {{ {ops} loops.store %s{count - 1}, %n0[i] }}'
    return f"loops.func @many {{ {nodes} {body} }}"
