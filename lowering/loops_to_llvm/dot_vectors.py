"""Emits nests whose products of small numbers vector instructions add up by groups of neighbours: those of
VNNI and AVX-512 BF16 (Intel, "Intel 64 and IA-32 Architectures Software Developer's Manual"), and of DotProd
and I8MM (Arm, "Arm Architecture Reference Manual").
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith

from ocannl.dialects.loops import LoadOp, StoreOp
from ocannl.dialects.loops.dot_instructions import widened
from ocannl.dialects.loops.values import address_of
from ocannl.lowering.llvm.accumulators import combine
from ocannl.lowering.llvm.types import ValueType, vector
from ocannl.lowering.loops_to_llvm.dot_nest import WORD, DotEmitter
from ocannl.lowering.loops_to_llvm.tile import Lanes
from ocannl.lowering.loops_to_llvm.tile_access import TileAccess

I32, I8 = ValueType("i32", "i32", 4), ValueType("i8", "i8", 1)
BF16 = ValueType("bfloat", "bf16", 2)
# A word of four times 128: added to numbers with a sign, it gives numbers without one.
BIASES = -0x7F7F7F80


class DotVectorEmitter(DotEmitter):
    """Accumulates a block of results in rows of vectors, whose words are the results in so many columns.

    Where an instruction takes numbers without a sign from the rows, which have one, 128 is added to these; a
    further row adds up 128 times the columns, which is subtracted in the end.
    """

    @property
    def carried(self) -> str:
        return self.accumulator.text

    @property
    def lanes(self) -> int:
        return self.b.vector_bytes // WORD

    @property
    def accumulator(self) -> ValueType:
        return vector(self.result, self.lanes)

    @property
    def is_biased(self) -> bool:
        return (
            self.name == "vpdpbusd" and not self.is_unsigned(self.left) and not self.is_unsigned(self.right)
        )

    def is_unsigned(self, load: LoadOp) -> bool:
        (use,) = load.result.uses
        return widened(use.operation.results[0])[1] is arith.ExtUIOp

    def step_of(self, groups: int) -> int:
        return 1

    def zeros(self) -> list[str]:
        rows = self.height + self.is_biased
        return ["zeroinitializer"] * (rows * len(self.columns))

    @property
    def columns(self) -> list[Lanes]:
        """The vectors of a row."""
        return [
            Lanes(self.lanes, min(self.lanes, self.width - start))
            for start in range(0, self.width, self.lanes)
        ]

    def add_products(self, values: Sequence[str]) -> list[str]:
        left, right = self.access(self.left), self.vectors(self.right)
        stride, words = address_of(self.left).stride(self.row), vector(I32, self.lanes)
        of_columns = [
            right.load_vector(
                place * self.lanes * self.depth, 1, Lanes(lanes.width * self.depth, lanes.active * self.depth)
            )
            for place, lanes in enumerate(self.columns)
        ]
        columns_type = vector(right.type, self.lanes * self.depth)
        of_rows: list[str] = []
        for row in range(self.height):
            align = left.type.bytes
            word = self.b.emit(f"load i32, ptr {left.at(row * stride)}, align {align}")
            if self.is_biased:
                word = self.b.emit(f"xor i32 {word}, {BIASES}")
            of_rows.append(self.b.splat(word, I32, self.lanes, self.b.depth))
        if self.is_biased:
            of_rows.append(f"splat (i32 {BIASES})")
        pairs = [((x, words), (y, columns_type)) for x in of_rows for y in of_columns]
        return [self.dot(value, *factors) for value, factors in zip(values, pairs, strict=True)]

    def dot(self, value: str, row: tuple[str, ValueType], columns: tuple[str, ValueType]) -> str:
        bits = 8 * self.b.vector_bytes
        if self.name == "vpdpbusd":
            name, type = f"x86.avx512.vpdpbusd.{bits}", vector(I32, self.lanes)
        elif self.name == "vdpbf16ps":
            name, type = f"x86.avx512bf16.dpbf16ps.{bits}", vector(BF16, 2 * self.lanes)
        else:
            name, type = f"aarch64.neon.{self.name}.v4i32.v16i8", vector(I8, 4 * self.lanes)
        factors = [self.cast(*operand, type) for operand in (row, columns)]
        without_sign_first = self.name in ("vpdpbusd", "usdot")
        if without_sign_first and self.is_unsigned(self.right):
            factors.reverse()
        acc = self.accumulator.text
        self.b.declarations.add(f"declare {acc} @llvm.{name}({acc}, {type.text}, {type.text})")
        x, y = factors
        return self.b.emit(f"call {acc} @llvm.{name}({acc} {value}, {type.text} {x}, {type.text} {y})")

    def cast(self, value: str, own: ValueType, type: ValueType) -> str:
        """The bits of a vector as one of another type."""
        return value if own == type else self.b.emit(f"bitcast {own.text} {value} to {type.text}")

    def vectors(self, op: LoadOp | StoreOp) -> TileAccess:
        """An access whose vectors are contiguous."""
        access = self.access(op)
        address = address_of(op).after(self.first.get(op.node, 0))
        return TileAccess(self.b, self.pointers[op.node], address, self.positions, access.type, {}, {})

    # Results in memory.

    def places(self) -> list[tuple[int, Lanes]]:
        """The first element of each vector of a block of results, and its lanes."""
        return [
            (row * self.row_stride + place * self.lanes, lanes)
            for row in range(self.height)
            for place, lanes in enumerate(self.columns)
        ]

    def unbiased(self, values: Sequence[str]) -> list[str]:
        """The sums of products alone."""
        if not self.is_biased:
            return list(values)
        count, type = len(self.columns), self.accumulator.text
        *sums, biases = [values[start : start + count] for start in range(0, len(values), count)]
        return [
            self.b.emit(f"sub {type} {value}, {bias}")
            for row in sums
            for value, bias in zip(row, biases, strict=True)
        ]

    def store_results(self, values: Sequence[str]) -> None:
        access = self.vectors(self.store)
        for value, (offset, lanes) in zip(self.unbiased(values), self.places(), strict=True):
            access.store_vector(value, offset, 1, lanes)

    def store_zeros(self) -> None:
        access = self.vectors(self.store)
        for offset, lanes in self.places():
            access.store_vector("zeroinitializer", offset, 1, lanes)

    def add_results(self, values: Sequence[str]) -> None:
        access = self.vectors(self.store)
        for value, (offset, lanes) in zip(self.unbiased(values), self.places(), strict=True):
            before = access.load_vector(offset, 1, lanes)
            access.store_vector(combine(self.b, "add", before, value, self.accumulator), offset, 1, lanes)
