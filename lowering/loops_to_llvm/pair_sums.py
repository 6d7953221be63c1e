"""Emits sums of the products of two neighbouring numbers of bf16, a pair in each lane (Intel, "Intel 64 and
IA-32 Architectures Software Developer's Manual", VDPBF16PS).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects import arith
from xdsl.dialects.builtin import bf16, f32

from ocannl.dialects.index.memref import element_type
from ocannl.dialects.loops import LoadOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.instructions import neighbours
from ocannl.lowering.llvm.types import ValueType, vector
from ocannl.lowering.loops_to_llvm.tile_emitter import TileEmitter
from ocannl.lowering.placement import Level, Reduction

# The numbers of a pair.
PAIR = 2
F32, BF16 = ValueType("float", "f32", 4), ValueType("bfloat", "bf16", 2)


@dataclass(frozen=True)
class PairProduct:
    """The two loads whose neighbours are multiplied and summed along the innermost loop of a reduction."""

    loads: tuple[LoadOp, LoadOp]

    @staticmethod
    def of(nest: TileEmitter, reduction: Reduction) -> PairProduct | None:
        """The product of a reduction, if the target has an instruction for its pairs: both factors are of
        bf16, are only widened for it, and lie along the innermost loop.
        """
        product = reduction.product
        if product is None or "vdpbf16ps" not in nest.b.machine.word_products or product.result.type != f32:
            return None
        last, loads = reduction.levels[-1], list[LoadOp]()
        for factor in product.operands:
            load = factor.owner.input.owner if isinstance(factor.owner, arith.ExtFOp) else None
            if not isinstance(load, LoadOp) or load not in last.ops or element_type(load.node) != bf16:
                return None
            address = nest.placement.addresses[load]
            if load.positions or address.stride(last.variable) != 1 or not factor.has_one_use():
                return None
            loads.append(load)
        first, second = loads
        return None if first is second else PairProduct((first, second))

    def without_widening(self, reduction: Reduction) -> Reduction:
        """The reduction with loads that stay as they are."""
        *outer, last = reduction.levels
        widened = {use.operation for load in self.loads for use in load.result.uses}
        ops = [op for op in last.ops if not (isinstance(op, arith.ExtFOp) and op in widened)]
        return replace(reduction, levels=[*outer, Level(last.variable, last.size, ops)])

    def added(self, nest: TileEmitter, row: int, value: str, width: int) -> str:
        """An accumulator of so many lanes after the products of one row."""
        tiles = [nest.values[load.result] for load in self.loads]
        return in_pieces(nest.b, value, [nest.row(tile, row) for tile in tiles], tiles[0].type, width)


def in_pieces(b: FunctionBuilder, value: str, factors: Sequence[str], bits: ValueType, width: int) -> str:
    """An accumulator after a step, as wide as a register or wider; factors are the bits of pairs."""
    if F32.bytes * width <= b.machine.vector_bytes:
        return dot(b, value, factors, bits, width)
    half, type = width // 2, vector(F32, width)
    sums: list[str] = []
    for part in (0, 1):
        parts = [neighbours(b, each, bits, part * PAIR * half, PAIR * half) for each in factors]
        start = neighbours(b, value, type, part * half, half)
        sums.append(in_pieces(b, start, parts, vector(bits_of(bits), PAIR * half), half))
    both, places = vector(F32, half).text, ", ".join(f"i32 {lane}" for lane in range(width))
    return b.emit(f"shufflevector {both} {sums[0]}, {both} {sums[1]}, <{width} x i32> <{places}>")


def bits_of(type: ValueType) -> ValueType:
    """The type of an element of a vector."""
    return vector(type, 0)


def dot(b: FunctionBuilder, value: str, factors: Sequence[str], bits: ValueType, width: int) -> str:
    type, pairs = vector(F32, width).text, vector(BF16, PAIR * width).text
    name = f"@llvm.x86.avx512bf16.dpbf16ps.{8 * F32.bytes * width}"
    b.declarations.add(f"declare {type} {name}({type}, {pairs}, {pairs})")
    x, y = (b.emit(f"bitcast {bits.text} {each} to {pairs}") for each in factors)
    return b.emit(f"call {type} {name}({type} {value}, {pairs} {x}, {pairs} {y})")
