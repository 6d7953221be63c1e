"""Emits nests whose products a matrix unit adds up (Intel, "Advanced Matrix Extensions")."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.dialects.loops.dot_instructions import TILE
from ocannl.dialects.loops.values import address_of
from ocannl.lowering.llvm.accumulators import combine
from ocannl.lowering.llvm.memory import ElementAccess
from ocannl.lowering.llvm.types import vector
from ocannl.lowering.loops_to_llvm.dot_nest import WORD, DotEmitter
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.schedules.divisors import largest_divisor

# LLVM's type of a tile.
AMX = "x86_amx"


class MatrixUnitEmitter(DotEmitter):
    """Accumulates blocks of results in up to four tiles."""

    @property
    def carried(self) -> str:
        return AMX

    def step_of(self, groups: int) -> int:
        return largest_divisor(groups, TILE)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """The rows and columns of each tile of a block of results."""
        return [(rows, columns) for _, rows in pieces(self.height) for _, columns in pieces(self.width)]

    def zeros(self) -> list[str]:
        return [
            self.b.emit(self.intrinsic("tilezero", AMX, f"i16 {rows}, i16 {columns * WORD}"))
            for rows, columns in self.shapes
        ]

    def add_products(self, values: Sequence[str]) -> list[str]:
        left, right = self.access(self.left), self.access(self.right)
        row_stride = address_of(self.left).stride(self.row)
        group_stride = address_of(self.right).stride(self.loops[-1].variable)
        of_rows = [
            self.load(left, start * row_stride, (count, self.step), row_stride)
            for start, count in pieces(self.height)
        ]
        of_columns = [
            self.load(right, start * self.depth, (self.step, count), group_stride)
            for start, count in pieces(self.width)
        ]
        pairs = [(x, y) for x in of_rows for y in of_columns]
        tiles = zip(values, self.shapes, pairs, strict=True)
        return [self.dot(value, rows, columns, x, y) for value, (rows, columns), (x, y) in tiles]

    def load(self, access: ElementAccess, offset: int, shape: tuple[int, int], stride: int) -> str:
        """A tile of so many rows of words, which are `stride` elements apart."""
        place = f"ptr {access.at(offset)}, i64 {stride * access.type.bytes}"
        arguments = f"i16 {shape[0]}, i16 {shape[1] * WORD}, {place}"
        return self.b.emit(self.intrinsic("tileloadd64", AMX, arguments))

    def dot(self, tile: str, rows: int, columns: int, left: str, right: str) -> str:
        sizes = f"i16 {rows}, i16 {columns * WORD}, i16 {self.step * WORD}"
        arguments = f"{sizes}, {AMX} {tile}, {AMX} {left}, {AMX} {right}"
        return self.b.emit(self.intrinsic(self.name, AMX, arguments))

    def write(self, tile: str, rows: int, columns: int, pointer: str, stride: int) -> None:
        place = f"ptr {pointer}, i64 {stride * WORD}"
        arguments = f"i16 {rows}, i16 {columns * WORD}, {place}, {AMX} {tile}"
        self.b.emit_void(self.intrinsic("tilestored64", "void", arguments))

    def intrinsic(self, name: str, result: str, arguments: str) -> str:
        """The call of an intrinsic whose tiles get registers, which is declared."""
        types = ", ".join(argument.split()[0] for argument in arguments.split(", "))
        self.b.declarations.add(f"declare {result} @llvm.x86.{name}.internal({types})")
        return f"call {result} @llvm.x86.{name}.internal({arguments})"

    def places(self) -> list[tuple[str, int, int]]:
        """The pointer to each tile of a block of results, with its rows and columns."""
        access, stride = self.access(self.store), self.row_stride
        return [
            (access.at(row * stride + column), rows, columns)
            for row, rows in pieces(self.height)
            for column, columns in pieces(self.width)
        ]

    def store_results(self, values: Sequence[str]) -> None:
        for tile, (pointer, rows, columns) in zip(values, self.places(), strict=True):
            self.write(tile, rows, columns, pointer, self.row_stride)

    def store_zeros(self) -> None:
        for pointer, rows, columns in self.places():
            type, loop = vector(self.result, columns), self.b.open_loop(0, rows, 1)
            place = self.b.advance(self.b.depth, pointer, loop.index, self.row_stride, self.result)
            self.b.emit_void(f"store {type.text} zeroinitializer, ptr {place}, align {WORD}")
            self.b.close_loop(loop)

    def add_results(self, values: Sequence[str]) -> None:
        """Row by row, by way of the stack."""
        scratch = self.b.allocate(f"[{TILE * TILE} x {self.result.element}], align {LINE}")
        for tile, (pointer, rows, columns) in zip(values, self.places(), strict=True):
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
