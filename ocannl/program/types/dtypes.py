"""The element types of tensors as NumPy dtypes; those that NumPy lacks are of `ml_dtypes`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike
from xdsl.dialects.builtin import bf16, f8E4M3FN, f8E5M2, f16, f32, f64, i8, i16, i32, i64
from xdsl.ir import Attribute

from ocannl.dialects.ir.errors import PrecisionError
from ocannl.dialects.scalar.precisions import BOOL, U8, U16, U32, computed_in, is_float
from ocannl.program.location import here

bfloat16 = ml_dtypes.bfloat16
float8_e4m3fn = ml_dtypes.float8_e4m3fn
float8_e5m2 = ml_dtypes.float8_e5m2
float16 = np.float16
float32 = np.float32
float64 = np.float64

ELEMENTS: dict[np.dtype[Any], Attribute] = {
    np.dtype(float8_e4m3fn): f8E4M3FN,
    np.dtype(float8_e5m2): f8E5M2,
    np.dtype(bfloat16): bf16,
    np.dtype(float16): f16,
    np.dtype(float32): f32,
    np.dtype(float64): f64,
    np.dtype(np.bool_): BOOL,
    np.dtype(np.int8): i8,
    np.dtype(np.uint8): U8,
    np.dtype(np.int16): i16,
    np.dtype(np.uint16): U16,
    np.dtype(np.int32): i32,
    np.dtype(np.uint32): U32,
    np.dtype(np.int64): i64,
}
DTYPES: dict[Attribute, np.dtype[Any]] = {element: dtype for dtype, element in ELEMENTS.items()}
BY_NAME = {str(dtype): dtype for dtype in ELEMENTS}
# Numbers of these are no `np.number`.
SMALL_SCALARS = (bfloat16, float8_e4m3fn, float8_e5m2)


def element_of(dtype: DTypeLike | None) -> Attribute | None:
    """The element type of a NumPy dtype; None where the precision is to be inferred.

    Raises `PrecisionError` for a dtype that no target stores.
    """
    return None if dtype is None else ELEMENTS[stored_dtype(dtype)]


def stored_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """The dtype, if targets store it; that of another library, such as `torch.float32`, by its name. Raises
    `PrecisionError` for others.
    """
    name = None if isinstance(dtype, str) else str(dtype).rpartition(".")[2]
    try:
        found = BY_NAME[name] if name in BY_NAME else np.dtype(dtype)
    except (TypeError, ValueError):
        raise PrecisionError(here(f"there is no dtype {dtype!r}; {_stored()}")) from None
    if found not in ELEMENTS:
        raise PrecisionError(here(f"no target stores {found}; {_stored()}"))
    return found


def float_element(dtype: DTypeLike, what: str) -> Attribute:
    """The element type of a floating dtype. Raises `PrecisionError`, which begins with `what`, for others."""
    found = stored_dtype(dtype)
    if not is_float(ELEMENTS[found]):
        raise PrecisionError(here(f"{what} of a floating dtype, found {found}"))
    return ELEMENTS[found]


def _stored() -> str:
    return f"use one of {', '.join(map(str, ELEMENTS))}"


def dtype_of(element: Attribute) -> np.dtype[Any]:
    """The NumPy dtype of an element type."""
    return DTYPES[element]


def computed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the arithmetic on floats of a dtype, and that of integers itself."""
    element = ELEMENTS[dtype]
    return DTYPES[computed_in(element)] if is_float(element) else dtype


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of a dtype hold integers."""
    return dtype.kind in "iu"


def is_numeric(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of a dtype hold numbers that can be converted to a stored one."""
    return dtype in ELEMENTS or dtype.kind in "biuf"
