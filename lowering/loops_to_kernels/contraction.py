"""Contractions: blocks compute tiles of the result from tiles of both operands in shared memory.

Neighbouring values of a result along two variables read the same operands, as in `w[o, k] * x[b, k]` along
`b` and along `o`. What is done with the operands does not matter, nor how it is accumulated.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear, Map, MapAttr, SpaceAttr
from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.kernel.gpu import PROCESSORS, VECTOR_BYTES
from ocannl.dialects.kernel.launch import LaunchOp
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, YieldOp
from ocannl.lowering.loops_to_kernels.draft import Draft, Variables, detached, split_reduction
from ocannl.lowering.loops_to_kernels.merged_rows import choose_rows, in_place
from ocannl.lowering.loops_to_kernels.options import KernelOptions
from ocannl.lowering.loops_to_kernels.pipelining import Pipeline, TiledOperand, within_block
from ocannl.lowering.loops_to_kernels.tensor_cores import (
    fits_tensor_cores,
    fits_warpgroups,
    tensor_core_contraction,
)
from ocannl.passes.analysis.patterns.contractions import (
    TILE_SIDES,
    Contraction,
    find_contraction,
    tile_count,
    tile_work,
)

# The threads of a block along each side of a tile; those of a warp along its rows and its columns, which read
# the fewest values of both operands; and what a thread may have in registers.
SIDE = 16
WARP_ROWS, WARP_COLUMNS = 4, 8
VECTOR = 4
DEPTHS = (16, 8, 4)
# The least number of stages of a software pipeline.
STAGES = 2


def contraction(nest: NestOp, options: KernelOptions) -> LaunchOp | None:
    """A kernel that computes tiles of a contraction, if a nest is one; some are for tensor cores."""
    found = find_contraction(nest) or find_contraction(nest, merges=True)
    if found is None:
        return None
    if fits_tensor_cores(found, options.tensor_types) or fits_warpgroups(found, options):
        return tensor_core_contraction(nest, found, options)
    draft = Draft.of(nest)
    found, (rows, columns) = choose_rows(draft, nest, found, partial(tile_sizes, nest))
    tiles = {found.row: rows, found.column: columns}
    split_sides(draft, nest, found, tiles)
    draft.group_blocks(found.row, found.column)
    ops = detached(nest)
    epilogue = [op for op in ops if op is not found.reduce]
    arrays, tiled = pipelined(draft, found, tiles, options)
    draft.substitute(epilogue)
    return draft.launch(
        nest, [*constants(found, epilogue), *arrays, tiled, *in_place(draft, found, epilogue)]
    )


def split_sides(draft: Draft, nest: NestOp, found: Contraction, tiles: dict[str, int]) -> None:
    """Splits the sides of a tile over registers, the lanes of a warp, and warps; all else is for blocks.

    The last variable of the block is that of the columns: its neighbours are neighbours in memory.
    """
    sides: dict[str, dict[str, Variables]] = {}
    for name, size in nest.space.data:
        if name not in (*found.rows, found.column):
            draft.grid.append((name, size))
            continue
        name = found.row if name in found.rows else name
        if name in sides:
            continue
        *groups, inner = registers(tiles[name]) or (1,)
        lanes = WARP_ROWS if name == found.row else WARP_COLUMNS
        parts = [("reg", inner), ("lane", lanes), ("warp", SIDE // lanes), *(("group", n) for n in groups)]
        fresh = sides[name] = draft.compose(name, parts)
        draft.registers += [*fresh.get("group", ()), *fresh.get("reg", ())]
    row, column = sides[found.row], sides[found.column]
    draft.block += [*row["warp"], *column["warp"], *row["lane"], *column["lane"]]


def constants(found: Contraction, epilogue: list[Operation]) -> list[Operation]:
    """Moves the constants that the reduction uses out of the epilogue, which follows it."""
    used = {operand.owner for op in found.reduce.body.walk() for operand in op.operands}
    taken = [op for op in epilogue if isinstance(op, arith.ConstantOp) and op in used]
    for op in taken:
        epilogue.remove(op)
    return list[Operation](taken)


def tile_sizes(nest: NestOp, found: Contraction) -> tuple[int, tuple[int, int]]:
    """The rows and the columns of a tile, the cheapest in whole rounds of blocks on all multiprocessors, and
    its cost.
    """

    def cost(tile: tuple[int, int]) -> int:
        return -(-tile_count(nest, found, *tile) // PROCESSORS) * tile_work(*tile)

    tile = min(itertools.product(TILE_SIDES, TILE_SIDES), key=cost)
    return cost(tile), tile


def registers(tile: int) -> tuple[int, ...]:
    """The register variables of a thread along a side: groups, and the elements of one access to memory."""
    count = tile // SIDE
    if count == 1:
        return ()
    return (count,) if count <= VECTOR else (count // VECTOR, VECTOR)


def pipelined(
    draft: Draft, found: Contraction, tiles: dict[str, int], options: KernelOptions
) -> tuple[list[Operation], ReduceOp]:
    """Operations before the reduction, with the shared arrays, and the pipelined reduction over tiles."""
    reduce, k = found.reduce, found.k
    size = dict(reduce.space.data)[k]
    loads = (found.left, found.right)
    operands = [
        TiledOperand(load.node, load.indices.data, side, tiles[side], False, padding(load), merged=merged)
        for load, side, merged in zip(loads, (found.row, found.column), (found.merged, ()), strict=True)
    ]
    bytes = sum(operand.bytes(1) for operand in operands)
    depth = tile_depth(size, options.tile_bytes // (STAGES * bytes))
    # Small tiles are soon computed: a longer pipeline hides the latency of their copies.
    stages = max(STAGES, min(options.stages, options.tile_bytes // (depth * bytes)))
    pipeline = Pipeline(draft, operands, found.outer, k, size, depth, stages)

    def work(arrays: Sequence[tuple[SSAValue, Map]], deep: Linear, later: list[Operation]) -> list[Operation]:
        for load, operand, (array, slot) in zip(loads, operands, arrays, strict=True):
            local = within_block(draft, operand.side)
            load.operands[0] = array
            load.properties["indices"] = MapAttr((*slot, *operand.place(local, Linear.var(k))))
        reduce.properties["space"] = SpaceAttr(((k, depth),))
        split_reduction(reduce, k, k, depth, [Bound(deep, size)] if size % depth else [])
        return [*later, reduce]

    arrays, before, tiled = pipeline.reduction(reduce.accum.data, work)
    reduce.result.replace_uses_with_if(tiled.result, lambda use: not isinstance(use.operation, YieldOp))
    return [*arrays, *before], tiled


def padding(load: LoadOp) -> int:
    """The columns added to a shared array, so that accesses down a column have no bank conflicts."""
    return VECTOR_BYTES // element_bytes(load.node)


def tile_depth(size: int, most: int) -> int:
    """The depth of a tile along the reduction: one that divides its `size` if possible, of at most `most`."""
    fitting = [depth for depth in DEPTHS if depth <= most] or DEPTHS[-1:]
    return next((depth for depth in fitting[:2] if size % depth == 0), min(size, fitting[0]))
