"""Loads and stores of elements, and of vectors of neighbours, of an array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.records import dataclass
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.types import ValueType, vector


@dataclass(frozen=True, slots=True)
class Found:
    """A position that is found at run time, an `i64`, in the scope `depth`."""

    value: str
    depth: int


class Layout(Protocol):
    """Where elements lie in memory, in place of row-major order."""

    def place(self, b: FunctionBuilder, total: str, depth: int, constant: int) -> tuple[str, int]:
        """The position, as a sum of an `i64` and a number, of the element at `total + constant` in order."""
        ...


class ElementAccess:
    """Loads and stores around an element of an array, the one at `pointer + constant`.

    `found` gives the terms of the address that are positions found at run time. With a `layout`, elements lie
    as it says.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        pointer: str,
        address: Address,
        positions: Mapping[str, Position],
        type: ValueType,
        found: Mapping[str, Found],
        layout: Layout | None = None,
    ) -> None:
        self.b = b
        self.layout = layout
        self.type = type
        self.pointer, self.constant, self.depth = pointer, address.constant, 0
        moving: list[tuple[int, str, int]] = []
        for variable, coefficient in address.terms:
            if variable in found:
                moving.append((found[variable].depth, found[variable].value, coefficient))
                continue
            at = positions[variable]
            self.constant += coefficient * at.offset
            if at.name is not None:
                moving.append((at.depth, at.name, coefficient))
        self.total = "0"
        if layout is not None:
            for self.depth, name, coefficient in sorted(moving):
                scaled = b.emit_at(self.depth, f"mul i64 {name}, {coefficient}")
                self.total = b.emit_at(self.depth, f"add i64 {self.total}, {scaled}")
            return
        # Outer loops first, so that the inner ones advance a pointer that the outer ones computed.
        for self.depth, name, coefficient in sorted(moving):
            self.pointer = b.advance(self.depth, self.pointer, name, coefficient, type)

    def at(self, offset: int) -> str:
        """The pointer to the element `offset` elements after the first."""
        offset += self.constant
        pointer = self.pointer
        if self.layout is not None:
            total, offset = self.layout.place(self.b, self.total, self.depth, offset)
            if total != "0":
                pointer = self.b.advance(self.depth, pointer, total, 1, self.type)
        if not offset:
            return pointer
        return self.b.emit(f"getelementptr {self.type.element}, ptr {pointer}, i64 {offset}")

    def reach(self, offset: int, touched: int = 1) -> str:
        """The pointer through which so many elements, from that at `offset` on, are loaded or stored."""
        return self.at(offset)

    def load(self, offset: int) -> str:
        return self.b.emit(f"load {self.type.element}, ptr {self.reach(offset)}, align {self.type.bytes}")

    def store(self, value: str, offset: int) -> None:
        pointer = self.reach(offset)
        self.b.emit_void(f"store {self.type.element} {value}, ptr {pointer}, align {self.type.bytes}")

    def load_whole(self, width: int, offset: int = 0) -> str:
        """Loads `width` neighbours as one aligned vector, or a single one as a scalar."""
        if width == 1:
            return self.load(offset)
        type = vector(self.type, width)
        pointer = self.reach(offset, width)
        return self.b.emit(f"load {type.text}, ptr {pointer}, align {type.bytes * width}")

    def store_whole(self, value: str, width: int, offset: int = 0) -> None:
        """Stores what `load_whole` loads."""
        if width == 1:
            self.store(value, offset)
            return
        type = vector(self.type, width)
        pointer = self.reach(offset, width)
        self.b.emit_void(f"store {type.text} {value}, ptr {pointer}, align {type.bytes * width}")
