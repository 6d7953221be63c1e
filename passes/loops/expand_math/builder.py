"""A builder for expansions: an `ArithBuilder` that knows its float format."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from xdsl.dialects import arith
from xdsl.dialects.math import CopySignOp
from xdsl.ir import SSAValue

from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.arith_builder import ArithBuilder

T = TypeVar("T")

MANTISSA_BITS = {32: 23, 64: 52}
EXPONENT_BIAS = {32: 127, 64: 1023}


@dataclass(slots=True)
class MathBuilder(ArithBuilder):
    """Appends straight-line arithmetic, equal in form for f32 and f64, with constants chosen by the type."""

    def pick(self, by_width: Mapping[int, T]) -> T:
        """The entry of a table for this builder's float type."""
        return by_width[self.type.bitwidth]

    @property
    def mantissa_bits(self) -> int:
        return self.pick(MANTISSA_BITS)

    @property
    def bias(self) -> int:
        return self.pick(EXPONENT_BIAS)

    def polynomial(self, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
        """Horner's rule, lowest power first."""
        *rest, highest = coefficients
        value = self.const(highest)
        for c in reversed(rest):
            value = self.fma(value, x, self.const(c))
        return value

    def round_magic(self, more: int = 0) -> SSAValue:
        """Added to a far smaller float, it leaves the nearest integer, plus `more`, in the sum's low bits."""
        return self.const(1.5 * 2.0**self.mantissa_bits + more)

    def times_power_of_two(self, x: SSAValue, shifted: SSAValue) -> SSAValue:
        """`x * 2^n` by the bits of `n + round_magic()`; a result that is not normal is meaningless, and so is
        that of a NaN, which may become a number.
        """
        exponent = self.shift_left(self.bits(shifted), self.int_const(self.mantissa_bits))
        return self.from_bits(self.int_add(self.bits(x), exponent))

    def clamp_above(self, x: SSAValue, limit: float) -> SSAValue:
        """`min(x, limit)`, NaN where x is."""
        bound = self.const(limit)
        return self.select(self.cmp("ogt", x, bound), bound, x)

    def clamp_below(self, x: SSAValue, limit: float) -> SSAValue:
        """`max(x, limit)`, NaN where x is."""
        bound = self.const(limit)
        return self.select(self.cmp("olt", x, bound), bound, x)

    def copy_sign(self, magnitude: SSAValue, sign: SSAValue) -> SSAValue:
        return self.float_op(CopySignOp, magnitude, sign)

    def shift_right_signed(self, a: SSAValue, count: int) -> SSAValue:
        return self.bit_op(arith.ShRSIOp, a, self.int_const(count))

    def infinity(self) -> SSAValue:
        return self.const(math.inf)
