"""Prefetches of the operands of the next block of a sum, a part of them in each tile of the block before.

A group that adds up a sum in blocks begins each of them with operands that no cache has. Tiles read these
across the order of memory, which no hardware prefetcher foresees.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from xdsl.ir import SSAValue

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import GroupOp, LoadOp, NestOp, ReduceOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.placement import Level, Placement
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.costs.far_arrays import array_bytes
from ocannl.passes.analysis.nests import operations

# An operand of fewer bytes is near enough.
FAR = 2**22
# The rows of an operand that are streams of which a hardware prefetcher runs ahead, and the tiles that may
# read the same piece of them, one after the other.
STREAMS, FEW = 16, 2


@dataclass(frozen=True, slots=True)
class NextBlock:
    """The bytes of the next block of an operand that the steps of a sum prefetch.

    Attributes:
        address: where a step prefetches, in bytes; it moves with the number of the tile, modulo and over
            `apart`.
        bytes: how many.
        apart: the steps from one that prefetches to the next.
    """

    node: SSAValue
    address: Address
    bytes: int
    apart: int


def phase_of(apart: int) -> str:
    return f"tile modulo {apart}"


def piece_of(apart: int) -> str:
    return f"tile over {apart}"


@dataclass(frozen=True, slots=True)
class BlocksAhead:
    """The blocks that a sum prefetches in the loop `variable`, from its load `first` on; and the loops around
    the sum, with how many tiles they have and the points in one.
    """

    first: LoadOp
    variable: str
    tiles: Sequence[tuple[str, int, int]]
    blocks: Sequence[NextBlock]

    def begin_tile(self, b: FunctionBuilder, positions: dict[str, Position]) -> None:
        """Sets by which part of it what a tile prefetches is chosen."""
        number = self.number(b, positions)
        for apart in dict.fromkeys(block.apart for block in self.blocks):
            positions[phase_of(apart)] = Position(b.emit(f"urem i64 {number}, {apart}"), 0, b.depth)
            positions[piece_of(apart)] = Position(b.emit(f"udiv i64 {number}, {apart}"), 0, b.depth)

    def number(self, b: FunctionBuilder, positions: Mapping[str, Position]) -> str:
        """The number of a tile, in the order of the loops."""
        total = ""
        for variable, count, points in self.tiles:
            at = positions[variable]
            place = str(at.offset // points)
            if at.name is not None:
                point = b.emit(f"add i64 {at.name}, {at.offset}") if at.offset else at.name
                place = b.emit(f"udiv i64 {point}, {points}")
            total = place if not total else b.emit(f"add i64 {b.emit(f'mul i64 {total}, {count}')}, {place}")
        return total or "0"


def blocks_ahead(nest: NestOp, placement: Placement, schedule: Schedule) -> dict[ReduceOp, BlocksAhead]:
    """The blocks that a sum of products over one loop prefetches, in a group that adds it up in blocks: those
    of its operands, or of what these are copied from.
    """
    group = nest.parent_op()
    if not isinstance(group, GroupOp) or not group.space.names or len(placement.reductions) != 1:
        return {}
    ((op, reduction),) = placement.reductions.items()
    if reduction.product is None or not reduction.levels:
        return {}
    level = reduction.levels[-1]
    loads = [load for load in level.ops if isinstance(load, LoadOp)]
    moving = {name for load in loads for name, _ in placement.addresses[load].terms}
    tiles = [
        (own.variable, -(-own.size // schedule.tile(own.variable)), schedule.tile(own.variable))
        for own in placement.levels
        if own.variable in moving and own.size > schedule.tile(own.variable)
    ]
    found = [
        part_of_block(load, group, reduction.levels, math.prod(n for _, n, _ in tiles))
        for load in far_loads(group)
        if not makes_streams(load, reduction.levels, tiles)
    ]
    blocks = [block for block in found if block is not None]
    return {op: BlocksAhead(loads[0], level.variable, tiles, blocks)} if loads and blocks else {}


def makes_streams(op: LoadOp, levels: Sequence[Level], tiles: Sequence[tuple[str, int, int]]) -> bool:
    """Whether tiles read a few rows of an operand in the order of memory, as where a matrix is multiplied
    with a vector.
    """
    again = math.prod(count for name, count, _ in tiles if not address_of(op).stride(name))
    return math.prod(level.size for level in levels) <= STREAMS and again <= FEW


def far_loads(group: GroupOp) -> Iterator[LoadOp]:
    """The first loads of large nodes from outside of a group."""
    known: set[SSAValue] = {node.result for node in group.nodes}
    for nest in group.nests:
        for op in operations(nest.body.block):
            if isinstance(op, LoadOp) and op.node not in known and not op.positions:
                known.add(op.node)
                if array_bytes(op.node) >= FAR:
                    yield op


def part_of_block(op: LoadOp, group: GroupOp, levels: Sequence[Level], tiles: int) -> NextBlock | None:
    """The part of an operand that steps prefetch. At each point of the sum it has a row, of what lies side by
    side for all results: the tiles, one after the other, fetch its pieces; those that would fetch the same
    line share the points among them. None for an operand that has no such rows.
    """
    address, bytes, sizes = address_of(op), element_bytes(op.node), scope_sizes(op)
    summed = [tuple(level.variable.split("*")) for level in levels]
    inside = {*itertools.chain(*summed), *group.space.names}
    others = {name: size for name, size in sizes.items() if name not in inside}
    row, to_next = row_length(address, others) * bytes, address.stride(group.space.names[-1])
    if not row or not to_next or not set(itertools.chain(*summed)) <= sizes.keys():
        return None
    if not all(address.moves_as_one(names, sizes) for names in summed):
        return None
    apart = 1
    while 2 * apart * max(row, LINE) <= tiles * LINE and levels[-1].size % (2 * apart) == 0:
        apart *= 2
    piece = -(-row // (tiles // apart))
    terms = [(name, address.stride(name) * bytes) for name in group.space.names if address.stride(name)]
    terms += [
        (level.variable, address.stride(names[-1]) * bytes)
        for level, names in zip(levels, summed, strict=True)
    ]
    terms += [(phase_of(apart), terms[-1][1]), (piece_of(apart), piece)]
    return NextBlock(op.node, Address(tuple(terms), (address.constant + to_next) * bytes), piece, apart)


def row_length(address: Address, sizes: Mapping[str, int]) -> int:
    """How many elements lie side by side that an access reads along some variables; 0 if they do not."""
    length = 1
    for stride, size in sorted((abs(address.stride(name)), size) for name, size in sizes.items()):
        if stride > length:
            return 0
        length += stride * (size - 1)
    return length
