"""Arrays in memory: their sizes, their elements, and rings of arrays."""

from __future__ import annotations

from functools import cache
from typing import cast

from xdsl.dialects.builtin import FixedBitwidthType, IntegerType, MemRefType, ShapedType, StringAttr, i1, i8
from xdsl.ir import Attribute, SSAValue

# Memory spaces. The first index of a ring counts around, modulo its size. In swizzled arrays pieces of rows
# change places in memory; index maps are those of the plain array.
RING, SWIZZLED, SWIZZLED_RING = (StringAttr(name) for name in ("ring", "swizzled", "swizzled ring"))


@cache
def array_type(element: Attribute, sizes: tuple[int, ...]) -> MemRefType[Attribute]:
    """The type of a node; xDSL takes long to make one, and most nodes share theirs with others."""
    return MemRefType(element, sizes)


def memref_shape(value: SSAValue) -> tuple[int, ...]:
    """The static sizes of a node; empty for a scalar value."""
    type = value.type
    if isinstance(type, MemRefType):
        return tuple([size.data for size in cast("MemRefType[Attribute]", type).shape.data])
    return type.get_shape() if isinstance(type, ShapedType) else ()


def is_ring(value: SSAValue) -> bool:
    """Whether the first index of an array counts around."""
    return memory_space(value) in (RING, SWIZZLED_RING)


def is_swizzled(value: SSAValue) -> bool:
    """Whether pieces of the rows of an array have other places in memory than by their order."""
    return memory_space(value) in (SWIZZLED, SWIZZLED_RING)


def memory_space(value: SSAValue) -> Attribute | None:
    type = value.type
    return cast("MemRefType[Attribute]", type).memory_space if isinstance(type, MemRefType) else None


def element_type(array: SSAValue) -> Attribute:
    """The element type of an array, with its sign, and truth values as such."""
    return cast("MemRefType[Attribute]", array.type).element_type


def loaded_as(element: Attribute) -> Attribute:
    """The type of a value as it is loaded and stored: without a sign, and a byte for a truth value."""
    if isinstance(element, IntegerType):
        return i8 if element == i1 else IntegerType(element.bitwidth)
    return element


def loaded_type(array: SSAValue) -> Attribute:
    """The type of the values that are loaded from an array and stored to it."""
    return loaded_as(element_type(array))


def element_bytes(array: SSAValue) -> int:
    """The bytes of an element of an array."""
    type = element_type(array)
    assert isinstance(type, FixedBitwidthType)
    return type.size
