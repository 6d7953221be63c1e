"""Arrays of NumPy and of other libraries."""

from __future__ import annotations

from array import array
from typing import Any, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ocannl.program.arguments.errors import ArgumentError
from ocannl.runtime.dlpack import CUDA, CUDA_MANAGED
from ocannl.runtime.foreign import device_of

OF_OTHERS = "__dlpack__", "__array__", "__array_interface__"
"""The attributes of arrays of other libraries."""

SMALL_FLOATS = "bfloat16", "float8_e4m3fn", "float8_e5m2"
"""Dtypes of PyTorch that it does not hand on to NumPy."""

PLAIN = frozenset((bool, int, float))
"""Python's own numbers."""


def is_array(value: object) -> bool:
    """Whether a value is an array with a dtype, of NumPy, Python or another library; tensors of programs are
    such, too.
    """
    is_own = isinstance(value, np.ndarray | np.generic | memoryview | array)
    return is_own or any(hasattr(value, name) for name in OF_OTHERS)


def holds_arrays(value: object) -> bool:
    """Whether a value is an array, or nested lists that hold any, so that dtypes are given."""
    if not isinstance(value, list | tuple):
        return is_array(value)
    items = cast("list[object]", value)
    return not PLAIN.issuperset(map(type, items)) and any(map(holds_arrays, items))


def as_array(value: object, need: str) -> NDArray[Any]:
    """An array, number or nested lists as an array on the host, which may share its memory. `need` begins
    what `ArgumentError` says of lists of different lengths, of masked values, which have no number, and of
    what NumPy cannot read.
    """
    if type(value) is np.ndarray:
        return value
    if is_masked(value):
        raise ArgumentError(f"{need}, found a masked array: what is masked gets a value by .filled(0)")
    detach = getattr(value, "detach", None)
    try:
        return _read(value if detach is None else detach())
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(value, list | tuple) and isinstance(error, ValueError):
            raise ArgumentError(f"{need}, found lists of different lengths") from None
        raise ArgumentError(f"{need}, found what NumPy does not read: {error}") from None


def is_on_gpu(value: object) -> bool:
    """Whether a value is an array of another library in the memory of an NVIDIA GPU."""
    found = device_of(value)
    return found is not None and found[0] in (CUDA, CUDA_MANAGED)


def unchanging(contents: NDArray[Any], given: object) -> NDArray[Any]:
    """The contents of a given array, copied where the caller could still write them: a program means what it
    was given.
    """
    is_own = contents.flags.owndata and contents is not given
    return contents if is_own or not contents.flags.writeable else contents.copy()


def is_masked(value: object) -> bool:
    """Whether a value is an array that hides some of its numbers."""
    return isinstance(value, np.ma.MaskedArray) and bool(np.any(np.ma.getmaskarray(cast("Any", value))))


def _read(found: Any) -> NDArray[Any]:
    small = str(getattr(found, "dtype", "")).removeprefix("torch.")
    if small in SMALL_FLOATS and hasattr(found, "float"):
        return np.asarray(found.float().cpu()).astype(getattr(ml_dtypes, small))
    if is_on_gpu(found):
        # PyTorch and CuPy copy to the host when they are told to, and not for NumPy.
        to_host = getattr(found, "cpu", None) or getattr(found, "get", None)
        return np.asarray(found if to_host is None else to_host())
    if type(found).__module__ != "numpy" and hasattr(found, "__dlpack__"):
        try:
            return np.from_dlpack(found)
        except (BufferError, RuntimeError, TypeError):
            pass  # NumPy's DLPack knows no bfloat16, and no memory of GPUs.
    return np.asarray(found)


def signed(array: NDArray[Any]) -> NDArray[Any]:
    """An array of uint64 as int64, others as they are. Raises `ArgumentError` for what does not fit."""
    if array.dtype != np.uint64:
        return array
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise ArgumentError(f"integers are of 64 bits with a sign, found {array.max()}")
    return array.astype(np.int64)
