"""Tiles of products that the cost model takes for cheapest."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.dot_products import product_of_blocks, product_of_decoded_blocks
from support.nests import parse_module, the_func

from ocannl.dialects.loops.schedule import Schedule
from ocannl.passes.analysis.nests import nests
from ocannl.passes.analysis.schedules.schedule_candidates import Chooser
from ocannl.passes.analysis.targets.processors import processor

CPUS = ["x86-64-v2", "x86-64-v3", "znver4"]


def cheapest(text: str, cpu: str) -> Schedule:
    """The schedule that is the cheapest for the nest of a text on a processor."""
    (nest,) = nests(the_func(parse_module(text)))
    chooser = Chooser.of(nest, processor(cpu))
    assert chooser is not None
    return chooser.best()[1].schedule


def tile(sizes: dict[str, int], element: str, w: str = "k, j") -> Schedule:
    """The tile of y = x w on Zen 4, with a batch where there are sizes `b`."""
    names = ["b"] if "b" in sizes else []
    x, w, y = (", ".join([*names, operand]) for operand in ("i, k", w, "i, j"))
    shapes = ["x".join(str(sizes[name]) for name in operand.split(", ")) for operand in (x, w, y)]
    loops = ", ".join(f"{name} = {sizes[name]}" for name in (*names, "i", "j"))
    text = f"""
loops.func @product {{
  %x = assign.node "x" on_device : memref<{shapes[0]}x{element}>
  %w = assign.node "w" on_device : memref<{shapes[1]}x{element}>
  %y = assign.node "y" on_device : memref<{shapes[2]}x{element}>
  loops.nest "y" ({loops}) {{
    %sum = loops.reduce add (k = {sizes["k"]}) : {element} {{
      %xv = loops.load %x[{x}]
      %wv = loops.load %w[{w}]
      %p = arith.mulf %xv, %wv : {element}
      loops.yield %p
    }}
    loops.store %sum, %y[{y}]
  }}
}}"""
    return cheapest(text, "znver4")


@pytest.mark.parametrize(
    ("sizes", "element"),
    [({"i": 1800, "j": 1800, "k": 1800}, "f64"), ({"b": 4, "i": 512, "j": 512, "k": 512}, "f32")],
)
def test_wide_tiles_where_rows_come_from_beyond_the_second_level_cache(sizes: dict[str, int], element: str):
    found = tile(sizes, element)
    assert found.lanes == ("j", 128 // int(element[1:]) * 8)
    assert found.rows == ("i", 12)


def test_rows_of_a_sum_along_vectors_stay_in_the_sets_of_a_cache():
    found = tile({"i": 16, "j": 16, "k": 1024}, "f32", "j, k")
    assert found.lanes == ("j", 16)
    found = tile({"i": 16, "j": 10, "k": 528}, "f32", "j, k")
    assert (found.rows, found.lanes and found.lanes[0]) == (("j", 10), "k")


def test_vectors_along_a_sum_are_of_rows_that_the_first_level_cache_holds():
    near, far = (tile({"i": 32, "j": 10, "k": k}, "f64", "j, k") for k in (200, 768))
    assert near.lanes is not None
    assert far.lanes is not None
    assert (near.lanes[0], far.lanes[0]) == ("k", "j")


@pytest.mark.parametrize("sizes", [{"i": 2, "j": 1024, "k": 1024}, {"i": 6, "j": 512, "k": 512}])
def test_a_matrix_from_memory_is_read_along_its_rows(sizes: dict[str, int]):
    found = tile(sizes, "f32", "j, k")
    assert found.lanes is not None
    assert found.lanes[0] == "k"


@pytest.mark.parametrize("rows", [17, 33])
def test_a_copy_that_no_panels_divide_is_far(rows: int):
    found = tile({"i": rows, "j": 1000, "k": 1000}, "f64", "j, k")
    assert found.lanes == ("j", 8)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_matrices_are_transposed_in_registers(cpu: str, element: str):
    text = f"""
loops.func @transposed {{
  %x = assign.node "x" on_device : memref<64x512x{element}>
  %y = assign.node "y" on_device : memref<512x64x{element}>
  loops.nest "y" (i = 512, k = 64) {{
    %xv = loops.load %x[k, i]
    loops.store %xv, %y[i, k]
  }}
}}"""
    found = cheapest(text, cpu)
    assert found.rows is not None
    assert found.lanes is not None
    assert found.rows[1] == found.lanes[1]


@pytest.mark.parametrize("cpu", CPUS)
def test_vectors_of_a_nest_are_not_along_the_loops_of_its_group(cpu: str):
    text = """
