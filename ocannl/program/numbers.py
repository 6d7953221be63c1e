"""Numbers that stand in tensor expressions."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeGuard

import numpy as np

from ocannl.program.dtypes import SMALL_SCALARS
from ocannl.program.errors import ArgumentError
from ocannl.program.no_tensor import no_tensor

Number: TypeAlias = int | float | np.integer[Any] | np.floating[Any]


def is_number(value: object) -> TypeGuard[Number]:
    """Whether a value is a number of Python or NumPy."""
    return isinstance(value, (int, float, np.number, np.bool_, *SMALL_SCALARS)) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    )


def number(value: Number) -> int | float:
    """A number as it stands in an expression: whole ones of 64 bits as ints. Raises `ArgumentError` for
    everything else.
    """
    if not is_number(value):
        raise ArgumentError(f"expected a tensor or a number, found {no_tensor(value)}")
    if isinstance(value, int | np.integer | np.bool_) and -(2**63) <= value < 2**63:
        return int(value)
    try:
        return float(value)
    except OverflowError:
        raise ArgumentError("a number in an expression is at most 1.8e308") from None
