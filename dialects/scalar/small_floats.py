"""Floats of 8 and 16 bits, in which numbers are stored: arithmetic is that of f32 and f64.

What widens and narrows them is written once, for words of any kind: of NumPy, of LLVM, or of a program in C.
Neither makes a denormal f32 of a number that is none, so that it also holds where the hardware takes those
for zero. F. Giesen's "half_to_float_fast" and "float_to_half_fast" of 2012 show both, for f16.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeVar

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import BFloat16Type, Float8E4M3FNType, Float8E5M2Type, Float16Type
from xdsl.ir import Attribute

from ocannl.dialects.records import dataclass

W = TypeVar("W")

WordOp = Literal["and", "or", "add", "sub", "shl", "lshr", "umin", "fadd", "fsub"]

# The format of f32: the bits of the fraction, the bias of exponents, the bits of the sign and of infinity.
FRACTION, BIAS, SIGN, INFINITY = 23, 127, 1 << 31, 0x7F800000


@dataclass(frozen=True, slots=True)
class Format:
    """A float of a sign, an exponent and a fraction, with denormal numbers.

    Attributes:
        name: as in MLIR.
        dtype: the name of the NumPy dtype.
        exponent: the bits of the exponent.
        fraction: the bits of the fraction.
        infinite: whether there are infinities; else the only NaN has all bits but the sign set, and what is
            too large is NaN.
    """

    name: str
    dtype: str
    exponent: int
    fraction: int
    infinite: bool = True

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def overflow(self) -> int:
        """The bits of what is too large: infinity, or NaN."""
        return ((1 << self.exponent) - 1) << self.fraction if self.infinite else self.nan

    @property
    def nan(self) -> int:
        """The bits of a quiet NaN without a sign."""
        ones = (1 << (self.exponent + self.fraction)) - 1
        return ones & ~((1 << (self.fraction - 1)) - 1) if self.infinite else ones

    @property
    def largest(self) -> float:
        """The greatest number that is not infinite."""
        tops = (1 << self.fraction) - (1 if self.infinite else 2)
        exponent = self.bias if self.infinite else self.bias + 1
        return (1 + tops / (1 << self.fraction)) * 2.0**exponent

    @property
    def is_upper_half(self) -> bool:
        """Whether it is the upper half of an f32."""
        return self.bias == BIAS


F16 = Format("f16", "float16", 5, 10)
BF16 = Format("bf16", "bfloat16", 8, 7)
F8E5M2 = Format("f8E5M2", "float8_e5m2", 5, 2)
F8E4M3FN = Format("f8E4M3FN", "float8_e4m3fn", 4, 3, infinite=False)

FORMATS: Mapping[type[Attribute], Format] = {
    Float16Type: F16,
    BFloat16Type: BF16,
    Float8E5M2Type: F8E5M2,
    Float8E4M3FNType: F8E4M3FN,
}


def small_format(element: Attribute) -> Format | None:
    """The format of a type whose numbers are only stored; None for others."""
    return FORMATS.get(element.__class__)


def small_bits(value: float, format: Format) -> int:
    """The bits of the number of a format that is nearest to a value."""
    return int(_nearest(value, format).view(f"uint{format.bits}"))


def small_value(value: float, format: Format) -> float:
    """The number of a format that is nearest to an f32."""
    return float(_nearest(value, format))


def _nearest(value: float, format: Format) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        return np.asarray(value, np.float32).astype(getattr(ml_dtypes, format.dtype, format.dtype))


class BitArithmetic(Protocol[W]):
    """Operations of the conversions on words of 32 bits."""

    def word(self, value: int) -> W:
        """A constant."""
        ...

    def op(self, name: WordOp, a: W, b: W) -> W:
        """An operation of unsigned words; `fadd` and `fsub` are those of the f32 with their bits."""
        ...

    def below(self, a: W, bound: int, yes: W, no: W) -> W:
        """`yes` where `a`, unsigned, is less than a constant, else `no`."""
        ...


def widen(number: W, format: Format, words: BitArithmetic[W]) -> W:
    """The bits of an f32 with the value of a small float, whose bits are the lower ones of a word."""
    w, op = words.word, words.op
    drop, size = FRACTION - format.fraction, format.bits - 1
    if format.is_upper_half:
        return op("shl", number, w(drop))
    magnitude = op("and", number, w((1 << size) - 1))
    shifted = op("shl", magnitude, w(drop))
    normal = op("add", shifted, w((BIAS - format.bias) << FRACTION))
    # As if it were normal, and less the leading one that it does not have.
    one = w((BIAS - format.bias + 1) << FRACTION)
    denormal = op("fsub", op("add", shifted, one), one)
    value = words.below(magnitude, 1 << format.fraction, denormal, normal)
    value = words.below(magnitude, format.overflow, value, op("or", shifted, w(INFINITY)))
    sign = op("shl", op("lshr", number, w(size)), w(31))
    return op("or", value, sign)


def narrow(number: W, format: Format, words: BitArithmetic[W]) -> W:
    """The bits of the small float nearest to an f32, of two the even one, in the lower bits of a word.

    The argument is the bits of the f32. A NaN stays one, and keeps its sign.
    """
    w, op = words.word, words.op
    drop, size = FRACTION - format.fraction, format.bits - 1
    magnitude = op("and", number, w(SIGN - 1))
    odd = op("and", op("lshr", number, w(drop)), w(1))
    half = (1 << (drop - 1)) - 1
    if format.is_upper_half:
        rounded = op("add", op("add", number, w(half)), odd)
        nan = op("or", number, w(format.nan << drop))
        return op("lshr", words.below(magnitude, INFINITY + 1, rounded, nan), w(drop))
    rebias = (format.bias - BIAS << FRACTION) % 2**32
    value = op("lshr", op("add", op("add", magnitude, w(rebias + half)), odd), w(drop))
    # The last place of this number is that of denormal ones, so that an addition rounds them.
    magic = w((BIAS - format.bias + drop + 1) << FRACTION)
    denormal = op("sub", op("fadd", magnitude, magic), magic)
    value = words.below(magnitude, (BIAS - format.bias + 1) << FRACTION, denormal, value)
    value = op("umin", value, w(format.overflow))
    if format.infinite:
        value = words.below(magnitude, INFINITY + 1, value, w(format.nan))
    sign = op("shl", op("lshr", number, w(31)), w(size))
    return op("or", value, sign)