loops.func @summed {
  %x = assign.node "x" on_device : memref<1024x1000xf32>
  %m = assign.node "m" on_device : memref<1000xf32>
  %y = assign.node "y" on_device : memref<16x1000xf32>
  loops.group "y" (part = 16, block = 8) {
    loops.nest "y" (o = 1000) {
      %mv = loops.load %m[o]
      %sum = loops.reduce add (b = 8) : f32 {
        %xv = loops.load %x[b + 8*block + 64*part, o]
        %d = arith.subf %xv, %mv : f32
        %e = math.exp %d : f32
        loops.yield %e
      }
      %before = loops.load %y[part, o]
      %after = arith.addf %before, %sum : f32
      loops.store %after, %y[part, o]
    }
  }
}"""
    found = cheapest(text, cpu)
    assert found.lanes is not None
    assert found.lanes[0] == "o"


@pytest.mark.parametrize("cpu", CPUS)
def test_what_is_contiguous_along_one_loop_is_not_transposed(cpu: str):
    text = """
loops.func @scaled {
  %x = assign.node "x" on_device : memref<1024x1000xf32>
  %m = assign.node "m" on_device : memref<1000xf32>
  %y = assign.node "y" on_device : memref<1024x1000xf32>
  loops.nest "y" (b = 1024, o = 1000) {
    %xv = loops.load %x[b, o]
    %mv = loops.load %m[o]
    %d = arith.subf %xv, %mv : f32
    %e = math.exp %d : f32
    %r = arith.divf %e, %mv : f32
    loops.store %r, %y[b, o]
  }
}"""
    found = cheapest(text, cpu)
    assert found.lanes is not None
    assert (found.rows, found.lanes[0]) == (None, "o")


def test_means_over_space_read_whole_pixels():
    text = """
loops.func @mean {
  %x = assign.node "x" on_device : memref<16x56x56x64xf32>
  %y = assign.node "y" on_device : memref<16x64xf32>
  loops.nest "y" (b = 16, o = 64) {
    %sum = loops.reduce add (h = 56, w = 56) : f32 {
      %xv = loops.load %x[b, h, w, o]
      loops.yield %xv
    }
    %count = arith.constant 3136.0 : f32
    %mean = arith.divf %sum, %count : f32
    loops.store %mean, %y[b, o]
  }
}"""
    found = cheapest(text, "x86-64-v3")
    assert (found.rows, found.lanes) == (None, ("o", 64))


@pytest.mark.parametrize(("cpu", "height"), [("x86-64-v3", 6), ("x86-64-v4", 8)])
def test_sums_around_a_sum_take_registers(cpu: str, height: int):
    """Those of each row wait while one of integers is added up: 16 registers have six rows of both."""
    text = """
loops.func @scaled {
  %x = assign.node "x" on_device : memref<3x4x8xi32>
  %w = assign.node "w" on_device : memref<96x3x4x8xi32>
  %s = assign.node "s" on_device : memref<96x3xf32>
  %y = assign.node "y" on_device : memref<96xf32>
  loops.nest "y" (i = 96) {
    %sum = loops.reduce add (k = 3, l = 8) : f32 {
      %block = loops.reduce add (p = 4) : i32 {
        %xv = loops.load %x[k, p, l]
        %wv = loops.load %w[i, k, p, l]
        %p = arith.muli %xv, %wv : i32
        loops.yield %p
      }
      %sv = loops.load %s[i, k]
      %number = arith.sitofp %block : i32 to f32
      %scaled = arith.mulf %number, %sv : f32
      loops.yield %scaled
    }
    loops.store %sum, %y[i]
  }
}"""
    (nest,) = nests(the_func(parse_module(text)))
    chooser = Chooser.of(nest, processor(cpu))
    assert chooser is not None
    assert {tile.rows for tile in chooser.candidates() if tile.lanes == ("l", 8)} == {None, ("i", height)}


@pytest.mark.parametrize(
    ("product", "lanes"), [(product_of_blocks, ("l", 8)), (product_of_decoded_blocks, ("j", 32))]
)
def test_blocks_of_bytes_are_read_in_the_order_of_memory_where_they_come_from_there(
    product: Callable[[int], str], lanes: tuple[str, int]
):
    far, near = product(4096), product(1024)
    assert cheapest(far, "znver3") == Schedule(order=("o",), lanes=lanes)
    for text, cpu in ((near, "znver3"), (far, "znver4"), (far, "x86-64-v4")):
        assert cheapest(text, cpu).rows is not None
