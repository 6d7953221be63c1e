"""Numbers that stand in tensor expressions."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, TypeGuard, cast

import numpy as np

from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.mistakes.no_tensor import no_tensor
from ocannl.program.types.dtypes import SMALL_SCALARS

ARRAYS = np.generic, np.ndarray
Number: TypeAlias = int | float | Fraction | Decimal | np.integer[Any] | np.floating[Any]
NUMBERS = int, float, Fraction, Decimal, *SMALL_SCALARS


def is_number(value: object) -> TypeGuard[Number]:
    """Whether a value is a real number of Python or NumPy, or an array of one."""
    if isinstance(value, ARRAYS):
        dtype = np.dtype(cast("Any", value).dtype)
        return value.ndim == 0 and (dtype.type in SMALL_SCALARS or dtype.kind in "biuf")
    return isinstance(value, NUMBERS)


def is_truth(value: object) -> bool:
    """Whether a value is True or False, of Python or NumPy."""
    return isinstance(value, bool | np.bool_) or (is_number(value) and getattr(value, "dtype", 0) == np.bool_)


def literal(value: Number) -> bool | int | float:
    """True or False, or a number as it stands in an expression."""
    if type(value) is float:
        return value
    return bool(value) if is_truth(value) else number(value)


def number(value: Number) -> int | float:
    """A number as it stands in an expression: whole ones of 64 bits as ints. Raises `ArgumentError` for
    everything else.
    """
    if not is_number(value):
        raise ArgumentError(f"expected a tensor or a number, found {no_tensor(value)}")
    is_whole = isinstance(value, int) or getattr(value, "dtype", np.dtype(float)).kind in "iub"
    if is_whole and -(2**63) <= int(value) < 2**63:
        return int(value)
    # A decimal that is too large is infinite as a float, and a fraction an error.
    exact = Fraction(value) if isinstance(value, Decimal) and value.is_finite() else value
    try:
        return float(exact)
    except OverflowError:
        raise ArgumentError("a number in an expression is at most 1.8e308") from None
    except ValueError:
        raise ArgumentError(f"expected a tensor or a number, found {value!r}") from None
