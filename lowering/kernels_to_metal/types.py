"""Types and literals of the Metal Shading Language."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    FixedBitwidthType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute

from ocannl.dialects.scalar.small_floats import small_bits, small_format
from ocannl.lowering.kernels_to_metal.small_floats import STORED_AS_BITS

FLOATS: dict[type[Attribute], str] = {Float16Type: "half", BFloat16Type: "bfloat", Float32Type: "float"}
INTEGERS = {1: "bool", 8: "char", 16: "short", 32: "int", 64: "long"}
VECTOR_WIDTHS = (2, 4)


class NotInMetal(Exception):
    """A type or a constant that Metal lacks."""


def metal_type(type: Attribute) -> str:
    """The name of a scalar type. Raises `NotInMetal`."""
    match type:
        case Float16Type() | BFloat16Type() | Float32Type():
            return FLOATS[type.__class__]
        case IndexType():
            return "int"
        case IntegerType() if type.width.data in INTEGERS:
            return INTEGERS[type.width.data]
        case Float64Type():
            raise NotInMetal("Metal has no numbers of type f64: make data and parameters f32")
        case _ if (format := small_format(type)) is not None:
            return STORED_AS_BITS[format.name]
        case _:
            raise NotInMetal(f"Metal has no numbers of type {type}")


def vector_type(type: Attribute, count: int) -> str:
    """A type of `count` neighbouring elements, to copy them at once; for more than 4 a vector of words."""
    if count in VECTOR_WIDTHS:
        return f"{metal_type(type)}{count}"
    assert isinstance(type, FixedBitwidthType)
    return f"uint{count * type.size // 4}"


def unsigned(type: Attribute) -> str:
    """The unsigned type of the same width; floats stay as they are."""
    name = metal_type(type)
    return name if name in ("bool", *FLOATS.values(), *STORED_AS_BITS.values()) else f"u{name}"


def literal(value: Attribute) -> str:
    """The text of an `arith.constant`; negative numbers are in parentheses."""
    match value:
        case FloatAttr() if (name := metal_type(value.type)) in STORED_AS_BITS.values():
            format = small_format(value.type)
            assert format is not None
            return f"{name}({small_bits(value.value.data, format)})"
        case FloatAttr():
            return float_literal(value.value.data, metal_type(value.type))
        case IntegerAttr():
            return int_literal(value.value.data, metal_type(value.type))
        case _:
            raise NotInMetal(f"Metal has no constant {value}")


def float_literal(value: float, type: str) -> str:
    """The shortest text that is rounded to the same number of the type."""
    if math.isnan(value):
        text = "NAN"
    elif math.isinf(value):
        text = "INFINITY"
    else:
        text = f"{np.float32(abs(value))!s}f"
    if math.copysign(1.0, value) < 0 and not math.isnan(value):
        text = f"(-{text})"
    return text if type == "float" else f"{type}({text})"


def int_literal(value: int, type: str) -> str:
    if type == "bool":
        return "true" if value else "false"
    if type == "long":
        # The least number has no literal of its own.
        return f"({value + 1}L - 1)" if value == -(2**63) else f"({value}L)" if value < 0 else f"{value}L"
    if value == -(2**31):
        return f"({value + 1} - 1)"
    return f"({value})" if value < 0 else str(value)
