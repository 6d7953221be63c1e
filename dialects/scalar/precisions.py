"""The element types of tensors: floats, integers and truth values; what several have in common, in what their
arithmetic is, and their NumPy dtypes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from xdsl.dialects.builtin import (
    FixedBitwidthType,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    Signedness,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute

from ocannl.dialects.scalar.arith_builder import ScalarType
from ocannl.dialects.scalar.small_floats import FORMATS, small_format

BOOL = i1
"""A truth value: one byte in memory, 0 or 1."""
U8, U16, U32 = (IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 16, 32))


def is_float(element: Attribute | None) -> bool:
    return isinstance(element, Float32Type | Float64Type) or element.__class__ in FORMATS


def is_integer(element: object) -> TypeGuard[IntegerType]:
    """Whether an element type is an integer, of any width and sign."""
    return isinstance(element, IntegerType)


def is_unsigned(element: Attribute) -> bool:
    return is_integer(element) and element.signedness.data is Signedness.UNSIGNED


WIDTHS, UNSIGNED_WIDTHS = frozenset((1, 8, 16, 32, 64)), frozenset((8, 16, 32))
"""The bits of integers in memory, and of those without a sign."""


def is_stored(element: Attribute) -> bool:
    """Whether numbers of a type can be in memory: floats, `i1` to `i64`, `ui8` to `ui32`."""
    if not is_integer(element):
        return is_float(element)
    if is_unsigned(element):
        return element.bitwidth in UNSIGNED_WIDTHS
    return element.signedness.data is Signedness.SIGNLESS and element.bitwidth in WIDTHS


def not_stored(element: Attribute, what: str) -> str:
    """The message about a type that is not stored; `what` is an element of what it is."""
    return f"{what} are floats of up to 64 bits, i1 to i64, or ui8 to ui32, found {element}"


def is_computed(type: Attribute) -> bool:
    """Whether a scalar in a nest may have a type: a float, or an integer without a sign of its own."""
    if is_integer(type):
        return type.signedness.data is Signedness.SIGNLESS and type.bitwidth in WIDTHS
    return isinstance(type, IndexType) or is_float(type)


def has_infinity(element: Attribute) -> bool:
    format = small_format(element)
    return is_float(element) if format is None else format.infinite


def float_or(element: Attribute) -> Attribute:
    """A float stays as it is, an integer becomes an f32."""
    return element if is_float(element) else f32


def computed_in(element: Attribute | None) -> ScalarType:
    """The type of the arithmetic on floats of a type, and on integers as floats: f64 for that, f32 for all
    others.
    """
    return element if isinstance(element, Float64Type) else f32


def work_type(element: Attribute) -> Attribute:
    """The type of the arithmetic on numbers of a type, as precise as theirs: of small integers i32, which
    holds them all.
    """
    if is_float(element):
        return computed_in(element)
    return element if element in (BOOL, U32, i64) else i32


def widest(types: Iterable[Attribute]) -> Attribute | None:
    """The narrowest float that has all of these: f32 for two different small ones.

    Integers, which are converted where they are read, do not count.
    """
    floats = [t for t in dict.fromkeys(types) if is_float(t)]
    if len(floats) <= 1:
        return floats[0] if floats else None
    return next((t for t in floats if isinstance(t, Float64Type)), f32)


def promote(x: Attribute, y: Attribute) -> Attribute:
    """The type in which two numbers are combined, as in JAX: a float prevails over an integer, an integer
    over a truth value; of integers the narrowest that has all of both.
    """
    if x == y or y == BOOL:
        return x
    floats = widest((x, y))
    if floats is not None:
        return floats
    if x == BOOL:
        return y
    assert is_integer(x)
    assert is_integer(y)
    if is_unsigned(x) == is_unsigned(y):
        return x if x.bitwidth > y.bitwidth else y
    signed, unsigned = (y, x) if is_unsigned(x) else (x, y)
    return IntegerType(max(signed.bitwidth, 2 * unsigned.bitwidth))


def float_of(element: Attribute) -> Attribute:
    """The float in which functions of numbers of a type are computed and quotients given: for i64 f64."""
    return f64 if element == i64 else float_or(element)


def integer_range(element: IntegerType) -> tuple[int, int]:
    """The least and the largest integer of a type."""
    bits = element.bitwidth
    if element == BOOL or is_unsigned(element):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def dtype_name(element: Attribute) -> str:
    """The name of the NumPy dtype, which `ml_dtypes` adds for some."""
    format = small_format(element)
    if format is not None:
        return format.dtype
    if element == BOOL:
        return "bool"
    assert isinstance(element, FixedBitwidthType)
    kind = "uint" if is_unsigned(element) else "int" if is_integer(element) else "float"
    return f"{kind}{element.bitwidth}"
