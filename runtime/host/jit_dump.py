"""The file by which Linux' `perf inject --jit` knows code that was compiled while it ran, and its lines.

Source: tools/perf/Documentation/jitdump-specification.txt of Linux.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable
from functools import cache

from ocannl.runtime.host.elf import Function, ObjectFile
from ocannl.runtime.host.line_table import Row, line_rows
from ocannl.runtime.systems.linux import jit_dump
from ocannl.runtime.systems.table import LINUX, system

MAGIC, VERSION = 0x4A695444, 1
HEADER = struct.Struct("<6I2Q")
RECORD, LOAD, LINES, LINE = (struct.Struct(text) for text in ("<2IQ", "<2I4Q", "<2Q", "<Q2i"))
LOADED, HAS_LINES = 0, 2
_writing = threading.Lock()


class JitDump:
    """The file of this process. It is mapped so that `perf record` notes where it is."""

    def __init__(self, machine: int) -> None:
        handle = os.open(jit_dump(), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        self._file = os.fdopen(handle, "wb", 0)
        self._file.write(HEADER.pack(MAGIC, VERSION, HEADER.size, machine, 0, os.getpid(), _now(), 0))
        self._marker = mmap.mmap(handle, HEADER.size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        self._count = 0

    def add(self, function: Function, start: int, rows: list[Row]) -> None:
        """Writes a function that was loaded at an address, and before it its lines."""
        with _writing:
            if rows:
                # Perf takes the last row for the end of the code.
                rows = [*rows, rows[-1]._replace(offset=function.offset + function.size)]
                places = [
                    LINE.pack(start + row.offset - function.offset, row.line, 0) + row.file.encode() + b"\0"
                    for row in rows
                ]
                self._record(HAS_LINES, LINES.pack(start, len(rows)) + b"".join(places))
            code = ctypes.string_at(start, function.size)
            ids = os.getpid(), threading.get_native_id(), start, start, function.size, self._count
            self._record(LOADED, LOAD.pack(*ids) + function.name.encode() + b"\0" + code)
            self._count += 1

    def _record(self, kind: int, contents: bytes) -> None:
        self._file.write(RECORD.pack(kind, RECORD.size + len(contents), _now()) + contents)


@cache
def _dump_of(pid: int, machine: int) -> JitDump:
    return JitDump(machine)


def add_to_dump(object_code: bytes, address: Callable[[str], int]) -> None:
    """Adds the functions of an object file that was loaded, on Linux; `address` is that of a global one.
    Those in sections without a global one, of what is rarely called, are left out. There is no file where its
    folder holds nothing that may be executed, as perf asks.
    """
    if system() is not LINUX or os.statvfs(jit_dump().parent).f_flag & os.ST_NOEXEC:
        return
    object = ObjectFile(object_code)
    found, rows = object.functions(), line_rows(object)
    starts = {one.section: address(one.name) - one.offset for one in found if one.is_global}
    for function in found:
        if function.section in starts and function.size:
            own = [row for row in rows if row.line and is_in(row, function)]
            dump = _dump_of(os.getpid(), object.machine)
            dump.add(function, starts[function.section] + function.offset, own)


def is_in(row: Row, function: Function) -> bool:
    """Whether the instruction of a row is in a function."""
    return row.section == function.section and 0 <= row.offset - function.offset < function.size


def _now() -> int:
    """The clock that `perf record -k mono` notes samples by."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
