"""The map by which Linux' `perf` names functions of code that was compiled while the process runs.

Source: tools/perf/Documentation/jit-interface.txt of Linux; "System V ABI", chapters 4 (ELF, its symbols).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ocannl.runtime.systems.linux import perf_map
from ocannl.runtime.systems.table import LINUX, system

SECTION = np.dtype(
    [
        *(("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8")),
        *(("size", "<u8"), ("link", "<u4"), ("info", "<u4"), ("alignment", "<u8"), ("entry", "<u8")),
    ]
)
SYMBOL = np.dtype(
    [
        *(("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2")),
        *(("value", "<u8"), ("size", "<u8")),
    ]
)
SECTIONS_AT, SECTION_COUNT_AT = 0x28, 0x3C
SYMBOL_TABLE, FUNCTION, GLOBAL = 2, 2, 1


class Function(NamedTuple):
    """A function in an object file: its section, and its place there in bytes."""

    name: str
    section: int
    offset: int
    size: int
    is_global: bool


def functions(object_code: bytes) -> list[Function]:
    """The functions of a 64-bit ELF object file of little-endian code."""
    start = int.from_bytes(object_code[SECTIONS_AT : SECTIONS_AT + 8], "little")
    count = int.from_bytes(object_code[SECTION_COUNT_AT : SECTION_COUNT_AT + 2], "little")
    sections = np.frombuffer(object_code, SECTION, count, start)
    (table,) = sections[sections["type"] == SYMBOL_TABLE]
    names = int(sections[int(table["link"])]["offset"])
    symbols = np.frombuffer(object_code, SYMBOL, int(table["size"]) // SYMBOL.itemsize, int(table["offset"]))
    found: list[Function] = []
    for name, info, _, section, value, size in symbols.tolist():
        if info & 15 == FUNCTION and section:
            text = object_code[names + name : object_code.index(b"\0", names + name)].decode()
            found.append(Function(text, section, value, size, info >> 4 == GLOBAL))
    return found


def add_to_map(object_code: bytes, address: Callable[[str], int]) -> None:
    """Adds the functions of an object file that was loaded, on Linux; `address` is that of a global one.
    Those in sections without a global one, of what is rarely called, stay without a name.
    """
    if system() is not LINUX:
        return
    found = functions(object_code)
    starts = {one.section: address(one.name) - one.offset for one in found if one.is_global}
    named = [one for one in found if one.section in starts]
    # Everybody may write to this folder: a link in the file's place is not followed.
    handle = os.open(perf_map(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    with open(handle, "a", encoding="utf-8") as file:
        file.writelines(f"{starts[f.section] + f.offset:x} {f.size:x} {f.name}\n" for f in named)
