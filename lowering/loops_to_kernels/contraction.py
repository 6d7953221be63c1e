"""Contractions: blocks compute tiles of the result from tiles of both operands in shared memory.

Neighbouring values of a result along two variables read the same operands, as in `w[o, k] * x[b, k]` along
`b` and along `o`. What is done with the operands does not matter, nor how it is accumulated.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.bounds import Bound
from ocannl.dialects.kernel import element_bytes
from ocannl.dialects.launch import LaunchOp
from ocannl.dialects.linear import Linear, Map, MapAttr, SpaceAttr
from ocannl.dialects.loops import IndexOp, LoadOp, NestOp, ReduceOp, StoreOp, YieldOp
from ocannl.lowering.loops_to_kernels.draft import Draft, contiguous, detached, guarded, split_reduction
from ocannl.lowering.loops_to_kernels.staging import Operand, Staging
from ocannl.passes.nests import names_in, reduction_work

# The threads of a block along each side of a tile, and what one of them may have in registers.
SIDE = 16
TILES = (16, 32, 64, 128)
VECTOR = 4
# A smaller side or a shorter reduction is not worth a tile.
LEAST_SIDE, LEAST_REDUCED = 16, 8
DEPTHS = (16, 8, 4)
# Tiles in shared memory at a time, of each operand, and what all may take: on Metal a block has so much.
STAGES, SHARED_BYTES = 2, 32 * 2**10
# Blocks that run at a time, roughly, and what an operand of a tile costs beside a multiplication.
PROCESSORS, OPERAND_COST = 128, 8
# Columns added to a shared array, so that a column does not lie in one bank.
PADDING_BYTES = 16


@dataclass(frozen=True)
class Contraction:
    """A reduction over `k` of two loads, one along the nest's variable `row`, one along `column`."""

    reduce: ReduceOp
    left: LoadOp
    right: LoadOp
    row: str
    column: str
    k: str


def contraction(nest: NestOp) -> LaunchOp | None:
    """A kernel that computes tiles of a contraction, if a nest is one."""
    found = find(nest)
    if found is None:
        return None
    draft = Draft.of(nest)
    tiles = tile_sizes(nest, found)
    for name, size in nest.space.data:
        if name in tiles:
            draft.split(name, SIDE, registers(tiles[name]))
        else:
            draft.grid.append((name, size))
    # The last variable of the block is that of the columns: its neighbours are neighbours in memory.
    draft.block.sort(key=lambda variable: variable[0] not in draft.values[found.row].names)
    ops = detached(nest)
    rest = [op for op in ops if op is not found.reduce]
    arrays, tiled = stage(draft, found, tiles)
    draft.substitute(rest)
    return draft.launch(nest, [*constants(found, rest), *arrays, tiled, *guarded(draft.bounds, rest)])


def find(nest: NestOp) -> Contraction | None:
    """The contraction that a nest mostly is."""
    if nest.clashing:
        return None
    reduces = [op for op in nest.body.block.ops if isinstance(op, ReduceOp)]
    stored = {op.node for op in nest.body.block.ops if isinstance(op, StoreOp)}
    for reduce in reduces:
        others = reduction_work(op for op in reduces if op is not reduce)
        if others <= reduction_work([reduce]):
            found = as_contraction(nest, reduce)
            if found is not None and not {found.left.node, found.right.node} & stored:
                return found
    return None


def as_contraction(nest: NestOp, reduce: ReduceOp) -> Contraction | None:
    loads = [op for op in reduce.body.block.ops if isinstance(op, LoadOp)]
    if len(loads) != 2 or any(load.positions for load in loads) or not stands_alone(reduce):
        return None
    own = dict(nest.space.data)
    first, second = (names_in(load.indices.data) for load in loads)
    stores = [op for op in nest.body.block.ops if isinstance(op, StoreOp)]
    sides = [[n for n in own if n in a and n not in b] for a, b in ((first, second), (second, first))]
    if not all(sides):
        return None
    best = [max(names, key=lambda n: (contiguous(stores, n), own[n])) for names in sides]
    # The columns are contiguous in the result.
    if contiguous(stores, best[0]) > contiguous(stores, best[1]):
        best, loads = best[::-1], loads[::-1]
    ks = [(size, name) for name, size in reduce.space.data if name in first and name in second]
    if not ks or max(ks)[0] < LEAST_REDUCED or min(own[name] for name in best) < LEAST_SIDE:
        return None
    return Contraction(reduce, loads[0], loads[1], best[0], best[1], max(ks)[1])


