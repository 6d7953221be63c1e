"""The map by which Linux' `perf` names functions of code that was compiled while the process runs.

Source: tools/perf/Documentation/jit-interface.txt of Linux.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ocannl.runtime.host.elf import ObjectFile
from ocannl.runtime.systems.linux import perf_map
from ocannl.runtime.systems.table import LINUX, system


def add_to_map(object_code: bytes, address: Callable[[str], int]) -> None:
    """Adds the functions of an object file that was loaded, on Linux; `address` is that of a global one.
    Those in sections without a global one, of what is rarely called, stay without a name.
    """
    if system() is not LINUX:
        return
    found = ObjectFile(object_code).functions()
    starts = {one.section: address(one.name) - one.offset for one in found if one.is_global}
    named = [one for one in found if one.section in starts]
    # Everybody may write to this folder: a link in the file's place is not followed.
    handle = os.open(perf_map(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    with open(handle, "a", encoding="utf-8") as file:
        file.writelines(f"{starts[f.section] + f.offset:x} {f.size:x} {f.name}\n" for f in named)
