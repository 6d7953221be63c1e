"""Emits nests whose products of small numbers vector instructions add up by groups of neighbours: those of
AVX2, VNNI and AVX-512 BF16 (Intel, "Intel 64 and IA-32 Architectures Software Developer's Manual"), and of
DotProd and I8MM (Arm, "Arm Architecture Reference Manual").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects import arith

from ocannl.dialects.loops import LoadOp
from ocannl.dialects.loops.dot_instructions import widened
from ocannl.dialects.loops.values import address_of
from ocannl.lowering.llvm.accumulators import combine
from ocannl.lowering.llvm.types import ValueType, vector
from ocannl.lowering.loops_to_llvm.dot_nest import WORD, Bounds, DotEmitter, SumLoop
from ocannl.lowering.loops_to_llvm.tile import Lanes

I32, I8 = ValueType("i32", "i32", 4), ValueType("i8", "i8", 1)
BF16, I16 = ValueType("bfloat", "bf16", 2), ValueType("i16", "i16", 2)
# The instruction for products of pairs of 16 bits, by the bytes of a vector.
PAIRS = {16: "sse2.pmadd.wd", 32: "avx2.pmadd.wd", 64: "avx512.pmaddw.d.512"}
# A word of four times 128: added to numbers with a sign, it gives numbers without one.
BIASES = -0x7F7F7F80


class DotVectorEmitter(DotEmitter):
    """Accumulates a block of results in rows of vectors, whose words are the results in so many columns.

    Where an instruction takes numbers without a sign from the rows, which have one, 128 is added to these,
    and 128 times the sums of the columns is subtracted: blocks begin with it, or, where no other has the
    same columns, a further row adds it up and it is subtracted in the end.
    """

    biases: Sequence[str] = ()
    """The accumulators with which blocks that share their columns begin."""

    @property
    def carried(self) -> str:
        return self.accumulator.text

    @property
    def lanes(self) -> int:
        return self.b.machine.vector_bytes // WORD

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

    @property
    def has_bias_row(self) -> bool:
        return self.is_biased and not self.biases

    def zeros(self) -> list[str]:
        if self.biases:
            return [*self.biases] * self.height
        rows = self.height + self.is_biased
        return ["zeroinitializer"] * (rows * len(self.columns))

    def each_sum(
        self, loops: Sequence[SumLoop], bounds: Bounds | None, use: Callable[[list[str]], None]
    ) -> None:
        address = address_of(self.right)
        around = [loop for loop in self.block_loops if address.stride(loop.variable)]
        inside = [loop for loop in self.block_loops if loop not in around]
        if not self.is_biased or math.prod(-(-loop.size // loop.step) for loop in inside) == 1:
            super().each_sum(loops, bounds, use)
            return

        def share_columns() -> None:
            zeros, type = ["zeroinitializer"] * len(self.columns), self.accumulator.text
            sums = self.accumulate(loops, zeros, bounds, self.add_biases)
            self.biases = [self.b.emit(f"sub {type} zeroinitializer, {value}") for value in sums]
            self.run(inside, lambda: use(self.sums(loops, bounds)))
            self.biases = ()

        self.run(around, share_columns)

    def add_biases(self, values: Sequence[str]) -> list[str]:
        """128 times the sums of columns after a step."""
        bias = f"splat (i32 {BIASES})", vector(I32, self.lanes)
        return [self.dot(value, bias, y) for value, y in zip(values, self.columns_of_step(), strict=True)]

    def columns_of_step(self) -> list[tuple[str, ValueType]]:
        """The vectors of a step's columns."""
        right, depth = self.access(self.right), self.depth
        type = vector(right.type, self.lanes * depth)
        return [
            (
                right.load_vector(
                    place * self.lanes * depth, 1, Lanes(lanes.width * depth, lanes.active * depth)
                ),
                type,
            )
            for place, lanes in enumerate(self.columns)
        ]

    @property
    def columns(self) -> list[Lanes]:
        """The vectors of a row."""
        return [
            Lanes(self.lanes, min(self.lanes, self.width - start))
            for start in range(0, self.width, self.lanes)
        ]

    def add_products(self, values: Sequence[str]) -> list[str]:
        left, of_columns = self.access(self.left), self.columns_of_step()
        stride, words = address_of(self.left).stride(self.row), vector(I32, self.lanes)
        of_rows: list[str] = []
        for row in range(self.height):
            align = left.type.bytes
            word = self.b.emit(f"load i32, ptr {left.at(row * stride)}, align {align}")
            if self.is_biased:
                word = self.b.emit(f"xor i32 {word}, {BIASES}")
            of_rows.append(self.b.splat(word, I32, self.lanes, self.b.depth))
        if self.has_bias_row:
            of_rows.append(f"splat (i32 {BIASES})")
        pairs = [((x, words), y) for x in of_rows for y in of_columns]
        return [self.dot(value, *factors) for value, factors in zip(values, pairs, strict=True)]

    def dot(self, value: str, row: tuple[str, ValueType], columns: tuple[str, ValueType]) -> str:
        bits = 8 * self.b.machine.vector_bytes
        if self.name == "vpmaddwd":
            return self.add_pairs(value, row, columns)
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

    def add_pairs(self, value: str, row: tuple[str, ValueType], columns: tuple[str, ValueType]) -> str:
        """A sum with the products of bytes, as two of pairs of 16 bits: of even ones, and of odd ones."""
        type, acc = vector(I16, 2 * self.lanes), self.accumulator.text
        halves = (
            self.halves(self.cast(*row, type), self.left),
            self.halves(self.cast(*columns, type), self.right),
        )
        name = f"@llvm.x86.{PAIRS[self.b.machine.vector_bytes]}"
        self.b.declarations.add(f"declare {acc} {name}({type.text}, {type.text})")
        for x, y in zip(*halves, strict=True):
            products = self.b.emit(f"call {acc} {name}({type.text} {x}, {type.text} {y})")
            value = self.b.emit(f"add {acc} {value}, {products}")
        return value

    def halves(self, value: str, load: LoadOp) -> tuple[str, str]:
        """The even and the odd bytes of a vector, widened to 16 bits."""
        type, shift = vector(I16, 2 * self.lanes).text, "lshr" if self.is_unsigned(load) else "ashr"
        moved = self.b.emit(f"shl {type} {value}, splat (i16 8)")
        even, odd = (self.b.emit(f"{shift} {type} {v}, splat (i16 8)") for v in (moved, value))
        return even, odd

    def cast(self, value: str, own: ValueType, type: ValueType) -> str:
        """The bits of a vector as one of another type."""
        return value if own == type else self.b.emit(f"bitcast {own.text} {value} to {type.text}")

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
        if not self.has_bias_row:
            return list(values)
        count, type = len(self.columns), self.accumulator.text
        *sums, biases = [values[start : start + count] for start in range(0, len(values), count)]
        return [
            self.b.emit(f"sub {type} {value}, {bias}")
            for row in sums
            for value, bias in zip(row, biases, strict=True)
        ]

    def store_results(self, values: Sequence[str]) -> None:
        access = self.access(self.store)
        for value, (offset, lanes) in zip(self.unbiased(values), self.places(), strict=True):
            access.store_vector(value, offset, 1, lanes)

    def store_zeros(self) -> None:
        access = self.access(self.store)
        for offset, lanes in self.places():
            access.store_vector("zeroinitializer", offset, 1, lanes)

    def add_results(self, values: Sequence[str]) -> None:
        access = self.access(self.store)
        for value, (offset, lanes) in zip(self.unbiased(values), self.places(), strict=True):
            before = access.load_vector(offset, 1, lanes)
            access.store_vector(combine(self.b, "add", before, value, self.accumulator), offset, 1, lanes)
