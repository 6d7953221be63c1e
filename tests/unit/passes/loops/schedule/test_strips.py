"""Products in strips compute what they do without, on any number of threads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.nests import random_arrays, run_compiled, scheduled, the_func
from xdsl.dialects.builtin import ModuleOp

from ocannl.passes.analysis.nests import nests
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.schedule.strips import strip
from ocannl.runtime.host.processor import host

NEAR = 2**18
"""The second-level cache of a processor that does not hold the rows of these products."""


def product(rows: int, columns: int, depth: int, x: str, element: str) -> str:
    shape = {"i, k": f"{rows}x{depth}", "k, i": f"{depth}x{rows}"}[x]
    return f"""
loops.func @product {{
  %x = assign.node "x" on_device : memref<{shape}x{element}>
  %w = assign.node "w" on_device : memref<{depth}x{columns}x{element}>
  %b = assign.node "b" on_device : memref<{columns}x{element}>
  %y = assign.node "y" on_device : memref<{rows}x{columns}x{element}>
  loops.nest "y" (i = {rows}, j = {columns}) {{
    %sum = loops.reduce add (k = {depth}) : {element} {{
      %xv = loops.load %x[{x}]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : {element}
      loops.yield %p
    }}
    %bv = loops.load %b[j]
    %v = arith.addf %sum, %bv : {element}
    loops.store %v, %y[i, j]
  }}
}}"""


def has_strips(module: ModuleOp) -> bool:
    schedules = [nest.schedule for nest in nests(the_func(module)) if nest.label.data == "y"]
    return all(schedule is not None and schedule.data.strips is not None for schedule in schedules)


def run(module: ModuleOp, threads: int, target: TargetDescription) -> dict[str, NDArray[Any]]:
    arrays = random_arrays(the_func(module))
    run_compiled(module, arrays, threads=threads, target=target)
    return arrays


@pytest.mark.sampled(4)
@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("x", ["i, k", "k, i"])
@pytest.mark.parametrize(("rows", "columns"), [(257, 512), (500, 485), (263, 640)])
def test_values_and_bits(rows: int, columns: int, x: str, element: str):
    target = replace(host(), l2_bytes=NEAR)
    text = product(rows, columns, 229, x, element)
    module = scheduled(text, target)
    assert has_strips(module)
    arrays = run(module, 1, target)
    product64 = np.einsum(f"{x},kj->ij".replace(", ", ""), *(arrays[n].astype(np.float64) for n in "xw"))
    tolerance = 1e-4 if element == "f32" else 1e-12
    np.testing.assert_allclose(arrays["y"], product64 + arrays["b"], rtol=tolerance, atol=10 * tolerance)
    np.testing.assert_array_equal(run(module, 2, target)["y"], arrays["y"])
    whole = scheduled(text, replace(target, l2_bytes=2**24))
    assert not has_strips(whole)


def test_rows_of_several_axes_are_one_loop():
    """A convolution of 1 x 1, whose rows are the elements of all images."""
    text = """
loops.func @convolution {
  %x = assign.node "x" on_device : memref<5x9x13x229xf32>
  %w = assign.node "w" on_device : memref<512x229xf32>
  %y = assign.node "y" on_device : memref<5x9x13x512xf32>
  loops.nest "y" (b = 5, h = 9, w = 13, o = 512) {
    %sum = loops.reduce add (c = 229) : f32 {
      %xv = loops.load %x[b, h, w, c]
      %wv = loops.load %w[o, c]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, h, w, o]
  }
}"""
    target = replace(host(), l2_bytes=NEAR)
    module = scheduled(text, target)
    (schedule,) = (nest.schedule for nest in nests(the_func(module)) if nest.label.data == "y")
    assert schedule is not None
    assert schedule.data.strips is not None
    assert schedule.data.strips[0] == "b*h*w"
    arrays = run(module, 1, target)
    exact = np.einsum("bhwc,oc->bhwo", *(arrays[name].astype(np.float64) for name in "xw"))
    np.testing.assert_allclose(arrays["y"], exact, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(run(module, 2, target)["y"], arrays["y"])


def test_few_columns_that_lie_side_by_side_are_read_where_they_are():
    """All rows come from beyond the cache once, not once for each of the few panels."""
    target = replace(host(), l2_bytes=NEAR)
    module = scheduled(product(2000, 64, 257, "i, k", "f32"), target)
    assert [nest.label.data for nest in nests(the_func(module))] == ["y"]
    assert has_strips(module)
    arrays = run(module, 1, target)
    exact = np.einsum("ik,kj->ij", *(arrays[name].astype(np.float64) for name in "xw"))
    np.testing.assert_allclose(arrays["y"], exact + arrays["b"], rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(run(module, 2, target)["y"], arrays["y"])


@pytest.mark.parametrize(
    ("rows", "tile", "bytes", "expected"),
    [
        # A quarter of 1 MiB is 256 rows of 1 KiB: as many, or strips as even as tiles allow.
        (1024, 8, 2**20, 256),
        (1000, 8, 1000 * 2**10, 256),
        (1030, 6, 1030 * 2**10, 210),
        # Rows of 8 KiB: eight tiles of them have half of the cache. Of 16 KiB: four tiles do.
        (128, 8, 2**20, 64),
        (64, 8, 2**20, 32),
        # Rows of 32 KiB leave no room.
        (64, 8, 2**21, None),
    ],
)
def test_size_of_strips(rows: int, tile: int, bytes: int, expected: int | None):
    assert strip(rows, tile, bytes, TargetDescription(l2_bytes=2**20)) == expected


@pytest.mark.parametrize(("rows", "columns"), [(520, 130), (601, 203)])
def test_transposed_copies(rows: int, columns: int):
    text = f"""
loops.func @copy {{
  %x = assign.node "x" on_device : memref<{rows}x{columns}xf32>
  %y = assign.node "y" on_device : memref<{columns}x{rows}xf32>
  loops.nest "y" (i = {columns}, j = {rows}) {{
    %v = loops.load %x[j, i]
    loops.store %v, %y[i, j]
  }}
}}"""
    target = replace(host(), l2_bytes=NEAR)
    module = scheduled(text, target)
    assert has_strips(module)
    for threads in (1, 2):
        arrays = run(module, threads, target)
        np.testing.assert_array_equal(arrays["y"], arrays["x"].T)
