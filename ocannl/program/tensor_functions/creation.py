"""Data that are made as NumPy makes arrays; their axes are those of `oc.data`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ocannl.dialects.ir.errors import DeviceError
from ocannl.program.arguments.checks import LARGEST, flag, integer, number, whole
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.leaves import contents_of, data, is_beyond
from ocannl.program.location import here
from ocannl.program.tensor import Tensor
from ocannl.program.types.dtypes import stored_dtype

Sizes: TypeAlias = int | Sequence[int]


def tensor(array: ArrayLike, dtype: DTypeLike | None = None, *, axes: str | None = None) -> Tensor:
    """Data with the contents of nested lists or an array. Lists of integers are of int32, of booleans bool,
    of other numbers of float32, unless a `dtype` is given.
    """
    return data(array, axes=axes, dtype=dtype)


def zeros(shape: Sizes, dtype: DTypeLike = np.float32, *, axes: str | None = None) -> Tensor:
    """Data of zeros; `shape` is one size or a sequence of sizes, in the order of memory. Raises
    `ArgumentError` for sizes that are several arguments.
    """
    return full(shape, 0, dtype, axes=axes)


def ones(shape: Sizes, dtype: DTypeLike = np.float32, *, axes: str | None = None) -> Tensor:
    """Data of ones, as `oc.zeros`."""
    return full(shape, 1, dtype, axes=axes)


def full(
    shape: Sizes, fill_value: ArrayLike, dtype: DTypeLike | None = None, *, axes: str | None = None
) -> Tensor:
    """Data of one number, or of an array that is broadcast, as `oc.zeros`; the dtype is that of
    `oc.tensor(fill_value)`, unless it is given.
    """
    sizes = shape if isinstance(shape, list | tuple) else [shape]
    if whole(dtype) is not None:
        raise ArgumentError(
            f"sizes are one argument, as ({', '.join(map(str, [*sizes, dtype]))}), no dtype is {dtype}"
        )
    known = tuple([integer(size, "a size") for size in sizes])
    filling = contents_of(fill_value, dtype)
    _check_room(known, filling.dtype)
    try:
        return data(np.full(known, filling), axes=axes)
    except ValueError:
        raise ArgumentError(f"{filling.shape} does not fill an array of {known}") from None


def _check_room(sizes: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Raises `DeviceError` for an array with more bytes than there are addresses."""
    size = math.prod(sizes) * dtype.itemsize
    if size > LARGEST:
        raise DeviceError(here(f"Unable to allocate {size} bytes for an array of {tuple(sizes)}"))


def arange(
    start: float, stop: float | None = None, step: float = 1, dtype: DTypeLike | None = None
) -> Tensor:
    """The numbers from `start` to less than `stop`, `step` apart, along one output axis; those from 0 to less
    than `start` without a `stop`. Of int32 if all are integers, else of float32.
    """
    first, end = (0, start) if stop is None else (start, stop)
    for value in (first, end, step):
        number(value, "a number of a range", signed=True)
    try:
        found = np.arange(first, end, step)
    except (ArithmeticError, ValueError):  # No step, no end, or too long to have positions.
        raise ArgumentError(f"there is no range from {first} to {end} by {step}") from None
    if dtype is None:
        is_large = found.dtype.kind == "i" and found.size and is_beyond(found, np.int32)
        dtype = np.float32 if found.dtype.kind == "f" else np.int64 if is_large else np.int32
    return data(found, dtype=dtype)


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = np.float32, *, axes: str | None = None
) -> Tensor:
    """Data with ones on the diagonal, or on the one `k` above, and zeros elsewhere; `axes="oi"` makes it a
    matrix for `@`.
    """
    sizes = [integer(size, "a size") for size in (N, N if M is None else M)]
    _check_room(sizes, stored_dtype(dtype))
    return data(np.eye(*sizes, k=integer(k, "k", least=None), dtype=stored_dtype(dtype)), axes=axes)


def linspace(
    start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: DTypeLike = np.float32
) -> Tensor:
    """`num` numbers from `start` to `stop`, without it if not `endpoint`, evenly spaced along one output
    axis.
    """
    points = np.linspace(start, stop, integer(num, "a number of points"), flag(endpoint, "endpoint"))
    return data(points, dtype=stored_dtype(dtype))
