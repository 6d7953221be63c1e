"""Data that are made as NumPy makes arrays; their axes are those of `oc.data`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ocannl.program.checks import integer
from ocannl.program.dtypes import stored_dtype
from ocannl.program.leaves import data
from ocannl.program.tensor import Tensor

Sizes: TypeAlias = int | Sequence[int]


def tensor(array: ArrayLike, dtype: DTypeLike | None = None, *, axes: str | None = None) -> Tensor:
    """Data with the contents of nested lists or an array. Lists of integers are of int32, of booleans bool,
    of other numbers of float32, unless a `dtype` is given.
    """
    return data(array, axes=axes, dtype=dtype)


def zeros(shape: Sizes, dtype: DTypeLike = np.float32, *, axes: str | None = None) -> Tensor:
    """Data of zeros; `shape` is one size or a sequence of sizes, in the order of memory."""
    return full(shape, 0, dtype, axes=axes)


def ones(shape: Sizes, dtype: DTypeLike = np.float32, *, axes: str | None = None) -> Tensor:
    """Data of ones, as `oc.zeros`."""
    return full(shape, 1, dtype, axes=axes)


def full(shape: Sizes, value: float, dtype: DTypeLike = np.float32, *, axes: str | None = None) -> Tensor:
    """Data of one number, as `oc.zeros`."""
    sizes = shape if isinstance(shape, list | tuple) else [shape]
    known = tuple([integer(size, "a size") for size in sizes])
    return data(np.full(known, value, stored_dtype(dtype)), axes=axes)


def arange(
    start: float, stop: float | None = None, step: float = 1, dtype: DTypeLike | None = None
) -> Tensor:
    """The numbers from `start` to less than `stop`, `step` apart, along one output axis; those from 0 to less
    than `start` without a `stop`. Of int32 if all are integers, else of float32.
    """
    ends = (0, start) if stop is None else (start, stop)
    return tensor(np.arange(*ends, step).tolist(), dtype)


def eye(rows: int, columns: int | None = None, dtype: DTypeLike = np.float32, *, axes: str = "bo") -> Tensor:
    """Data with ones on the diagonal and zeros elsewhere; `axes="oi"` makes it a matrix for `@`."""
    sizes = [integer(size, "a size") for size in (rows, rows if columns is None else columns)]
    return data(np.eye(*sizes, dtype=stored_dtype(dtype)), axes=axes)


def linspace(start: float, stop: float, num: int = 50, dtype: DTypeLike = np.float32) -> Tensor:
    """`num` numbers from `start` to `stop`, evenly spaced, along one output axis."""
    return data(np.linspace(start, stop, integer(num, "a number of points")), dtype=stored_dtype(dtype))
