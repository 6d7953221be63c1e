"""Invalid accesses and races that an emulated GPU has found, in the memory of the compiled code."""

from __future__ import annotations

import ctypes

from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.records import dataclass
from ocannl.lowering.kernels_to_llvm.checks import WRONGS
from ocannl.lowering.llvm.range_check import NO_THREAD, VIOLATION_FIELDS


@dataclass(frozen=True)
class Violation:
    """The record at an address: the text, kind, block, thread and element of the first violation."""

    address: int

    def raise_first(self) -> None:
        """Raises `DeviceError` for the violation that is recorded, if there is one, and forgets it."""
        record = (ctypes.c_int64 * VIOLATION_FIELDS).from_address(self.address)
        text, kind, block, thread, element = record
        if not text:
            return
        record[0] = 0
        array = ctypes.string_at(text).decode()
        who = "an access" if thread == NO_THREAD else f"thread {thread} of block {block}"
        raise DeviceError(f"{array}: {who} {WRONGS[kind]} element {element}")
