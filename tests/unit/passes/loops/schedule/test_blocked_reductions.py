"""Sums of products are added up in blocks where that keeps operands near, or reads them in the order of
memory, and are right.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.nests import Arrays, parse_module, random_arrays, run_compiled, scheduled, the_func
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.loops import GroupOp, NestOp
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.targets.processors import processor
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.runtime.host.processor import missing_features

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "neoverse-n1")
TARGETS = [name for name in LEVELS if not missing_features(processor(name))]

GRADIENT = """
loops.func @gradient {
  %g = assign.node "g" on_device : memref<16x18x16x48xf32>
  %x = assign.node "x" on_device : memref<16x20x18x24xf32>
  %old = assign.node "old" on_device : memref<48x3x3x24xf32>
  %dk = assign.node "dk" on_device : memref<48x3x3x24xf32>
  loops.nest "dk" (o = 48, i = 3, j = 3, c = 24) {
    %sum = loops.reduce add (b = 16, h = 18, w = 16) : f32 {
      %gv = loops.load %g[b, h, w, o]
      %xv = loops.load %x[b, h + i, w + j, c]
      %p = arith.mulf %gv, %xv : f32
      loops.yield %p
    }
    %v = loops.load %old[o, i, j, c]
    %d = arith.subf %v, %sum : f32
    loops.store %d, %dk[o, i, j, c]
  }
}"""

FEW_ROWS = """
loops.func @few_rows {
  %x = assign.node "x" on_device : memref<3x2560xf32>
  %w = assign.node "w" on_device : memref<2560x333xf32>
  %y = assign.node "y" on_device : memref<3x333xf32>
  loops.nest "y" (b = 3, o = 333) {
    %sum = loops.reduce add (i = 2560) : f32 {
      %xv = loops.load %x[b, i]
      %wv = loops.load %w[i, o]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, o]
  }
}"""

DEEP = """
loops.func @deep {
  %x = assign.node "x" on_device : memref<40x9257xf32>
  %w = assign.node "w" on_device : memref<9257x192xf32>
  %old = assign.node "old" on_device : memref<40x192xf32>
  %y = assign.node "y" on_device : memref<40x192xf32>
  loops.nest "y" (i = 40, j = 192) {
    %sum = loops.reduce add (k = 9257) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    %v = loops.load %old[i, j]
    %d = arith.subf %v, %sum : f32
    loops.store %d, %y[i, j]
  }
}"""


def groups(module: ModuleOp) -> list[GroupOp]:
    return [op for op in the_func(module).body.block.ops if isinstance(op, GroupOp)]


def run(module: ModuleOp, target: str, threads: int = 1) -> Arrays:
    arrays = random_arrays(the_func(module))
    run_compiled(module, arrays, threads=threads, target=processor(target))
    return arrays


@pytest.mark.parametrize("target", TARGETS)
def test_weight_gradients_are_right(target: str):
    module = scheduled(GRADIENT, target)
    (group,) = groups(module)
    assert [name for name, _ in group.space.data][-2:] == ["b", "h_block"]
    found = run(module, target)
    g, x = (found[name].astype(np.float64) for name in "gx")
    sums = np.empty((48, 3, 3, 24))
    for i, j in np.ndindex(3, 3):
        sums[:, i, j] = np.einsum("bhwo,bhwc->oc", g, x[:, i : i + 18, j : j + 16])
    np.testing.assert_allclose(found["dk"], found["old"] - sums, rtol=1e-4, atol=1e-3)


def test_what_follows_a_sum_runs_once_for_all_blocks():
    """The gradient of a strided convolution, with an update by SGD with momentum."""
    text = """
