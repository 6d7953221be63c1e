"""Questions to macOS, by functions of its C library.

Source: "sysctl(3)" and "dyld(3)" of macOS; of Apple silicon, `hw.perflevel0` are the fastest cores.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

from ocannl.runtime.systems import posix


@cache
def library() -> Any:
    """The C library."""
    return ctypes.CDLL(None)


def number(name: str) -> int | None:
    """A number that the kernel knows by a name, of 4 or 8 bytes; None where it has none."""
    value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
    failed = library().sysctlbyname(
        name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0)
    )
    return None if failed else value.value


def cores() -> int:
    """The cores of the fastest kind: of equal parts, a slower core would end last."""
    return number("hw.perflevel0.physicalcpu") or number("hw.physicalcpu") or os.cpu_count() or 1


def caches() -> dict[int, int]:
    """The bytes of the data caches of one of the fastest cores; of a cache that several share, its part."""
    first = number("hw.perflevel0.l1dcachesize") or number("hw.l1dcachesize")
    second = number("hw.perflevel0.l2cachesize") or number("hw.l2cachesize")
    sharing = number("hw.perflevel0.cpusperl2") or 1
    return {level: size for level, size in ((1, first), (2, (second or 0) // sharing)) if size}


def loaded_files() -> list[str]:
    """The libraries that this process has loaded."""
    found = library()
    found._dyld_get_image_name.restype = ctypes.c_char_p
    names = (found._dyld_get_image_name(k) for k in range(found._dyld_image_count()))
    return [os.fsdecode(name) for name in names if name]


def cache_folder() -> Path | None:
    """`XDG_CACHE_HOME` where it is set, else `~/Library/Caches`."""
    return posix.xdg_cache_home() or posix.in_home("Library/Caches")
