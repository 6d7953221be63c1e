"""Contractions on tensor cores: each warp multiplies fragments of the tiles in shared memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation, Region, SSAValue

from ocannl.dialects.index.addresses import flatten
from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear, Map
from ocannl.dialects.index.memref import element_bytes, element_type, memref_shape
from ocannl.dialects.kernel import WhereOp
from ocannl.dialects.kernel.gpu import BANK_BYTES, BANKS, HALF_BYTES, PROCESSORS, SWIZZLED_BYTES, VECTOR_BYTES
from ocannl.dialects.kernel.launch import LaunchOp
from ocannl.dialects.kernel.mma import ACROSS, COLUMNS, FRAGMENTS, QUARTERS, ROWS, MmaOp
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, YieldOp
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.lowering.loops_to_kernels.draft import Draft, Variables, detached
from ocannl.lowering.loops_to_kernels.merged_rows import choose_rows, in_place
from ocannl.lowering.loops_to_kernels.options import KernelOptions, Types
from ocannl.lowering.loops_to_kernels.pipelining import Pipeline, TiledOperand, within_block
from ocannl.lowering.loops_to_kernels.roles import RolePipeline
from ocannl.passes.analysis.patterns.contractions import (
    Contraction,
    is_sum_of_products,
    tile_count,
    tile_work,
)

# Stages of the software pipeline at most, and bytes of a tile along the reduction, the preferred first.
STAGES, DEPTH_BYTES = 3, (128, 64)
# Stages for warpgroups: if there is no room for two blocks of so many, as many as there is room for, at most.
# A step of a tile of 128 x 128 takes less time than two copies.
WARPGROUP_STAGES, MOST_STAGES = 4, 7
# The cost of an operand, and of a step of warpgroups however small, in multiplications.
OPERAND_COST, STEP_COST = 32, 5000
# The bytes of the sums that a warp has in registers, at most.
WARP_BYTES = 64 * 64 * 4


@dataclass(frozen=True)
class WarpTiles:
    """The tile of a block, `rows` x `columns`, and the parts of it that warps have."""

    rows: int
    columns: int
    warp_rows: int
    warp_columns: int

    @property
    def fits_warpgroups(self) -> bool:
        """Whether four warps have 64 rows and all columns."""
        return self.warp_rows == ROWS and self.rows % (4 * ROWS) == 0 and self.warp_columns == self.columns


TILES = (
    WarpTiles(128, 256, 64, 64),
    WarpTiles(256, 128, 64, 64),
    WarpTiles(128, 128, 64, 64),
    WarpTiles(64, 128, 32, 64),
    WarpTiles(128, 64, 64, 32),
    WarpTiles(64, 64, 32, 32),
    WarpTiles(32, 64, 16, 32),
    WarpTiles(64, 32, 32, 16),
    WarpTiles(32, 32, 16, 16),
)

# For warpgroups, which have 64 rows and at most 256 columns each.
WARPGROUP_TILES = (
    WarpTiles(128, 256, 16, 256),
    WarpTiles(128, 192, 16, 192),
    WarpTiles(128, 128, 16, 128),
    WarpTiles(64, 256, 16, 256),
    WarpTiles(64, 128, 16, 128),
    WarpTiles(128, 64, 16, 64),
    WarpTiles(64, 64, 16, 64),
)
# Products of 8 bits have sums of a step beside those of all: three warpgroups have room for larger tiles.
MOST_QUARTER_COLUMNS = 192
QUARTER_TILES = (
    WarpTiles(192, 128, 16, 128),
    *(tiles for tiles in WARPGROUP_TILES if tiles.columns <= MOST_QUARTER_COLUMNS),
)


def fits_tensor_cores(found: Contraction, tensor_types: Types) -> bool:
    """Whether a contraction is a sum of products in f32 or f64, of operands of one of some types."""
    types = {type(element_type(load.node)) for load in (found.left, found.right)}
    if len(types) > 1 or not types <= set(tensor_types):
        return False
    return found.reduce.result.type == FRAGMENTS[next(iter(types))].sums and is_sum_of_products(found)


def fits_warpgroups(found: Contraction, options: KernelOptions) -> bool:
    """Whether a contraction is a sum of products of 8 bits for warpgroups: both operands lie along it."""
    return (
        options.warpgroups
        and fits_tensor_cores(found, QUARTERS)
        and is_deep(found)
        and all(address_of(load).stride(found.k) == 1 for load in (found.left, found.right))
    )


def is_deep(found: Contraction) -> bool:
    """Whether a sum fills a row of a swizzled array."""
    return dict(found.reduce.space.data)[found.k] * element_bytes(found.left.node) >= SWIZZLED_BYTES


def tensor_core_contraction(nest: NestOp, found: Contraction, options: KernelOptions) -> LaunchOp:
    """A kernel that computes tiles of a contraction by products of fragments."""
    return TensorCoreKernel(nest, found, options).launch()


class TensorCoreKernel:
    """The construction of a kernel for tensor cores.

    Attributes:
        row, column: the kernel's variables along the rows and the columns of the result, by what they count:
            lanes of a warp, halves or pairs inside a fragment, fragments of a warp, warps of a block.
        half, pair: variables along the reduction inside a fragment, where there are such.
    """

    def __init__(self, nest: NestOp, found: Contraction, options: KernelOptions) -> None:
        self.draft = draft = Draft.of(nest)
        found, tiles = choose_rows(draft, nest, found, partial(choose_tiles, nest, options=options))
        found = turned(found) if tiles.fits_warpgroups else found
        self.nest, self.found = nest, found
        self.fragments = FRAGMENTS[type(element_type(found.left.node))]
        self.row, self.column = compose_sides(draft, found, tiles)
        draft.group_blocks(found.row, found.column)
        fragments = self.fragments
        self.half: Variables = [(draft.names.fresh(f"{found.k}_half"), 2)] if fragments.halves > 1 else []
        self.pair: Variables = [(draft.names.fresh(f"{found.k}_pair"), 2) for _ in fragments.steps]
        self.pipeline = tensor_pipeline(draft, found, tiles, options)
        self.place_variables()
        roles = RolePipeline(self.pipeline, options.processors)
        has_roles = options.roles and options.warpgroups and tiles.fits_warpgroups
        self.roles = roles if has_roles and roles.fits() else None

    def place_variables(self) -> None:
        """Decides which variables are of the grid, of the block and of registers."""
        draft, row, column, sides = self.draft, self.row, self.column, (*self.found.rows, self.found.column)
        draft.grid += [(name, size) for name, size in self.nest.space.data if name not in sides]
        draft.block += [*row.get("warp", ()), *column.get("warp", ()), *row["lane"], *column["lane"]]
        # Those of a fragment come last, in the order of the instruction: so what one load of matrices gives
        # is what one product takes.
        draft.registers += [
            *row.get("tile", ()),
            *column.get("tile", ()),
            *self.half,
            *row["half"],
            *column["pair"],
            *self.pair,
        ]

    def launch(self) -> LaunchOp:
        draft, reduce = self.draft, self.found.reduce
        epilogue = [op for op in detached(self.nest) if op is not reduce]
        if self.roles is not None:
            body = self.roles.launch_body("add", self.products, partial(self.after, epilogue))
            return draft.launch(self.nest, body)
        arrays, before, tiled = self.pipeline.reduction("add", self.products)
        return draft.launch(self.nest, [*arrays, *before, tiled, *self.after(epilogue, tiled)])

    def after(self, epilogue: Sequence[Operation], tiled: ReduceOp) -> list[Operation]:
        """The epilogue of a tile, with its sums in place of the nest's."""
        self.found.reduce.result.replace_all_uses_with(tiled.result)
        self.found.reduce.erase()
        self.draft.substitute(epilogue)
        return in_place(self.draft, self.found, epilogue)

    def products(
        self, arrays: Sequence[tuple[SSAValue, Map]], deep: Linear, later: list[Operation]
    ) -> list[Operation]:
        """Products of the fragments of a tile. `deep` bounds nothing: there are zeros outside.

        The copies of a later tile, `later`, begin when the first fragments are on their way.
        """
        pipeline, depth = self.pipeline, self.fragments.depth
        step = self.draft.names.fresh(f"{self.found.k}_step")
        places = zip(pipeline.operands, arrays, self.sides(), strict=True)
        along = self.along(step)
        left, right = (
            LoadOp(array, (*slot, *operand.place(side, along))) for operand, (array, slot), side in places
        )
        deep_names = [name for name, _ in (*self.half, *self.pair)]
        rows, columns = self.row["half"][0][0], self.column["pair"][0][0]
        in_flight = bool(pipeline.in_flight)
        product = MmaOp(left.result, right.result, rows, deep_names, columns, is_async=in_flight)
        steps = pipeline.depth // depth
        if steps > 1 and later:
            later = [WhereOp([Bound(Linear.var(step), 1)], Region(Block(later)))]
        body = Block([left, right, *later, product, YieldOp(product.result)])
        return [ReduceOp("add", ((step, steps),), Region(body), product.result.type)]

    def along(self, step: str) -> Linear:
        """The place along the reduction, in its tile, of what a thread has of a fragment."""
        pack, lane = self.fragments.pack, self.column["lane"][0][0]
        along = Linear.of({step: self.fragments.depth, lane: pack})
        along += Linear.of({name: pack * ACROSS for name, _ in self.half})
        steps = zip(self.pair, self.fragments.steps, strict=True)
        return along + Linear.of({name: size for (name, _), size in steps})

    def sides(self) -> tuple[Linear, Linear]:
        """The rows of the left operand's fragments, and those of the right one's, which are its columns."""
        column = self.column
        own = {name: Linear() for name, _ in (*column["lane"], *column["pair"])}
        right = within_block(self.draft, self.found.column).substitute(own)
        return within_block(self.draft, self.found.row), right + Linear.var(self.row["lane"][0][0])