loops.func @update {
  %g = assign.node "g" on_device : memref<32x16x16x128xf32>
  %x = assign.node "x" on_device : memref<32x33x33x64xf32>
  %m = assign.node "m" on_device : memref<128x3x3x64xf32>
  %w = assign.node "w" on_device : memref<128x3x3x64xf32>
  loops.nest "w" (o = 128, i = 3, j = 3, c = 64) {
    %sum = loops.reduce add (b = 32, h = 16, w = 16) : f32 {
      %gv = loops.load %g[b, h, w, o]
      %xv = loops.load %x[b, 2*h + i, 2*w + j, c]
      %p = arith.mulf %gv, %xv : f32
      loops.yield %p
    }
    %rate = arith.constant 0.1 : f32
    %mv = loops.load %m[o, i, j, c]
    %new = math.fma %rate, %mv, %sum : f32
    loops.store %new, %m[o, i, j, c]
    %wv = loops.load %w[o, i, j, c]
    %moved = math.fma %rate, %new, %wv : f32
    loops.store %moved, %w[o, i, j, c]
  }
}"""
    (group,) = groups(scheduled(text, "sapphirerapids"))
    assert [name for name, _ in group.space.data][-1] == "b"


@pytest.mark.parametrize(("outer", "points"), [("", 4096), ("b = 2, ", 2**16), ("b = 64, ", 2**14)])
def test_a_sum_may_have_a_single_result(outer: str, points: int):
    """Of two columns, which are read across the order of memory."""
    rows = "b, i" if outer else "i"
    shape = f"{outer[4:-2]}x{points}" if outer else f"{points}"
    text = f"""
