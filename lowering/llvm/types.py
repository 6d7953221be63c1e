"""LLVM types and literals as text."""

from __future__ import annotations

import math
import struct
from dataclasses import field
from functools import cache

from xdsl.dialects.builtin import Float32Type, Float64Type, FloatAttr, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import DiagnosticException

from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.small_floats import small_bits, small_format

_FLOATS = {Float32Type: ("float", "f32", 4), Float64Type: ("double", "f64", 8)}


@dataclass(frozen=True, slots=True)
class ValueType:
    """A scalar type, or a vector of `width` elements if that is not zero.

    Attributes:
        element: the element type, `float`.
        code: the element's name in intrinsics, `f32`.
        text: the type, `<16 x float>`.
        mangled: the type's name in intrinsics, `v16f32`.
        bytes: the size of an element in memory.
    """

    element: str
    code: str
    bytes: int
    width: int = 0
    text: str = field(init=False)
    mangled: str = field(init=False)

    def __post_init__(self) -> None:
        vector = self.width > 0
        object.__setattr__(self, "text", f"<{self.width} x {self.element}>" if vector else self.element)
        object.__setattr__(self, "mangled", f"v{self.width}{self.code}" if vector else self.code)

    @property
    def is_float(self) -> bool:
        return self.code[0] != "i"


I64, I32 = ValueType("i64", "i64", 8), ValueType("i32", "i32", 4)
BYTE, BIT = ValueType("i8", "i8", 1), ValueType("i1", "i1", 1)


@cache
def vector(type: ValueType, width: int) -> ValueType:
    """The type with as many lanes; zero for a scalar."""
    return ValueType(type.element, type.code, type.bytes, width)


@cache
def value_type(builtin: Attribute) -> ValueType:
    """The scalar LLVM type of a builtin type: of small floats, which are only stored, that of their bits."""
    match builtin:
        case Float32Type() | Float64Type():
            return ValueType(*_FLOATS[type(builtin)])
        case IntegerType():
            bits = builtin.width.data
            return ValueType(f"i{bits}", f"i{bits}", (bits + 7) // 8)
        case IndexType():
            return ValueType("i64", "i64", 8)
        case _:
            format = small_format(builtin)
            if format is None:
                raise DiagnosticException(f"no LLVM type for {builtin}")
            return ValueType(f"i{format.bits}", f"i{format.bits}", format.bits // 8)


def float_literal(value: float, type: ValueType) -> str:
    """A literal of the exact bits of `value` rounded to the type."""
    if type.code == "f32":
        value = _round_to_f32(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def is_nan_literal(text: str) -> bool:
    """Whether a literal of a number, or of a vector of equal numbers, is NaN."""
    bits = text.rstrip(")").rpartition(" ")[2]
    return bits.startswith("0x") and math.isnan(struct.unpack("<d", bytes.fromhex(bits[2:])[::-1])[0])


def _round_to_f32(value: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def literal(value: Attribute) -> str:
    """The literal of an `arith.constant`."""
    match value:
        case FloatAttr():
            format = small_format(value.type)
            if format is not None:
                return str(small_bits(value.value.data, format))
            return float_literal(value.value.data, value_type(value.type))
        case IntegerAttr():
            number = value.value.data
            if value.type == IntegerType(1):
                return "true" if number else "false"
            return str(number)
        case _:
            raise DiagnosticException(f"no LLVM literal for {value}")
