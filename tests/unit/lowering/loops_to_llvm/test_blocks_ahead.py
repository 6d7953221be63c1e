"""The steps of a sum prefetch the next block, each line of it."""

import itertools
import math

import pytest
from support.nests import parse_module

from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.loops import LoadOp, NestOp
from ocannl.dialects.loops.values import address_of
from ocannl.lowering.loops_to_llvm.blocks_ahead import BlocksAhead, blocks_ahead, phase_of, piece_of
from ocannl.lowering.placement import place
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.nests import operations, variable_sizes

# Of a gradient `g` and an image `x`, of 512 images of 8 x 8.
GROUP = """
loops.func @f {{
  %x = assign.node "x" constant : memref<512x8x8x{columns}xf32>
  %g = assign.node "g" constant : memref<512x8x8x{rows}xf32>
  %y = assign.node "y" on_device : memref<{rows}x{columns}xf32>
  loops.group "y" (part = {parts}, b = 512) {{
    loops.nest "y" (i = {own}, j = {columns}) schedule <{schedule}> {{
      %s = loops.reduce add (h = 8, w = {w}) : f32 {{
        %a = loops.load %g[b, h, w, i + {own}*part]
        %c = loops.load %x[b, h, {step}w, j]
        %p = arith.mulf %a, %c : f32
        loops.yield %p
      }}
      %o = loops.load %y[i + {own}*part, j]
      %t = arith.addf %o, %s : f32
      loops.store %t, %y[i + {own}*part, j]
    }}
  }}
}}
"""


def text_of(
    rows: int, columns: int, height: int, width: int, *, parts: int = 1, every_other: bool = False
) -> str:
    merged = "" if every_other else "merged = (h*w), "
    return GROUP.format(
        rows=rows,
        columns=columns,
        parts=parts,
        own=rows // parts,
        schedule=f"{merged}order = (j, i), rows = i : {height}, lanes = j : {width}",
        w=4 if every_other else 8,
        step="2*" if every_other else "",
    )


def nest_in(text: str) -> NestOp:
    (nest,) = (op for op in parse_module(text).walk() if isinstance(op, NestOp))
    return nest


def found_in(nest: NestOp) -> BlocksAhead | None:
    assert nest.schedule is not None
    schedule = nest.schedule.data
    return next(iter(blocks_ahead(nest, place(nest, schedule), schedule).values()), None)


def prefetched(ahead: BlocksAhead, number: int, points: int, rows: int = 1) -> set[int]:
    """The lines of an operand that all tiles prefetch in the first block, at so many points of each row."""
    block, lines = ahead.blocks[number], set[int]()
    tiles = math.prod(count for _, count, _ in ahead.tiles)
    for tile, row, point in itertools.product(range(tiles), range(rows), range(0, points, block.apart)):
        at = {
            "h": row,
            ahead.variable: point,
            phase_of(block.apart): tile % block.apart,
            piece_of(block.apart): tile // block.apart,
        }
        first = block.address.constant + sum(step * at.get(name, 0) for name, step in block.address.terms)
        lines |= {byte // LINE for byte in range(first, first + block.bytes, LINE)}
    return lines


def read(op: LoadOp, nest: NestOp) -> set[int]:
    """The lines of an operand that the second block reads."""
    address, bytes, sizes = address_of(op), element_bytes(op.node), variable_sizes(nest)
    moving = [name for name in sizes if address.stride(name)]
    first = address.constant + address.stride("b")
    points = itertools.product(*(range(sizes[name]) for name in moving))
    return {
        bytes * (first + sum(address.stride(n) * k for n, k in zip(moving, point, strict=True))) // LINE
        for point in points
    }


@pytest.mark.parametrize(
    ("rows", "columns", "height", "width", "parts"),
    [
        (256, 64, 8, 32, 1),
        (64, 256, 8, 32, 1),
        (512, 128, 12, 32, 1),
        (512, 32, 8, 32, 4),
        (32, 512, 16, 16, 1),
    ],
)
def test_all_lines_of_the_next_block(rows: int, columns: int, height: int, width: int, parts: int):
    nest = nest_in(text_of(rows, columns, height, width, parts=parts))
    ahead = found_in(nest)
    assert ahead is not None
    loads = {op.node: op for op in operations(nest.body.block) if isinstance(op, LoadOp)}
    for number, block in enumerate(ahead.blocks):
        found, needed = prefetched(ahead, number, 64), read(loads[block.node], nest)
        assert needed <= found
        assert len(found) <= 1.5 * len(needed)


def test_no_tile_prefetches_what_another_one_does():
    ahead = found_in(nest_in(text_of(256, 64, 8, 32)))
    assert ahead is not None
    tiles = math.prod(count for _, count, _ in ahead.tiles)
    for number, block in enumerate(ahead.blocks):
        assert tiles * 64 / block.apart <= 2 * len(prefetched(ahead, number, 64))


def test_all_lines_of_points_in_two_loops():
    nest = nest_in(text_of(256, 64, 8, 32, every_other=True))
    ahead = found_in(nest)
    assert ahead is not None
    loads = {op.node: op for op in operations(nest.body.block) if isinstance(op, LoadOp)}
    for number, block in enumerate(ahead.blocks):
        found, needed = prefetched(ahead, number, 4, rows=8), read(loads[block.node], nest)
        assert needed <= found
        assert len(found) <= 1.5 * len(needed)


def test_what_is_near_is_not_prefetched():
    """Of two operands, one has fewer than 4 MiB."""
    ahead = found_in(nest_in(text_of(256, 16, 8, 16)))
    assert ahead is not None
    assert len(ahead.blocks) == 1


def test_results_of_each_point_of_a_group():
    """The operands of the next point are fetched as those of a block are."""
    block = found_in(nest_in(text_of(256, 64, 8, 32)))
    text = (
        text_of(256, 64, 8, 32)
        .replace("memref<256x64xf32>", "memref<512x256x64xf32>")
        .replace("%y[", "%y[b, ")
    )
    found = found_in(nest_in(text))
    assert found is not None
    assert block is not None
    assert [part.address for part in found.blocks] == [part.address for part in block.blocks]


# A product of few rows with a matrix, in blocks of a few rows of it.
STREAMED = """
loops.func @f {{
  %x = assign.node "x" constant : memref<{rows}x768xf32>
  %w = assign.node "w" constant : memref<768x3072xf32>
  %y = assign.node "y" on_device : memref<{rows}x3072xf32>
  loops.group "y" (k_block = {blocks}) {{
    loops.nest "y" (i = {rows}, j = 3072) schedule <order = (j, i), rows = i : 6, lanes = j : 16> {{
      %s = loops.reduce add (k = {size}) : f32 {{
        %a = loops.load %x[i, k + {size}*k_block]
        %c = loops.load %w[k + {size}*k_block, j]
        %p = arith.mulf %a, %c : f32
        loops.yield %p
      }}
      %o = loops.load %y[i, j]
      %t = arith.addf %o, %s : f32
      loops.store %t, %y[i, j]
    }}
  }}
}}
"""


@pytest.mark.parametrize(
    ("rows", "size", "is_stream"), [(6, 16, True), (12, 8, True), (18, 16, False), (6, 32, False)]
)
def test_the_hardware_runs_ahead_of_few_rows(rows: int, size: int, *, is_stream: bool):
    text = STREAMED.format(rows=rows, size=size, blocks=768 // size)
    assert (found_in(nest_in(text)) is None) == is_stream
