"""The element types of tensors: which are floats, what several have in common, and their NumPy dtypes."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import FixedBitwidthType, Float32Type, Float64Type, IntegerType, f32
from xdsl.ir import Attribute

from ocannl.dialects.scalar.arith_builder import ScalarType
from ocannl.dialects.scalar.small_floats import FORMATS, small_format


def is_float(element: Attribute) -> bool:
    return isinstance(element, Float32Type | Float64Type) or element.__class__ in FORMATS


def has_infinity(element: Attribute) -> bool:
    format = small_format(element)
    return is_float(element) if format is None else format.infinite


def float_or(element: Attribute) -> Attribute:
    """A float stays as it is, an integer becomes an f32."""
    return element if is_float(element) else f32


def computed_in(element: Attribute | None) -> ScalarType:
    """The type of the arithmetic on numbers of a type: f64 for that, f32 for all others."""
    return element if isinstance(element, Float64Type) else f32


def widest(types: Iterable[Attribute]) -> Attribute | None:
    """The narrowest float that has all of these: f32 for two different small ones.

    Integers, which are converted where they are read, do not count.
    """
    floats = [t for t in dict.fromkeys(types) if is_float(t)]
    if len(floats) <= 1:
        return floats[0] if floats else None
    return next((t for t in floats if isinstance(t, Float64Type)), f32)


def dtype_name(element: Attribute) -> str:
    """The name of the NumPy dtype, which `ml_dtypes` adds for some."""
    format = small_format(element)
    if format is not None:
        return format.dtype
    assert isinstance(element, FixedBitwidthType)
    return f"{'int' if isinstance(element, IntegerType) else 'float'}{element.bitwidth}"
