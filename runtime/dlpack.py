"""Memory as other libraries take it without a copy, by DLPack (https://dmlc.github.io/dlpack).

A capsule has a structure that says where the memory is, and of which shape and type it is. Its consumer calls
a function when nobody needs it any more.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

# The devices of DLPack, and its versions of the structure.
CPU, CUDA, CUDA_MANAGED = 1, 2, 13
VERSION = (1, 0)
# The types of DLPack, by NumPy's kinds, and those that NumPy has not.
KINDS = {"i": 0, "u": 1, "f": 2, "b": 6}
SMALL = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}

PLAIN, PLAIN_USED = b"dltensor", b"used_dltensor"
VERSIONED, VERSIONED_USED = b"dltensor_versioned", b"used_dltensor_versioned"

Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Tensor(ctypes.Structure):
    """`DLTensor`: strides count elements; NULL stands for the row-major order."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("axes", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class PlainTensor(ctypes.Structure):
    """`DLManagedTensor`."""

    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter))


class VersionedTensor(ctypes.Structure):
    """`DLManagedTensorVersioned`, whose memory may be written."""

    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


_living: dict[int, tuple[Any, ...]] = {}
"""The objects that the structures point to, by their addresses, until their deleter is called."""


@Deleter
def _delete(address: int) -> None:
    _living.pop(address, None)


_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def capsule_has(capsule: object, name: bytes) -> bool:
    """Whether an object is a capsule of a name."""
    return bool(_is_valid(id(capsule), name))


def capsule_pointer(capsule: object, name: bytes) -> int:
    """The address in a capsule of a name."""
    return int(_pointer(id(capsule), name))


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destroy(capsule: int) -> None:
    """Frees what nobody took out of a capsule; who took it has renamed that."""
    for name, kind in ((PLAIN, PlainTensor), (VERSIONED, VersionedTensor)):
        if _is_valid(capsule, name):
            found = _pointer(capsule, name)
            kind.from_address(found).deleter(found)


def new_capsule(address: int, name: bytes) -> Any:
    """A capsule of a structure, which is freed with it unless somebody takes it out."""
    return _new(address, name, ctypes.cast(_destroy, ctypes.c_void_p))


def capsule(
    address: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    device: tuple[int, int],
    owner: object,
    max_version: tuple[int, int] | None = None,
) -> Any:
    """A capsule of row-major memory, which `owner` keeps: with a version where the consumer knows of some.

    Raises `BufferError` for a dtype that DLPack has not.
    """
    code = SMALL.get(dtype.name, KINDS.get(dtype.kind))
    if code is None:
        raise BufferError(f"DLPack has no {dtype}")
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    steps = (ctypes.c_int64 * len(shape))(*row_major(shape))
    tensor = Tensor(address or None, device, len(shape), code, 8 * dtype.itemsize, 1, sizes, steps, 0)
    if max_version is None or max_version < VERSION:
        managed, name = PlainTensor(tensor, None, _delete), PLAIN
    else:
        managed, name = VersionedTensor(VERSION, None, _delete, 0, tensor), VERSIONED
    _living[ctypes.addressof(managed)] = (managed, sizes, steps, owner)
    return new_capsule(ctypes.addressof(managed), name)


def row_major(shape: tuple[int, ...]) -> list[int]:
    """The strides in elements."""
    steps = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        steps[axis] = steps[axis + 1] * shape[axis + 1]
    return steps


def check_request(device: tuple[int, int], wanted: tuple[int, int] | None, copy: bool | None) -> None:
    """Raises `BufferError` where another device or a copy is asked for."""
    if wanted is not None and tuple(wanted) != device:
        raise BufferError(f"the memory is on device {device}, and is not copied to {tuple(wanted)}")
    if copy:
        raise BufferError("the memory is shared, not copied")
