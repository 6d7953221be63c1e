"""Questions to Windows, by functions of kernel32.

Source: "Windows API index", processthreadsapi.h, sysinfoapi.h and psapi.h.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

CORE, CACHE, EVERY = 0, 2, 0xFFFF
UNIFIED, DATA = 0, 2
LONGEST_PATH = 2**15
MOST_MODULES = 4096
FLOATS = ctypes.c_int(1)


class Record(NamedTuple):
    """A SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX of a core, or of a cache with its level, type and bytes: its
    first group of processors, and these as bits.
    """

    kind: int
    group: int
    processors: int
    level: int = 0
    type: int = 0
    bytes: int = 0


@cache
def library() -> Any:
    """The library of the kernel. All calls are by the one convention of 64-bit systems."""
    return ctypes.CDLL("kernel32")


def records() -> list[Record]:
    """The cores and caches of this machine; none where it does not tell them."""
    ask, size = library().GetLogicalProcessorInformationEx, ctypes.c_uint32(0)
    ask(EVERY, None, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    return list(parsed(buffer.raw)) if size.value and ask(EVERY, buffer, ctypes.byref(size)) else []


def parsed(data: bytes) -> Iterator[Record]:
    """The records of cores and caches in what `GetLogicalProcessorInformationEx` writes."""

    def at(place: int, size: int) -> int:
        return int.from_bytes(data[start + place : start + place + size], "little")

    start = 0
    while start + 8 <= len(data):
        kind, size = at(0, 4), at(4, 4)
        if kind == CORE:
            yield Record(kind, at(40, 2), at(32, 8))
        elif kind == CACHE:
            yield Record(kind, at(48, 2), at(40, 8), at(8, 1), at(16, 4), at(12, 4))
        start += size or len(data)


def allowed() -> int:
    """The processors of its first group that this process may use, as bits; 0 if it has several groups."""
    kernel, own, all = library(), ctypes.c_uint64(0), ctypes.c_uint64(0)
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    process = ctypes.c_void_p(kernel.GetCurrentProcess())
    return own.value if kernel.GetProcessAffinityMask(process, ctypes.byref(own), ctypes.byref(all)) else 0


def cores() -> int:
    """The number of cores this process may run on."""
    found, mask = [record for record in records() if record.kind == CORE], allowed()
    usable = [core for core in found if not mask or core.group or core.processors & mask]
    return len(usable) or os.cpu_count() or 1


def caches() -> dict[int, int]:
    """The bytes of the data caches by level that belong to the first core alone."""
    found = records()
    core = next((record for record in found if record.kind == CORE), None)
    if core is None:
        return {}
    own = [r for r in found if r.kind == CACHE and r.group == core.group and r.processors & core.processors]
    data = [r for r in own if r.type in (UNIFIED, DATA) and not r.processors & ~core.processors]
    return {record.level: record.bytes for record in data}


def loaded_files() -> list[str]:
    """The libraries that this process has loaded."""
    kernel, needed = library(), ctypes.c_uint32(0)
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    process, modules = ctypes.c_void_p(kernel.GetCurrentProcess()), (ctypes.c_void_p * MOST_MODULES)()
    if not kernel.K32EnumProcessModules(process, modules, ctypes.sizeof(modules), ctypes.byref(needed)):
        return []
    path = (ctypes.c_uint16 * LONGEST_PATH)()
    found: list[str] = []
    for module in modules[: needed.value // ctypes.sizeof(ctypes.c_void_p)]:
        length = kernel.GetModuleFileNameW(ctypes.c_void_p(module), path, LONGEST_PATH)
        found.append(bytes(path)[: 2 * length].decode("utf-16-le", "surrogatepass"))
    return found


def symbols() -> dict[str, int]:
    """The symbols to which code refers that grows the stack by pages, and that computes with floats."""
    probe = ctypes.CDLL("ntdll").__getattr__("__chkstk")
    return {"__chkstk": ctypes.cast(probe, ctypes.c_void_p).value or 0, "_fltused": ctypes.addressof(FLOATS)}


def cache_folder() -> Path | None:
    """`XDG_CACHE_HOME` where it is set, else the local application data of the user."""
    places = (os.environ.get(name, "") for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"))
    return next((Path(place) for place in places if os.path.isabs(place)), None)
