"""The line table of an object file: which line of which file each instruction is for.

Source: "DWARF Debugging Information Format, version 4", section 6.2.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

from ocannl.dialects.records import dataclass
from ocannl.runtime.host.elf import ObjectFile

TABLE = ".debug_line"
VERSION = 4
# Opcodes, standard ones and extended ones after a 0, of which the others have operands that are skipped.
COPY, ADVANCE_PLACE, ADVANCE_LINE, SET_FILE, CONSTANT_ADVANCE, FIXED_ADVANCE = 1, 2, 3, 4, 8, 9
END, SET_PLACE = 1, 2


class Row(NamedTuple):
    """From a place in a section on, instructions are for a line of a file; for none, where it is 0."""

    section: int
    offset: int
    file: str
    line: int


def line_rows(object: ObjectFile) -> list[Row]:
    """The rows of the table, in its order. Raises `ValueError` for a table of another version of DWARF."""
    contents, rows, at = object.section(TABLE), list[Row](), 0
    pointers = object.pointers(TABLE)
    while at < len(contents):
        end = at + 4 + int.from_bytes(contents[at : at + 4], "little")
        rows += _Reader(contents, at + 4, pointers).rows(end)
        at = end
    return rows


@dataclass
class _Reader:
    contents: bytes
    at: int
    pointers: dict[int, tuple[int, int]]

    def rows(self, end: int) -> list[Row]:
        """Reads the header and the program of a unit."""
        if (version := self.number(2)) != VERSION:
            raise ValueError(f"a line table of DWARF {version}, and not {VERSION}")
        program = self.number(4) + self.at
        step, _, _ = self.number(1), self.number(1), self.number(1)
        base, range, opcodes = self.number(1, signed=True), self.number(1), self.number(1)
        operands = [self.number(1) for _ in [None] * (opcodes - 1)]
        files = self.files()
        self.at, found = program, list[Row]()
        (section, place), file, line = (0, 0), 1, 1
        while self.at < end:
            opcode = self.number(1)
            if opcode >= opcodes:
                place += step * ((opcode - opcodes) // range)
                line += base + (opcode - opcodes) % range
                found.append(Row(section, place, files[file - 1], line))
            elif opcode == 0:
                size = self.variable()
                after, kind = self.at + size, self.number(1)
                if kind == SET_PLACE:
                    section, place = self.pointers[self.at]
                elif kind == END:
                    found.append(Row(section, place, files[file - 1], 0))
                    (section, place), file, line = (0, 0), 1, 1
                self.at = after
            elif opcode == COPY:
                found.append(Row(section, place, files[file - 1], line))
            elif opcode == ADVANCE_PLACE:
                place += step * self.variable()
            elif opcode == ADVANCE_LINE:
                line += self.variable(signed=True)
            elif opcode == SET_FILE:
                file = self.variable()
            elif opcode == CONSTANT_ADVANCE:
                place += step * ((255 - opcodes) // range)
            elif opcode == FIXED_ADVANCE:
                place += self.number(2)
            else:
                for _ in [None] * operands[opcode - 1]:
                    self.variable()
        return found

    def files(self) -> list[str]:
        """The paths of the files, which are counted from 1."""
        folders, found = [""], list[str]()
        while text := self.text():
            folders.append(text)
        while text := self.text():
            folder, _, _ = self.variable(), self.variable(), self.variable()
            found.append(str(PurePosixPath(folders[folder]) / text))
        return found

    def number(self, size: int, *, signed: bool = False) -> int:
        self.at += size
        return int.from_bytes(self.contents[self.at - size : self.at], "little", signed=signed)

    def variable(self, *, signed: bool = False) -> int:
        """A number of variable length, seven bits a byte (LEB128)."""
        found = shift = 0
        while True:
            byte = self.number(1)
            found |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return found - (1 << shift) if signed and byte & 0x40 else found

    def text(self) -> str:
        end = self.contents.index(b"\0", self.at)
        text, self.at = self.contents[self.at : end].decode(), end + 1
        return text
