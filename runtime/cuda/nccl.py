"""Functions of NCCL, NVIDIA's library of collectives, which the package nvidia-nccl-cu12 has."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.records import dataclass

LIBRARY = "libnccl.so.2"
NO_LIBRARY = (
    "GPUs talk through NCCL: `pip install 'ocannl[nccl]'`, or nvidia-nccl-cu13 for a driver of CUDA 13 "
    f"({LIBRARY} was not found)"
)
SUCCESS, IN_PROGRESS = 0, 7
BYTE = 1
"""The type `ncclUint8`: exchanges move bytes."""
UNSET = -(2**31)


class UniqueId(ctypes.Structure):
    """By which the ranks of a communicator find each other."""

    _fields_ = (("internal", ctypes.c_char * 128),)


class Config(ctypes.Structure):
    """Options of communicators, as NCCL 2.18 has them; later versions take them by their number."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", ctypes.c_int),
        ("cgaClusterSize", ctypes.c_int),
        ("minCTAs", ctypes.c_int),
        ("maxCTAs", ctypes.c_int),
        ("netName", ctypes.c_char_p),
        ("splitShare", ctypes.c_int),
    )


def not_blocking() -> Config:
    """Calls return before other ranks have come: who waits for these can stop."""
    return Config(ctypes.sizeof(Config), 0xCAFEBEEF, 21800, 0, UNSET, UNSET, UNSET, None, UNSET)


Comm, Pointer, Size, Int = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "ncclGetUniqueId": (ctypes.POINTER(UniqueId),),
    "ncclCommInitRankConfig": (ctypes.POINTER(Comm), Int, UniqueId, Int, ctypes.POINTER(Config)),
    "ncclCommGetAsyncError": (Comm, ctypes.POINTER(Int)),
    "ncclCommAbort": (Comm,),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclAllGather": (Pointer, Pointer, Size, Int, Comm, Pointer),
    "ncclSend": (Pointer, Size, Int, Int, Comm, Pointer),
    "ncclRecv": (Pointer, Size, Int, Int, Comm, Pointer),
}
"""The functions that are called, each of which returns a result, and the types of their arguments."""
TEXTS: dict[str, tuple[Any, ...]] = {"ncclGetErrorString": (Int,), "ncclGetLastError": (Comm,)}


class NcclError(DeviceError):
    """A failed call of NCCL, with its number of the reason; 0 until it is unpickled."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Nccl:
    """The functions of a library, and those that have texts."""

    functions: Mapping[str, Callable[..., int]]
    texts: Mapping[str, Callable[..., bytes | None]]

    @staticmethod
    def of(library: ctypes.CDLL) -> Nccl:
        """Those of a library. Raises `DeviceError` where it lacks one, as before version 2.18."""
        try:
            return Nccl(
                {n: ctypes.CFUNCTYPE(Int, *types)((n, library)) for n, types in FUNCTIONS.items()},
                {n: ctypes.CFUNCTYPE(ctypes.c_char_p, *t)((n, library)) for n, t in TEXTS.items()},
            )
        except AttributeError as missing:
            raise DeviceError(f"{LIBRARY} is too old: {missing}") from None

    def call(self, name: str, *arguments: Any) -> int:
        """The result of a function: `SUCCESS` or `IN_PROGRESS`. Raises `NcclError` for all others."""
        code = self.functions[name](*arguments)
        if code not in (SUCCESS, IN_PROGRESS):
            raise self.error(name, code)
        return code

    def error(self, what: str, code: int) -> NcclError:
        """The error of a result, in the words of NCCL."""
        said, last = self.texts["ncclGetErrorString"](code), self.texts["ncclGetLastError"](None)
        words = ": ".join(text.decode(errors="replace").strip() for text in (said, last) if text)
        return NcclError(f"NCCL failed in {what}: {words}", code)

    def unique_id(self) -> bytes:
        """A new name for a communicator."""
        found = UniqueId()
        self.call("ncclGetUniqueId", ctypes.byref(found))
        return bytes(found)


@cache
def nccl() -> Nccl:
    """The library of this process. Raises `DeviceError` where there is none."""
    return Nccl.of(load())


def load() -> ctypes.CDLL:
    """The library of NVIDIA's package, else that of the system. Raises `DeviceError`."""
    package = importlib.util.find_spec("nvidia.nccl") if importlib.util.find_spec("nvidia") else None
    folders = [] if package is None else list(package.submodule_search_locations or ())
    for path in (*(str(Path(folder, "lib", LIBRARY)) for folder in folders), LIBRARY):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise DeviceError(NO_LIBRARY)
