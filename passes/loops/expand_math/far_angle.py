"""The reduction of large angles by Payne and Hanek: the part of an angle's product with 1 / pi that counts is
that of its bits and a window of those of 1 / pi, as whole numbers ("Radian reduction for trigonometric
functions", 1983).

It is straight-line arithmetic, too, but too much for each angle: targets call it where one is far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from xdsl.dialects import arith
from xdsl.dialects.builtin import i64
from xdsl.dialects.math import AbsFOp
from xdsl.ir import SSAValue

from ocannl.passes.loops.expand_math.builder import MathBuilder

# 1 / pi, 1216 bits behind the point.
RECIPROCAL = int(
    "517cc1b727220a94fe13abe8fa9a6ee06db14acc9e21c820ff28b1d5ef5de2b0db92371d2126e9700324977504e8c90e"
    "7f0ef58e5894d39f74411afa975da24274ce38135a2fbf209cc8eb1cc1a99cfa4e422fc5defc941d8ffc4bffef02cc07"
    "f79788c5ad05368fb69b3f6793e584dba7a31fb34f2ff516ba93dd63f5f2f8bd9e839cfbc529497535fdafd88fc6ae84"
    "2b0198237e3db5d5",
    16,
)
WORD = 32
# Its words, behind one that is 0.
WORDS = [0, *(RECIPROCAL >> shift & 2**WORD - 1 for shift in range(1216 - WORD, -1, -WORD))]
# The words in a window, without one of which a part is shifted in, and the bits of its number.
WINDOW, NUMBER_BITS = {32: 3, 64: 6}, {32: 3, 64: 5}
# pi / 2^63 as an unevaluated sum.
PI = {
    32: (3.1415927410125732 / 2**63, -8.7422776573475858e-08 / 2**63),
    64: (math.pi / 2**63, 1.2246467991473532e-16 / 2**63),
}


class WholeBuilder:
    """Arithmetic on whole numbers of 64 bits, of which words have the lower 32."""

    def __init__(self, b: MathBuilder) -> None:
        self.b = b

    def const(self, value: int) -> SSAValue:
        return self.b.int_const(value, i64)

    def up(self, x: SSAValue, count: SSAValue | int) -> SSAValue:
        return self.b.shift_left(x, self.const(count) if isinstance(count, int) else count)

    def down(self, x: SSAValue, count: int) -> SSAValue:
        return self.b.bit_op(arith.ShRUIOp, x, self.const(count))

    def low(self, x: SSAValue) -> SSAValue:
        return self.b.bit_op(arith.AndIOp, x, self.const(2**WORD - 1))

    def high(self, x: SSAValue) -> SSAValue:
        return self.down(x, WORD)

    def sum(self, *terms: SSAValue) -> SSAValue:
        total, *rest = terms
        for term in rest:
            total = self.b.int_add(total, term)
        return total


def far_angle(b: MathBuilder, x: SSAValue, *, cosine: bool) -> SSAValue:
    """The angle in -pi/2..pi/2 that has the sine of a far one, or its cosine for sine, within 1 ulp."""
    w = WholeBuilder(b)
    magnitude = b.float_op(AbsFOp, x)
    bits = b.bits(magnitude)
    fraction = b.bit_op(arith.AndIOp, bits, b.int_const((1 << b.mantissa_bits) - 1))
    mantissa = b.bit_op(arith.OrIOp, fraction, b.int_const(1 << b.mantissa_bits))
    scale = b.shift_right_signed(bits, b.mantissa_bits)
    if b.type.bitwidth == WORD:
        mantissa, scale = (b.convert(arith.ExtUIOp, each, i64) for each in (mantissa, scale))
    # x is the mantissa times 2^(place - 31).
    place = w.sum(scale, w.const(WORD - 1 - b.bias - b.mantissa_bits))
    window = shifted(w, words_at(w, w.down(place, 5), b.pick(NUMBER_BITS), b.pick(WINDOW)), place)
    # Halves of the turns, without whole ones: of 64 bits, and of so many bits below them.
    turns, rest = product(w, mantissa, window)
    if cosine:
        turns = b.int_add(turns, w.const(1 << 62))
    odd = w.down(b.int_add(turns, w.const(1 << 62)), 63)
    near = b.bit_op(arith.ShRSIOp, w.up(turns, 1), w.const(1))
    angle = times_pi(b, near, rest)
    flip = b.bit_op(arith.AndIOp, odd, w.const(1))
    if not cosine:
        flip = b.bit_op(arith.XOrIOp, flip, sign_of(b, x))
    if b.type.bitwidth == WORD:
        flip = b.convert(arith.TruncIOp, flip, b.int_type)
    flipped = b.from_bits(
        b.bit_op(arith.XOrIOp, b.bits(angle), b.shift_left(flip, b.int_const(b.type.bitwidth - 1)))
    )
    return b.select(b.cmp("olt", magnitude, b.infinity()), flipped, b.const(math.nan))


def sign_of(b: MathBuilder, x: SSAValue) -> SSAValue:
    bits = b.bits(x)
    if b.type.bitwidth == WORD:
        bits = b.convert(arith.ExtUIOp, bits, i64)
    return b.bit_op(arith.ShRUIOp, bits, b.int_const(b.type.bitwidth - 1, i64))


def words_at(w: WholeBuilder, place: SSAValue, number_bits: int, window: int) -> list[SSAValue]:
    """The words of 1 / pi from a place on, by halving the places."""
    found = [w.const(word) for word in WORDS]
    for bit in reversed(range(number_bits)):
        step = 1 << bit
        here = w.b.bit_op(arith.AndIOp, place, w.const(step))
        jumps = w.b.int_cmp("ne", here, w.const(0))
        found = [w.b.select(jumps, found[k + step], found[k]) for k in range(window + step)]
    return found


def shifted(w: WholeBuilder, words: Sequence[SSAValue], place: SSAValue) -> list[SSAValue]:
    """The words moved up by the lower bits of a place."""
    count = w.b.bit_op(arith.AndIOp, place, w.const(WORD - 1))
    return [
        w.high(w.up(w.b.bit_op(arith.OrIOp, w.up(word, WORD), following), count))
        for word, following in pairwise(words)
    ]


def product(w: WholeBuilder, x: SSAValue, words: Sequence[SSAValue]) -> tuple[SSAValue, SSAValue | None]:
    """A whole number times a fraction of some words, without its whole part: 64 bits, and 64 bits below them
    where the number has more than one word.
    """
    b = w.b
    if len(words) == WINDOW[32]:
        first, second, third = (b.int_mul(x, word) for word in words)
        return w.sum(w.up(first, WORD), second, w.high(third)), None
    lower = [b.int_mul(w.low(x), word) for word in words]
    upper = [b.int_mul(w.high(x), word) for word in words[1:]]
    columns = [
        w.sum(w.low(lower[k]), w.low(upper[k]), w.high(lower[k + 1]), *map(w.high, upper[k + 1 : k + 2]))
        for k in range(5)
    ]
    for k in reversed(range(4)):
        columns[k] = w.sum(columns[k], w.high(columns[k + 1]))
    high, low = (b.bit_op(arith.OrIOp, w.up(columns[k], WORD), w.low(columns[k + 1])) for k in (0, 2))
    return high, low


def times_pi(b: MathBuilder, whole: SSAValue, rest: SSAValue | None) -> SSAValue:
    """A number of 64 bits, with the 64 bits below it, times pi / 2^63, rounded but for the last bit."""
    high = b.int_to_float(whole)
    rounded_off = b.int_sub(whole, b.convert(arith.FPToSIOp, high, i64))
    low = b.int_to_float(rounded_off)
    if rest is not None:
        low = b.fma(b.convert(arith.UIToFPOp, rest, b.type), b.const(2.0**-64), low)
    first, second = b.pick(PI)
    return b.fma(high, b.const(first), b.fma(high, b.const(second), b.mul(low, b.const(first))))