def stands_alone(reduce: ReduceOp) -> bool:
    """Nothing but constants comes from outside, and nothing but the loads depends on where it is."""
    inside = set(reduce.body.block.ops)
    for op in inside:
        if isinstance(op, ReduceOp | IndexOp):
            return False
        for operand in op.operands:
            owner = operand.owner
            if not isinstance(op, LoadOp) and owner not in inside and not isinstance(owner, arith.ConstantOp):
                return False
    return True


def constants(found: Contraction, rest: list[Operation]) -> list[Operation]:
    """Takes the constants that the reduction uses out of the rest."""
    used = {operand.owner for op in found.reduce.body.walk() for operand in op.operands}
    taken = [op for op in rest if isinstance(op, arith.ConstantOp) and op in used]
    for op in taken:
        rest.remove(op)
    return list[Operation](taken)


def tile_sizes(nest: NestOp, found: Contraction) -> dict[str, int]:
    """The sides of a tile: as large as leaves work for all processors."""
    sizes = dict(nest.space.data)
    others = 1
    for name, size in nest.space.data:
        others *= 1 if name in (found.row, found.column) else size

    def cost(tile: tuple[int, int]) -> float:
        rows, columns = tile
        blocks = others * -(-sizes[found.row] // rows) * -(-sizes[found.column] // columns)
        return -(-blocks // PROCESSORS) * (rows * columns + OPERAND_COST * (rows + columns))

    rows, columns = min(itertools.product(TILES, TILES), key=cost)
    return {found.row: rows, found.column: columns}


def registers(tile: int) -> tuple[int, ...]:
    """A thread's elements along a side: as many as one access to memory takes, and groups of them."""
    count = tile // SIDE
    if count == 1:
        return ()
    return (count,) if count <= VECTOR else (count // VECTOR, VECTOR)


def stage(draft: Draft, found: Contraction, tiles: dict[str, int]) -> tuple[list[Operation], ReduceOp]:
    """The shared arrays, what comes before the reduction, and the reduction over tiles in shared memory."""
    reduce, k = found.reduce, found.k
    size = dict(reduce.space.data)[k]
    loads = (found.left, found.right)
    operands = [
        Operand(load.node, load.indices.data, side, tiles[side], False, padding(load))
        for load, side in zip(loads, (found.row, found.column), strict=True)
    ]
    depth = tile_depth(size, sum(operand.bytes(1) for operand in operands))
    staging = Staging(draft, operands, k, size, depth, min(STAGES, -(-size // depth)))
    outer = tuple((n, s) for n, s in reduce.space.data if n != k)

    def work(arrays: Sequence[tuple[SSAValue, Map]], deep: Linear) -> ReduceOp:
        for load, operand, (array, slot) in zip(loads, operands, arrays, strict=True):
            local = within_block(draft, operand.side)
            load.operands[0] = array
            load.properties["indices"] = MapAttr((*slot, *operand.place(local, Linear.var(k))))
        reduce.properties["space"] = SpaceAttr(((k, depth),))
        split_reduction(reduce, k, k, depth, [Bound(deep, size)] if size % depth else [])
        return reduce

    arrays, before, tiled = staging.reduce(reduce.accum.data, outer, work)
    reduce.result.replace_uses_with_if(tiled.result, lambda use: not isinstance(use.operation, YieldOp))
    return [*arrays, *before], tiled


def padding(load: LoadOp) -> int:
    return PADDING_BYTES // element_bytes(load.node)


def tile_depth(size: int, bytes: int) -> int:
    """How much of a reduction is in a tile that takes so many bytes for each point of it."""
    fitting = [depth for depth in DEPTHS if STAGES * depth * bytes <= SHARED_BYTES] or DEPTHS[-1:]
    return next((depth for depth in fitting[:2] if size % depth == 0), min(size, fitting[0]))


def within_block(draft: Draft, name: str) -> Linear:
    """The part of a nest's variable that tells the threads and registers of a block apart."""
    grid = dict(draft.grid)
    return Linear.of({n: c for n, c in draft.values[name].terms if n not in grid})
