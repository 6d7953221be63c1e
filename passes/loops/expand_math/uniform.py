"""Random numbers: Threefry-4x32 in arithmetic of 32 bits, as `ocannl.dialects.scalar.streams` specifies."""

from __future__ import annotations

from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from ocannl.dialects.loops import UniformOp
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.threefry import key_words, threefry4x32
from ocannl.passes.loops.expand_math.builder import MathBuilder

Blocks: TypeAlias = dict[tuple[str, SSAValue, SSAValue], list[SSAValue]]
"""The words that are known by their key, place and counter: two numbers come from one block."""


@dataclass(frozen=True, slots=True)
class EmittedWords:
    """Arithmetic of 32-bit words that emits operations."""

    b: MathBuilder

    def add(self, word: SSAValue, constant: int) -> SSAValue:
        return word if constant == 0 else self.b.int_add(word, self.b.int_const(constant, i32))

    def mix(self, a: SSAValue, b: SSAValue, rotation: int) -> tuple[SSAValue, SSAValue]:
        a = self.b.int_add(a, b)
        high = self.b.shift_left(b, self.b.int_const(rotation, i32))
        low = shift_right(self.b, b, 32 - rotation)
        return a, self.b.bit_op(arith.XOrIOp, self.b.bit_op(arith.OrIOp, high, low), a)


def uniform(b: MathBuilder, op: UniformOp, drawn: Blocks) -> SSAValue:
    """The random number of a stream at a place, to the bit."""
    stream = op.stream.data
    block = (stream.key, op.place, op.counter)
    if block not in drawn:
        counter = (*halves(b, op.place), *halves(b, op.counter))
        drawn[block] = threefry4x32(counter, key_words(0, stream.key), EmittedWords(b))
    first, second = drawn[block][2:] if stream.second else drawn[block][:2]
    if b.type.bitwidth == 32:
        return b.mul(b.int_to_float(shift_right(b, first, 8)), b.const(2.0**-24))
    high, low = (b.int_to_float(shift_right(b, word, drop)) for word, drop in ((first, 5), (second, 6)))
    return b.mul(b.fma(high, b.const(2.0**26), low), b.const(2.0**-53))


def halves(b: MathBuilder, number: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The low and the high word of an unsigned integer of 32 or 64 bits."""
    if number.type == i32:
        return number, b.int_const(0, i32)
    high = b.bit_op(arith.ShRUIOp, number, b.int_const(32, i64))
    return b.convert(arith.TruncIOp, number, i32), b.convert(arith.TruncIOp, high, i32)


def shift_right(b: MathBuilder, word: SSAValue, count: int) -> SSAValue:
    return b.bit_op(arith.ShRUIOp, word, b.int_const(count, i32))
