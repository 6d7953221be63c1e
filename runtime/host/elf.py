"""64-bit ELF object files of little-endian code: their sections, functions and relocations.

Source: "System V ABI", chapters 4 and 5.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.records import dataclass

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
RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
MACHINE_AT, SECTIONS_AT, SECTION_COUNT_AT, NAMES_AT = 0x12, 0x28, 0x3C, 0x3E
SYMBOL_TABLE, FUNCTION, GLOBAL = 2, 2, 1


class Function(NamedTuple):
    """A function in an object file: its section, and its place there in bytes."""

    name: str
    section: int
    offset: int
    size: int
    is_global: bool


@dataclass(frozen=True)
class ObjectFile:
    """An object file by its bytes."""

    contents: bytes

    @property
    def machine(self) -> int:
        """The number of the kind of processor that it is for."""
        return self._number(MACHINE_AT, 2)

    @cached_property
    def sections(self) -> NDArray[Any]:
        start, count = self._number(SECTIONS_AT, 8), self._number(SECTION_COUNT_AT, 2)
        return np.frombuffer(self.contents, SECTION, count, start)

    @cached_property
    def symbols(self) -> NDArray[Any]:
        return self._rows(self._symbol_table, SYMBOL)

    def functions(self) -> list[Function]:
        names, found = self.sections[int(self._symbol_table["link"])], list[Function]()
        for name, info, _, section, value, size in self.symbols.tolist():
            if info & 15 == FUNCTION and section:
                text = self._text(int(names["offset"]) + name)
                found.append(Function(text, section, value, size, info >> 4 == GLOBAL))
        return found

    def section(self, name: str) -> bytes:
        """The bytes of a section by its name; none where there is no such section."""
        found = self._section(name)
        return b"" if found is None else self._bytes(found)

    def code(self, function: Function) -> bytes:
        """The bytes of a function, before its relocations."""
        return self._bytes(self.sections[function.section])[function.offset : function.offset + function.size]

    def pointers(self, name: str) -> dict[int, tuple[int, int]]:
        """For each place in a section that a relocation fills: the section that it points into, and where."""
        found = self._section(f".rela{name}")
        if found is None:
            return {}
        pointed = dict[int, tuple[int, int]]()
        for offset, _, symbol, addend in self._rows(found, RELOCATION).tolist():
            target = self.symbols[symbol]
            pointed[offset] = int(target["section"]), int(target["value"]) + addend
        return pointed

    @cached_property
    def _symbol_table(self) -> Any:
        (table,) = self.sections[self.sections["type"] == SYMBOL_TABLE]
        return table

    def _section(self, name: str) -> Any:
        names = int(self.sections[self._number(NAMES_AT, 2)]["offset"])
        return next((one for one in self.sections if self._text(names + int(one["name"])) == name), None)

    def _rows(self, section: Any, kind: np.dtype[Any]) -> NDArray[Any]:
        count = int(section["size"]) // kind.itemsize
        return np.frombuffer(self.contents, kind, count, int(section["offset"]))

    def _bytes(self, section: Any) -> bytes:
        return self.contents[int(section["offset"]) : int(section["offset"]) + int(section["size"])]

    def _text(self, at: int) -> str:
        return self.contents[at : self.contents.index(b"\0", at)].decode()

    def _number(self, at: int, size: int) -> int:
        return int.from_bytes(self.contents[at : at + size], "little")
