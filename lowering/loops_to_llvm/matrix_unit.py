"""Emits nests whose products a matrix unit adds up (Intel, "Advanced Matrix Extensions")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from ocannl.dialects.index.memref import loaded_type
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.dot_instructions import DOT_INSTRUCTIONS, TILE
from ocannl.dialects.loops.values import address_of
from ocannl.lowering.llvm.accumulators import combine
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.instructions import call
from ocannl.lowering.llvm.memory import ElementAccess
from ocannl.lowering.llvm.types import I64, value_type, vector
from ocannl.passes.analysis.cache_lines import LINE
from ocannl.passes.analysis.divisors import largest_divisor

# The additions to an accumulator before it is added to its result, as in other long sums of products.
BLOCK = 256
# LLVM's type of a tile, the bytes of a group of neighbours along the sum, and of a result.
AMX, WORD = "x86_amx", 4


@dataclass(frozen=True, slots=True)
class SumLoop:
    """A loop of the sum, of `size` points in steps of `step`."""

    variable: str
    size: int
    step: int = 1


class MatrixUnitEmitter:
    """Emits a nest that stores the sums of its only reduction.

    The innermost loops of the sum run inside of those over tiles, as long as these add up no more than a
    block. The others run outside, and each block is added to the results in memory.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        nest: NestOp,
        pointers: Mapping[SSAValue, str],
        positions: dict[str, Position],
        first: Mapping[SSAValue, int],
    ) -> None:
        assert nest.schedule is not None
        schedule = nest.schedule.data
        self.b = b
        self.pointers, self.positions, self.first = pointers, positions, first
        assert schedule.rows is not None
        assert schedule.lanes is not None
        (self.row, self.height), (self.column, self.width) = schedule.rows, schedule.lanes
        sizes = dict(nest.space.data)
        self.tiles = [(name, sizes[name]) for name in schedule.order or sizes]
        self.instruction = DOT_INSTRUCTIONS[schedule.dot]
        reduction, store = nest.body.block.ops
        assert isinstance(reduction, ReduceOp)
        assert isinstance(store, StoreOp)
        self.store = store
        loads = [op for op in reduction.body.block.ops if isinstance(op, LoadOp)]
        self.left, self.right = sorted(loads, key=lambda op: address_of(op).stride(self.row) == 0)
        *outer, (groups, count), (neighbour, _) = reduction.space.data
        self.step = largest_divisor(count, TILE)
        self.loops = [*(SumLoop(*loop) for loop in outer), SumLoop(groups, count, self.step)]
        self.positions[neighbour] = Position(None, 0)
        self.result = value_type(loaded_type(store.node))

    def emit(self) -> None:
        outside = list(self.loops)
        additions = 1
        while outside and additions * outside[-1].size <= BLOCK:
            additions *= outside.pop().size
        if not outside:
            self.each_tile(lambda: self.store_tiles(self.sums(self.loops)))
            return
        inside = self.loops[len(outside) :]
        self.each_tile(self.store_zeros)
        if additions == BLOCK:
            self.run(outside, lambda: self.each_tile(lambda: self.add_tiles(self.sums(inside))))
        else:
            self.run(outside[:-1], lambda: self.in_blocks(outside[-1], inside, BLOCK // additions))

    # Loops.

    def run(self, loops: Sequence[SumLoop], body: Callable[[], None]) -> None:
        """Emits `body` inside of some loops."""
        if not loops:
            body()
            return
        loop = self.b.open_loop(0, loops[0].size, loops[0].step)
        self.positions[loops[0].variable] = Position(loop.index, 0, self.b.depth)
        self.run(loops[1:], body)
        self.b.close_loop(loop)

    def in_blocks(self, cut: SumLoop, inside: Sequence[SumLoop], most: int) -> None:
        """Emits a loop of the sum in blocks of at most so many points, the tiles inside of each."""
        extent = max(1, most // cut.step) * cut.step
        blocks = self.b.open_loop(0, cut.size, extent)
        stop = self.b.emit(f"add i64 {blocks.index}, {extent}")
        if cut.size % extent:
            stop = call(self.b, "umin", [stop, str(cut.size)], I64)
        bounds = blocks.index, stop
        self.each_tile(lambda: self.add_tiles(self.sums([cut, *inside], bounds)))
        self.b.close_loop(blocks)

    def each_tile(self, body: Callable[[], None]) -> None:
        """Emits `body` at each block of results."""
        extents = {self.row: self.height, self.column: self.width}
        self.run([SumLoop(name, size, extents.get(name, 1)) for name, size in self.tiles], body)

    # Sums in tiles.

    def sums(self, loops: Sequence[SumLoop], bounds: tuple[str, str] | None = None) -> list[str]:
        """The tiles of a block of results, after some loops of the sum, the first of them within bounds."""
        zeros = [self.zero(rows, columns) for rows, columns in self.shapes]
        return self.accumulate(loops, zeros, bounds)

    def accumulate(
        self, loops: Sequence[SumLoop], tiles: list[str], bounds: tuple[str, str] | None
    ) -> list[str]:
        if not loops:
            return self.add_products(tiles)
        own, *inner = loops
        start, stop = (0, own.size) if bounds is None else bounds
        loop = self.b.open_loop(start, stop, own.step, [(AMX, tile) for tile in tiles])
        self.positions[own.variable] = Position(loop.index, 0, self.b.depth)
        results = self.accumulate(inner, loop.phis, None)
        self.b.close_loop(loop, results)
        return results

    def add_products(self, tiles: Sequence[str]) -> list[str]:
        """Adds the products of a step to each tile."""
        left, right = self.access(self.left), self.access(self.right)
        row_stride = address_of(self.left).stride(self.row)
        group_stride = address_of(self.right).stride(self.loops[-1].variable)
        of_rows = [
            self.load(left, start * row_stride, (count, self.step), row_stride)
            for start, count in pieces(self.height)
        ]
        of_columns = [
            self.load(right, start * self.instruction.depth, (self.step, count), group_stride)
            for start, count in pieces(self.width)
        ]
        pairs = [(x, y) for x in of_rows for y in of_columns]
        shapes = zip(tiles, self.shapes, pairs, strict=True)
        return [self.dot(tile, rows, columns, x, y) for tile, (rows, columns), (x, y) in shapes]

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """The rows and columns of each tile of a block of results."""
        return [(rows, columns) for _, rows in pieces(self.height) for _, columns in pieces(self.width)]

    def access(self, op: LoadOp | StoreOp) -> ElementAccess:
        address = address_of(op).after(self.first.get(op.node, 0))
        element = value_type(loaded_type(op.node))
        return ElementAccess(self.b, self.pointers[op.node], address, self.positions, element, {})

    # Instructions.

    def zero(self, rows: int, columns: int) -> str:
        return self.b.emit(self.intrinsic("tilezero.internal", AMX, f"i16 {rows}, i16 {columns * WORD}"))

    def load(self, access: ElementAccess, offset: int, shape: tuple[int, int], stride: int) -> str:
        """A tile of so many rows of words, which are `stride` elements apart."""
        place = f"ptr {access.at(offset)}, i64 {stride * access.type.bytes}"
        arguments = f"i16 {shape[0]}, i16 {shape[1] * WORD}, {place}"
        return self.b.emit(self.intrinsic("tileloadd64.internal", AMX, arguments))

    def dot(self, tile: str, rows: int, columns: int, left: str, right: str) -> str:
        sizes = f"i16 {rows}, i16 {columns * WORD}, i16 {self.step * WORD}"
        arguments = f"{sizes}, {AMX} {tile}, {AMX} {left}, {AMX} {right}"
        return self.b.emit(self.intrinsic(f"{self.instruction.name}.internal", AMX, arguments))

    def write(self, tile: str, rows: int, columns: int, pointer: str, stride: int) -> None:
        place = f"ptr {pointer}, i64 {stride * WORD}"
        arguments = f"i16 {rows}, i16 {columns * WORD}, {place}, {AMX} {tile}"
        self.b.emit_void(self.intrinsic("tilestored64.internal", "void", arguments))

    def intrinsic(self, name: str, result: str, arguments: str) -> str:
        """The call of an intrinsic, which is declared."""
        types = ", ".join(argument.split()[0] for argument in arguments.split(", "))
        self.b.declarations.add(f"declare {result} @llvm.x86.{name}({types})")
        return f"call {result} @llvm.x86.{name}({arguments})"

    # Results in memory.

    def places(self) -> list[tuple[str, int, int]]:
        """The pointer to each tile of a block of results, with its rows and columns."""
        access, stride = self.access(self.store), self.row_stride
        return [
            (access.at(row * stride + column), rows, columns)
            for row, rows in pieces(self.height)
            for column, columns in pieces(self.width)
        ]

    @property
    def row_stride(self) -> int:
        return address_of(self.store).stride(self.row)

    def store_tiles(self, tiles: Sequence[str]) -> None:
        for tile, (pointer, rows, columns) in zip(tiles, self.places(), strict=True):
            self.write(tile, rows, columns, pointer, self.row_stride)

    def store_zeros(self) -> None:
        for pointer, rows, columns in self.places():
            type, loop = vector(self.result, columns), self.b.open_loop(0, rows, 1)
            place = self.b.advance(self.b.depth, pointer, loop.index, self.row_stride, self.result)
            self.b.emit_void(f"store {type.text} zeroinitializer, ptr {place}, align {WORD}")
            self.b.close_loop(loop)

    def add_tiles(self, tiles: Sequence[str]) -> None:
        """Adds tiles to their results, row by row, by way of the stack."""
        scratch = self.b.allocate(f"[{TILE * TILE} x {self.result.element}], align {LINE}")
        for tile, (pointer, rows, columns) in zip(tiles, self.places(), strict=True):
            self.write(tile, rows, columns, scratch, TILE)
            loop = self.b.open_loop(0, rows, 1)
            type, depth = vector(self.result, columns), self.b.depth
            own, total = (
                self.b.advance(depth, start, loop.index, stride, self.result)
                for start, stride in ((scratch, TILE), (pointer, self.row_stride))
            )
            x, y = (self.b.emit(f"load {type.text}, ptr {place}, align {WORD}") for place in (total, own))
            added = combine(self.b, "add", x, y, type)
            self.b.emit_void(f"store {type.text} {added}, ptr {total}, align {WORD}")
            self.b.close_loop(loop)


def pieces(extent: int) -> list[tuple[int, int]]:
    """The tiles along a side of a block: where each starts, and its extent."""
    return [(start, min(TILE, extent - start)) for start in range(0, extent, TILE)]