loops.func @dot {{
  %x = assign.node "x" on_device : memref<{shape}x8xf32>
  %z = assign.node "z" on_device : memref<{shape}x8xf32>
  %y = assign.node "y" on_device : memref<f32>
  loops.nest "y" () {{
    %sum = loops.reduce add ({outer}i = {points}) : f32 {{
      %xv = loops.load %x[{rows}, 0]
      %zv = loops.load %z[{rows}, 1]
      %p = arith.mulf %xv, %zv : f32
      loops.yield %p
    }}
    loops.store %sum, %y[]
  }}
}}"""
    found = run(scheduled(text, TARGETS[-1]), TARGETS[-1])
    exact = np.sum(found["x"][..., 0].astype(np.float64) * found["z"][..., 1])
    np.testing.assert_allclose(found["y"], exact, rtol=1e-4, atol=1e-2)


def test_results_that_no_cache_holds_have_no_parts():
    text = GRADIENT.replace("x48xf32", "x96xf32").replace("<48x", "<96x").replace("o = 48", "o = 96")
    module = parse_module(text)
    SchedulePass(cpu="x86-64-v3", l2_bytes=2**13).apply(Context(), module)
    module.verify()
    (group,) = groups(module)
    assert not any("part" in name for name, _ in group.space.data)


@pytest.mark.parametrize("target", TARGETS)
def test_threads_share_results_and_change_no_bit(target: str):
    module = scheduled(GRADIENT, target)
    (group,) = groups(module)
    assert group.schedule is not None
    shared = {name for name, _ in group.schedule.data.parallel}
    assert "b_part" in shared
    assert shared.isdisjoint({"b", "h_block"})
    np.testing.assert_array_equal(run(module, target, 2)["dk"], run(module, target, 1)["dk"])


def test_short_sums_are_whole():
    assert groups(scheduled(GRADIENT.replace("b = 16", "b = 1"), "x86-64-v3")) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("reduce add", "reduce max"),
        ("%gv, %xv", "%xv, %xv"),
        ("store %d, %dk[o, i, j, c]", "store %d, %dk[o, i, 0, c]"),
    ],
)
def test_other_sums_are_whole(before: str, after: str):
    """Another accumulation, results that not all loops change, results that are written in turn."""
    text = GRADIENT.replace(before, after)
    if "%xv, %xv" in text:
        text = text.replace("      %gv = loops.load %g[b, h, w, o]\n", "")
    module = scheduled(text, "x86-64-v3")
    assert not any("sums" in group.label.data for group in groups(module))


@pytest.mark.parametrize("target", TARGETS)
def test_few_rows_of_a_product_are_right(target: str):
    module = scheduled(FEW_ROWS, target)
    (group,) = groups(module)
    assert group.space.names == ("i_block",)
    found = run(module, target)
    expected = found["x"].astype(np.float64) @ found["w"]
    np.testing.assert_allclose(found["y"], expected, rtol=1e-4, atol=1e-3)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("size", "blocks"), [(9257, 36), (9472, 37)])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_deep_sums_are_right_with_what_is_in_no_block(target: str, size: int, blocks: int, element: str):
    module = scheduled(DEEP.replace("9257", str(size)).replace("f32", element), target)
    assert [group.space.data[-1] for group in groups(module)] == [("k_block", blocks)]
    found = run(module, target)
    expected = found["old"] - found["x"].astype(np.float64) @ found["w"]
    tolerance = 1e-4 if element == "f32" else 1e-12
    np.testing.assert_allclose(found["y"], expected, rtol=tolerance, atol=10 * tolerance)
    np.testing.assert_array_equal(run(module, target, 2)["y"], found["y"])


@pytest.mark.parametrize(("summed", "size"), [(2560, 16), (9216, 64), (8192, 32)])
def test_few_rows_are_summed_as_accurately_as_in_blocks_of_256(summed: int, size: int):
    (group,) = groups(scheduled(FEW_ROWS.replace("2560", str(summed)), "x86-64-v3"))
    assert dict(group.space.data)["i_block"] == summed // size
    assert size + summed / size <= 256 + summed / 256


@pytest.mark.parametrize("rows", [17, 32])
def test_panels_that_few_tiles_read_are_of_blocks(rows: int):
    text = FEW_ROWS.replace("3x2560", f"{rows}x2560").replace("3x333", f"{rows}x333")
    (group,) = groups(scheduled(text.replace("b = 3", f"b = {rows}").replace("333", "336"), "x86-64-v3"))
    assert group.space.data[-1] == ("i_block", 10)


@pytest.mark.parametrize(
    ("before", "after"), [("3x", "80x"), ("2560", "384"), ("%w[i, o]", "%w[o, i]"), ("2560", "2557")]
)
def test_what_does_not_stream_is_whole(before: str, after: str):
    """Many rows, a matrix that the second-level cache holds, one that is summed along its memory, a sum that
    has no blocks.
    """
    text = FEW_ROWS.replace(before, after)
    if before == "3x":
        text = text.replace("b = 3", "b = 80")
    if "[o, i]" in text:
        text = text.replace("2560x333", "333x2560")
    module = scheduled(text, "x86-64-v3")
    assert not any("sums" in group.label.data for group in groups(module))


PRODUCT = """
loops.func @product {{
  %x = assign.node "x" on_device : memref<{rows}x{summed}xf32>
  %w = assign.node "w" on_device : memref<{summed}x{columns}xf32>
  %y = assign.node "y" on_device : memref<{rows}x{columns}xf32>
  loops.nest "y" (i = {rows}, j = {columns}) {{
    %sum = loops.reduce add (k = {summed}) : f32 {{
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }}
    loops.store %sum, %y[i, j]
  }}
}}"""


@pytest.mark.parametrize(
    ("summed", "columns", "blocks"),
    [(4096, 4096, True), (2048, 2048, True), (1024, 4096, True), (1024, 2048, False), (2000, 2000, False)],
)
def test_rows_whose_pages_meet_in_a_tlb_are_copied_in_blocks(summed: int, columns: int, blocks: bool):
    module = scheduled(PRODUCT.format(rows=24, summed=summed, columns=columns), "x86-64-v3")
    assert any("sums" in group.label.data for group in groups(module)) == blocks


@pytest.mark.parametrize("columns", [49152, 32 * 1031])
@pytest.mark.parametrize("x", ["%x[i, k]", "%x[k, i]"])
def test_the_stack_holds_the_copies_of_blocks(x: str, columns: int):
    """Of which there are few where the panels of a product of many columns have few divisors."""
    text = PRODUCT.format(rows=64, summed=3008, columns=columns).replace("%x[i, k]", x)
    module = scheduled(text.replace("64x3008", "3008x64") if "[k" in x else text, "x86-64-v4")
    inside = [op for group in groups(module) for op in group.body.block.ops if isinstance(op, NodeOp)]
    assert all(byte_size(op) <= 2**20 for op in inside)
    assert any(op.label.data.endswith("packed") for op in module.walk() if isinstance(op, NodeOp))


def has_remainder(module: ModuleOp) -> bool:
    return any("remainder" in op.label.data for op in module.walk() if isinstance(op, NestOp))


def test_a_remainder_is_not_split_off_where_that_reads_a_matrix_twice():
    assert not has_remainder(scheduled(PRODUCT.format(rows=17, summed=4096, columns=4096), "x86-64-v4"))


def test_a_remainder_is_split_off_where_the_rest_needs_no_copy_of_a_matrix():
    """A row of 17, beside 16 by which a matrix is read in the order of memory: no block copies it first."""
    text = PRODUCT.format(rows=17, summed=3072, columns=768).replace("f32", "f64")
    transposed = text.replace("3072x768xf64", "768x3072xf64").replace("%w[k, j]", "%w[j, k]")
    assert has_remainder(scheduled(transposed, "znver4"))
