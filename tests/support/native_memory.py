"""How much memory `malloc` of the GNU C library has given out, which Python's own counts leave out."""

from __future__ import annotations

import ctypes
import gc

import pytest

FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS.split()]


def in_use() -> int:
    """Bytes, after a collection. Skips a test where the C library does not tell."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        pytest.skip("only the GNU C library of 2.33 and later has mallinfo2")
    gc.collect()
    library.mallinfo2.restype = _Mallinfo
    found = library.mallinfo2()
    return found.uordblks + found.hblkhd
