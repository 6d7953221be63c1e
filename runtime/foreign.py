"""Arrays of other libraries where they lie, by DLPack (https://dmlc.github.io/dlpack)."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ocannl.runtime.dlpack import (
    KINDS,
    PLAIN,
    PLAIN_USED,
    SMALL,
    VERSION,
    VERSIONED,
    VERSIONED_USED,
    PlainTensor,
    Tensor,
    VersionedTensor,
    capsule_has,
    capsule_pointer,
    row_major,
)

SIZES = {"i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "b": (1,)}
NAMES = {f"{kind}{size}": code for kind, code in KINDS.items() for size in SIZES[kind]}
SMALL_NAMES: dict[Any, int] = {getattr(ml_dtypes, name): code for name, code in SMALL.items()}
DTYPES: dict[tuple[int, int], np.dtype[Any]] = {
    (code, 8 * np.dtype(name).itemsize): np.dtype(name) for name, code in (NAMES | SMALL_NAMES).items()
}

_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", ctypes.pythonapi)
)


class Foreign:
    """A row-major array of another library, as a capsule says. It is given back with this object, once.

    Raises `BufferError` for elements that NumPy and `ml_dtypes` have not, for strides, and for versions of
    DLPack that are not known.
    """

    def __init__(self, capsule: object) -> None:
        is_versioned = capsule_has(capsule, VERSIONED)
        if not is_versioned and not capsule_has(capsule, PLAIN):
            raise BufferError("the capsule holds no array, or somebody has taken it")
        kind, name, used = (
            (VersionedTensor, VERSIONED, VERSIONED_USED) if is_versioned else (PlainTensor, PLAIN, PLAIN_USED)
        )
        address = capsule_pointer(capsule, name)
        managed = kind.from_address(address)
        _rename(capsule, used)
        if managed.deleter:
            weakref.finalize(self, deleter_of(managed), address)
        if isinstance(managed, VersionedTensor) and managed.version[0] != VERSION[0]:
            raise BufferError(f"DLPack {managed.version[0]}.{managed.version[1]} is not known")
        tensor = managed.tensor
        self.device: tuple[int, int] = tensor.device[0], tensor.device[1]
        """The kind of device, and its number."""
        self.dtype = dtype_of(tensor)
        self.shape = tuple(tensor.shape[: tensor.axes])
        check_strides(tensor, self.shape)
        self.address = (tensor.data or 0) + tensor.offset


def deleter_of(managed: VersionedTensor | PlainTensor) -> Callable[[int], None]:
    """The function of the library. It is called as one of Python's, which libraries may take for granted."""
    place = ctypes.cast(managed.deleter, ctypes.c_void_p).value
    return ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(place or 0)


def dtype_of(tensor: Tensor) -> np.dtype[Any]:
    found = DTYPES.get((tensor.code, tensor.bits))
    if found is None or tensor.lanes != 1:
        raise BufferError(f"elements of DLPack's type {tensor.code} with {tensor.bits} bits are not known")
    return found


def check_strides(tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Raises `BufferError` where elements do not follow one another in row-major order."""
    if not tensor.strides or 0 in shape:
        return
    steps = zip(shape, tensor.strides[: len(shape)], row_major(shape), strict=True)
    if any(size > 1 and step != wanted for size, step, wanted in steps):
        raise BufferError("the array has strides")


def device_of(array: object) -> tuple[int, int] | None:
    """The kind and the number of the device of an array that other libraries take by DLPack; None for
    everything else.
    """
    ask = getattr(type(array), "__dlpack_device__", None)
    if ask is None or not hasattr(type(array), "__dlpack__"):
        return None
    try:
        kind, number = ask(array)
    except (BufferError, RuntimeError, ValueError):
        return None  # It is on a device, or of a kind, that DLPack has not.
    return int(kind), int(number)


def received(array: Any, stream: int) -> Foreign:
    """An array where it lies. What a stream of the device does from now on comes after what has been asked of
    the other library so far. Raises `BufferError` where that does not give it.
    """
    array = array.detach() if hasattr(array, "detach") else array
    try:
        capsule = array.__dlpack__(stream=stream, max_version=VERSION)
    except TypeError:  # The library knows of no versions.
        capsule = array.__dlpack__(stream=stream)
    return Foreign(capsule)
