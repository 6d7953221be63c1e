"""Products of matrices on tensor cores in kernels that go through blocks in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import Float64Type
from xdsl.ir import Block, Operation, Region

from ocannl.dialects.index.linear import Linear, Space
from ocannl.dialects.index.memref import element_type
from ocannl.dialects.kernel.mma import ACROSS, COLUMNS, FRAGMENTS, ROWS, Fragments, MmaOp
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, YieldOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.loops_to_kernels.options import Types
from ocannl.lowering.loops_to_kernels.tensor_cores import fits_tensor_cores
from ocannl.passes.analysis.patterns.contractions import Contraction

# The warps of a block.
WARPS = 8


@dataclass(frozen=True)
class WarpGrid:
    """The fragments of a product: `rows` of them and as many warps; `columns` warps with `tiles` each."""

    rows: int
    columns: int
    tiles: int

    @staticmethod
    def of(rows: int, columns: int) -> WarpGrid | None:
        """That of a product with so many rows and columns, if each warp has as many whole fragments."""
        down = rows // ROWS
        if rows % ROWS or down == 0 or WARPS % down:
            return None
        across = WARPS // down
        fits = columns % (COLUMNS * across) == 0
        return WarpGrid(down, across, columns // (COLUMNS * across)) if fits else None


def warp_grid(nest: NestOp, found: Contraction, types: Types) -> WarpGrid | None:
    """How the warps of a block share a product on tensor cores; None if they do not multiply it."""
    sizes, deep = dict(nest.space.data), dict(found.reduce.space.data)
    loads = (found.left, found.right)
    if not fits_tensor_cores(found, types) or len(sizes) > 2 or len(deep) > 1:
        return None
    # Sums of f64 would fill the registers.
    if isinstance(element_type(found.left.node), Float64Type):
        return None
    if any(load.positions for load in loads) or deep[found.k] % fragments_of(found).depth:
        return None
    return WarpGrid.of(sizes[found.row], sizes[found.column])


def fragments_of(found: Contraction) -> Fragments:
    return FRAGMENTS[type(element_type(found.left.node))]


@dataclass(frozen=True)
class WarpThreads:
    """The threads of a block: three variables of two warps each; in a warp `rows` times `columns` of them.

    `register` names a register variable, by what it is for and its size.
    """

    warps: tuple[Linear, Linear, Linear]
    rows: Linear
    columns: Linear
    register: Callable[[str, int], str]

    def split(self, grid: WarpGrid) -> tuple[Linear, Linear]:
        """The numbers of a warp along rows and along columns."""
        bits = grid.rows.bit_length() - 1
        return digits(self.warps[:bits]), digits(self.warps[bits:])


def digits(values: tuple[Linear, ...]) -> Linear:
    """A number by its binary digits, the highest first."""
    total = Linear()
    for value in values:
        total = total * 2 + value
    return total


def multiply(found: Contraction, grid: WarpGrid, threads: WarpThreads, step: str) -> Mapping[str, Linear]:
    """Computes a product by fragments, in steps along the depth that a variable counts; returns the places of
    a thread's results, by the nest's variables.
    """
    fragments, reduce = fragments_of(found), found.reduce
    half, row, pair = (threads.register(role, 2) for role in ("3deep_half", "4row_half", "5column_pair"))
    deep = [half, *([threads.register("6deep_pair", 2)] if fragments.pack > 1 else [])]
    warp_row, warp_column = threads.split(grid)
    rows = threads.rows + Linear.var(row) * (ROWS // 2) + warp_row * ROWS
    tile = warp_column * (COLUMNS * grid.tiles)
    if grid.tiles > 1:
        tile += Linear.var(threads.register("0column_tile", grid.tiles)) * COLUMNS
    pack = fragments.pack
    along = Linear.of({step: fragments.depth, half: pack * ACROSS}) + threads.columns * pack
    along += Linear.of(dict.fromkeys(deep[1:], 1))
    left, right = (
        LoadOp(load.node, [index.substitute({side: place, found.k: along}) for index in load.indices.data])
        for load, side, place in (
            (found.left, found.row, rows),
            (found.right, found.column, tile + threads.rows),
        )
    )
    product = MmaOp(left.result, right.result, row, deep, pair)
    steps = dict(reduce.space.data)[found.k] // fragments.depth
    put_sum(reduce, [left, right, product], ((step, steps),))
    return {found.row: rows, found.column: tile + threads.columns * 2 + Linear.var(pair)}


def put_sum(reduce: ReduceOp, ops: Sequence[Operation], space: Space) -> None:
    """Puts the sum of what some operations compute last in place of a reduction."""
    *_, last = ops
    (result,) = last.results
    made = ReduceOp("add", space, Region(Block([*ops, YieldOp(result)])), result.type)
    block = reduce.parent
    assert block is not None
    block.insert_op_before(made, reduce)
    reduce.result.replace_all_uses_with(made.result)
    reduce.detach()
    reduce.erase()
