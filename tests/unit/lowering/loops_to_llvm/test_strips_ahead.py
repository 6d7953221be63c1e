"""The tiles of a strip prefetch the next one, each line of it."""

import itertools

import pytest
from support.nests import parse_module

from ocannl.dialects.loops import NestOp
from ocannl.lowering.loops_to_llvm.strips_ahead import strips_ahead
from ocannl.lowering.loops_to_llvm.tile import strip_start
from ocannl.lowering.placement import place
from ocannl.passes.analysis.costs.cache_lines import LINE

PRODUCT = """
loops.func @f {{
  %x = assign.node "x" constant : memref<{rows}x{pitch}xf32>
  %w = assign.node "w" constant : memref<{depth}x{columns}xf32>
  %y = assign.node "y" on_device : memref<{rows}x{columns}xf32>
  loops.nest "y" (i = {rows}, j = {columns})
      schedule <order = (j, i), rows = i : {height}, lanes = j : 32, strips = i : {strip}> {{
    %s = loops.reduce add (k = {depth}) : f32 {{
      %a = loops.load %x[i, k]
      %c = loops.load %w[k, j]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }}
    loops.store %s, %y[i, j]
  }}
}}
"""


def nest_of(
    rows: int, depth: int, columns: int, *, height: int = 8, strip: int = 256, pitch: int = 0
) -> NestOp:
    text = PRODUCT.format(
        rows=rows, depth=depth, columns=columns, height=height, strip=strip, pitch=pitch or depth
    )
    (nest,) = (op for op in parse_module(text).walk() if isinstance(op, NestOp))
    return nest


def parts_of(nest: NestOp) -> list[dict[str, int]]:
    """The strides in bytes, and the constant, of what steps prefetch."""
    assert nest.schedule is not None
    found = strips_ahead(place(nest, nest.schedule.data), nest.schedule.data)
    return [dict(part.address.terms) | {"": part.address.constant} for part in found.values()]


@pytest.mark.parametrize(
    ("depth", "columns", "height", "strip"),
    [(256, 64, 8, 256), (129, 96, 6, 126), (512, 256, 8, 128), (1024, 40, 8, 64)],
)
def test_all_lines_of_the_next_strip(depth: int, columns: int, height: int, strip: int):
    (part,) = parts_of(nest_of(2**15, depth, columns, height=height, strip=strip))
    start = 3 * strip
    tiles = itertools.product(range(0, columns, 32), range(start, start + strip, height), range(depth))
    found = {
        (part[""] + start * part[strip_start("i")] + j * part["j"] + i * part["i"] + k * part["k"]) // LINE
        for j, i, k in tiles
    }
    first, last = ((start + count * strip) * depth * 4 // LINE for count in (1, 2))
    assert set(range(first, last)) <= found
    assert len(found) <= 1.1 * (last - first)


def test_rows_with_gaps_and_small_or_seldom_read_ones_are_left_alone():
    assert not parts_of(nest_of(2**15, 256, 64, pitch=512))
    assert not parts_of(nest_of(2**11, 256, 64))
    assert not parts_of(nest_of(2**15, 256, 512))