def compose_sides(
    draft: Draft, found: Contraction, tiles: WarpTiles
) -> tuple[dict[str, Variables], dict[str, Variables]]:
    """Splits the variables of rows and columns over lanes, fragments and warps; returns the parts."""
    across, down = tiles.columns // tiles.warp_columns, tiles.rows // tiles.warp_rows
    row = draft.compose(
        found.row, [("lane", COLUMNS), ("half", 2), ("tile", tiles.warp_rows // ROWS), ("warp", down)]
    )
    column = draft.compose(
        found.column,
        [("pair", 2), ("lane", ACROSS), ("tile", tiles.warp_columns // COLUMNS), ("warp", across)],
    )
    return row, column


def cost(nest: NestOp, found: Contraction, tiles: WarpTiles, waiting: int = 0) -> int:
    """That of whole rounds of blocks on all multiprocessors, each of which waits for so long in a step."""
    blocks = tile_count(nest, found, tiles.rows, tiles.columns)
    return -(-blocks // PROCESSORS) * (waiting + tile_work(tiles.rows, tiles.columns, OPERAND_COST))


def choose_tiles(nest: NestOp, found: Contraction, options: KernelOptions) -> tuple[int, WarpTiles]:
    """The cheapest tile and its cost; of equal ones, one for warpgroups."""
    bytes = element_bytes(found.left.node)
    if bytes < HALF_BYTES:
        own = min(QUARTER_TILES, key=lambda tiles: cost(nest, found, tiles, STEP_COST))
        return cost(nest, found, own), own
    fits = bytes == HALF_BYTES or bool(rounded_sides(turned(found)))
    first = WARPGROUP_TILES if options.warpgroups and is_deep(found) and fits else ()
    sums = FRAGMENTS[type(element_type(found.left.node))].sums.size
    fitting = [tiles for tiles in TILES if tiles.warp_rows * tiles.warp_columns * sums <= WARP_BYTES]
    best = min(((cost(nest, found, tiles), tiles) for tiles in fitting), key=itemgetter(0))
    if best[0] < min((cost(nest, turned(found), tiles) for tiles in first), default=math.inf):
        return best
    own = min(first, key=lambda tiles: cost(nest, turned(found), tiles, STEP_COST))
    return cost(nest, turned(found), own), own


def rounded_sides(found: Contraction) -> set[str]:
    """The sides of a product of f32 of whose operands hardware copies tiles in bulk, and rounds them to TF32,
    in rows along the reduction: as warpgroups want their right operand, and their left one unless threads
    have it in registers.
    """
    if found.left.result.type != f32:
        return set()
    sides = {found.column: found.right, **({} if found.merged else {found.row: found.left})}
    return {side for side, load in sides.items() if is_box_of_rows(load, side, found)}


def is_box_of_rows(load: LoadOp, side: str, found: Contraction) -> bool:
    """Whether a load goes along the sum in memory, in aligned rows, and along a side by an axis of its own.

    A part of a long sum is some whole steps.
    """
    *others, last = indices = load.indices.data
    sizes, bytes = dict(found.reduce.space.data), element_bytes(load.node)
    is_along = last.coefficient(found.k) == 1 and not any(index.coefficient(found.k) for index in others)
    is_stepped = last.variable == found.k or sizes[found.k] % (SWIZZLED_BYTES // bytes) == 0
    is_plain = Linear.var(side) in others and all(is_number(index, sizes) for index in indices)
    is_aligned = memref_shape(load.node)[-1] * bytes % VECTOR_BYTES == 0
    return is_along and is_stepped and is_plain and is_aligned


def is_number(index: Linear, sizes: Mapping[str, int]) -> bool:
    """Whether an index is a variable, or counts on from the parts of a sum that came before, of the sizes of
    its variables.
    """
    *part, (name, step) = sorted(index.terms, key=lambda term: -term[1]) or [("", 1)]
    is_counted = len(part) == 1 and step == 1 and part[0][1] == sizes.get(name)
    return not index.constant and (not part or is_counted)


def turned(found: Contraction) -> Contraction:
    """The product, or its transpose if only the left operand can be the right one of warpgroups."""
    if rounded_sides(found) != {found.row}:
        return found
    return replace(found, left=found.right, right=found.left, row=found.column, column=found.row)


def tensor_pipeline(draft: Draft, found: Contraction, tiles: WarpTiles, options: KernelOptions) -> Pipeline:
    """The software pipeline: the deepest tiles of which shared memory holds all stages."""
    most, size = options.shared_bytes, dict(found.reduce.space.data)[found.k]
    bytes = element_bytes(found.left.node)
    if options.warpgroups and tiles.fits_warpgroups:
        depth = SWIZZLED_BYTES // bytes
        shared = rounded_sides(found) if bytes > HALF_BYTES else {found.row, found.column}
        operands = [
            replace(o, padding=0, is_swizzled=True) if o.side in shared else o
            for o in tile_operands(found, tiles, depth)
        ]
        room = most // stage_bytes(depth, operands)
        stages = WARPGROUP_STAGES if room >= 2 * WARPGROUP_STAGES else min(MOST_STAGES, room)
        goes_on = bytes >= HALF_BYTES
        return Pipeline(draft, operands, found.outer, found.k, size, depth, stages, async_products=goes_on)
    least = FRAGMENTS[type(element_type(found.left.node))].depth
    depths = [min(row // bytes, -(-size // least) * least) for row in DEPTH_BYTES]
    choices = [(depth, tile_operands(found, tiles, depth)) for depth in depths]
    depth, operands = next((c for c in choices if STAGES * stage_bytes(*c) <= most), choices[-1])
    stages = min(STAGES, most // stage_bytes(depth, operands))
    return Pipeline(draft, operands, found.outer, found.k, size, depth, stages)


def stage_bytes(depth: int, operands: Sequence[TiledOperand]) -> int:
    return sum(operand.bytes(depth) for operand in operands)


def tile_operands(found: Contraction, tiles: WarpTiles, depth: int) -> list[TiledOperand]:
    """Both operands with tiles of a depth, padded against bank conflicts."""
    operands: list[TiledOperand] = []
    bytes = element_bytes(found.left.node)
    for load, side, tile in ((found.left, found.row, tiles.rows), (found.right, found.column, tiles.columns)):
        deep_rows = flatten(load.node, load.indices.data).stride(found.k) == 1
        padding = row_padding(depth if deep_rows else tile, bytes, deep_rows)
        merged = found.merged if side == found.row else ()
        operands.append(
            TiledOperand(load.node, load.indices.data, side, tile, deep_rows, padding, merged=merged)
        )
    return operands


def row_padding(row: int, bytes: int, deep_rows: bool) -> int:
    """The least padding of rows, in elements, with the fewest bank conflicts when a warp reads fragments.

    Padded rows stay aligned for the widest copies.
    """
    step = VECTOR_BYTES // bytes
    by_rows = bytes < BANK_BYTES or (deep_rows and bytes == BANK_BYTES)
    pads = range(0, BANKS * BANK_BYTES // bytes, step)
    return min(pads, key=lambda pad: (conflicts((row + pad) * bytes // BANK_BYTES, by_rows), pad))


def conflicts(row_words: int, by_rows: bool) -> int:
    """The most words of one bank in an access of a warp, or of half a one to f64: to 4 words of 8 rows, or
    else to 8 words of 4 rows.
    """
    rows, words = (COLUMNS, ACROSS) if by_rows else (ACROSS, COLUMNS)
    banks = [(r * row_words + w) % BANKS for r, w in itertools.product(range(rows), range(words))]
    return max(map(banks.count, banks))
