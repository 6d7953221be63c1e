"""Types and literals of C."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import (
    FixedBitwidthType,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute

from ocannl.dialects.scalar.small_floats import small_bits, small_format


def c_type(type: Attribute) -> str:
    """The type of a value. Floats that C lacks are the integers of their bits, truth values `bool`."""
    match type:
        case Float32Type():
            return "float"
        case Float64Type():
            return "double"
        case IndexType():
            return "int64_t"
        case IntegerType():
            return "bool" if type.width.data == 1 else f"int{type.width.data}_t"
        case _:
            format = small_format(type)
            assert format is not None
            return f"uint{format.bits}_t"


def stored_type(element: Attribute) -> str:
    """The type of the elements of a node; truth values are bytes."""
    match element:
        case IntegerType() if element.width.data == 1:
            return "uint8_t"
        case IntegerType() if element.signedness.data is Signedness.UNSIGNED:
            return f"u{c_type(element)}"
        case _:
            return c_type(element)


def unsigned(type: Attribute) -> str:
    """The unsigned type of the same width; floats and truth values stay as they are."""
    name = c_type(type)
    return f"u{name}" if name.startswith("int") else name


def suffix(type: Attribute) -> str:
    """The end of the names of functions on numbers of a type."""
    return "f" if isinstance(type, Float32Type) else ""


def literal(value: Attribute) -> str:
    """The text of an `arith.constant`; negative numbers are in parentheses."""
    match value:
        case FloatAttr() if (format := small_format(value.type)) is not None:
            return f"{small_bits(value.value.data, format)}u"
        case FloatAttr():
            return float_literal(value.value.data, value.type)
        case IntegerAttr():
            return int_literal(value.value.data, value.type)
        case _:
            raise AssertionError(f"{value} is no constant of a scalar")


def float_literal(value: float, type: Attribute) -> str:
    """The shortest text that is rounded to the same number of the type."""
    if math.isnan(value):
        return "NAN"
    is_short = isinstance(type, Float32Type)
    size = np.float32(abs(value)) if is_short else np.float64(abs(value))
    text = "INFINITY" if np.isinf(size) else f"{size!s}{'f' if is_short else ''}"
    return f"(-{text})" if math.copysign(1.0, value) < 0 else text


def int_literal(value: int, type: Attribute) -> str:
    width = type.bitwidth if isinstance(type, FixedBitwidthType) else 64
    if width == 1:
        return "true" if value else "false"
    if value == -(2 ** (width - 1)):
        return f"INT{width}_MIN"
    text = f"INT64_C({abs(value)})" if abs(value) >= 2**31 else str(abs(value))
    return f"(-{text})" if value < 0 else text
