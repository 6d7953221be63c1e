"""Questions to Linux, by the files of its kernel."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
MAPPED_FILES = Path("/proc/self/maps")
# The system call `arch_prctl` of x86-64, its request for a component of the processor's state, and that of
# the data in tiles.
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18
UNITS = {"K": 2**10, "M": 2**20}


def loaded_files() -> list[str]:
    """The files that this process has mapped."""
    try:
        lines = MAPPED_FILES.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []
    return list(dict.fromkeys(line[line.find("/") :] for line in lines if "/" in line))


def cores() -> int:
    """The number of cores this process may run on."""
    return count_cores(os.sched_getaffinity(0))


def count_cores(processors: Iterable[int]) -> int:
    """The number of cores that processors belong to, by the siblings of each; one a processor if unknown."""
    found: set[str] = set()
    for number in processors:
        siblings = CPUS / f"cpu{number}/topology/thread_siblings_list"
        found.add(siblings.read_text() if siblings.exists() else f"{number}\n")
    return len(found)


def caches() -> dict[int, int]:
    """The bytes of the data caches by level that belong to the first core alone."""
    folder, found = CPUS / "cpu0", dict[int, int]()
    core = _read(folder / "topology/thread_siblings_list")
    for index in sorted(folder.glob("cache/index*")):
        size, sharing = _read(index / "size"), _read(index / "shared_cpu_list")
        is_own = sharing.isdecimal() or sharing == core
        if is_own and _read(index / "type") in ("Data", "Unified") and size[-1:] in UNITS:
            found[int(_read(index / "level"))] = int(size[:-1]) * UNITS[size[-1]]
    return found


@cache
def permits_tiles() -> bool:
    """Whether this process may use the tile registers of AMX; asks for it, once. Source: Linux, "Using XSTATE
    features in user space applications".
    """
    return ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0


def perf_map() -> Path:
    """The file in which `perf report` looks for the functions of this process."""
    return Path(f"/tmp/perf-{os.getpid()}.map")


def jit_dump() -> Path:
    """The file in which `perf inject --jit` looks for the code of this process."""
    return Path(f"/tmp/jit-{os.getpid()}.dump")


def _read(file: Path) -> str:
    return file.read_text().strip() if file.exists() else ""
