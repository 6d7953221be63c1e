"""Loads and stores of a register tile."""

from __future__ import annotations

from collections.abc import Mapping

from ocannl.dialects.addresses import Address
from ocannl.lowering.loops_to_llvm.builder import FunctionBuilder, Position
from ocannl.lowering.loops_to_llvm.tile import Lanes
from ocannl.lowering.loops_to_llvm.types import ValueType, vector


class ElementAccess:
    """The places of a tile in a node: `pointer + constant` is that of its first element."""

    def __init__(
        self,
        b: FunctionBuilder,
        pointer: str,
        address: Address,
        positions: Mapping[str, Position],
        type: ValueType,
    ) -> None:
        self.b = b
        self.type = type
        self.pointer, self.constant, self.depth = pointer, address.constant, 0
        moving: list[tuple[int, str, int]] = []
        for variable, coefficient in address.terms:
            at = positions[variable]
            self.constant += coefficient * at.offset
            if at.name is not None:
                moving.append((at.depth, at.name, coefficient))
        # Outer loops first, so that the inner ones advance a pointer that the outer ones computed.
        for self.depth, name, coefficient in sorted(moving):
            self.pointer = b.advance(self.depth, self.pointer, name, coefficient, type)

    def at(self, offset: int) -> str:
        """The pointer to the element `offset` elements after the tile's first."""
        offset += self.constant
        if not offset:
            return self.pointer
        return self.b.emit(f"getelementptr {self.type.element}, ptr {self.pointer}, i64 {offset}")

    def load(self, offset: int) -> str:
        return self.b.emit(f"load {self.type.element}, ptr {self.at(offset)}, align {self.type.bytes}")

    def load_vector(self, offset: int, stride: int, lanes: Lanes) -> str:
        """The elements at `offset`, `offset + stride`, ...; zero in inactive lanes."""
        wide = vector(self.type, lanes.width)
        if stride != 1:
            return self._gather(offset, stride, lanes, wide)
        pointer, align = self.at(offset), self.type.bytes
        if not lanes.masked:
            return self.b.emit(f"load {wide.text}, ptr {pointer}, align {align}")
        mask = f"<{lanes.width} x i1>"
        self.b.declarations.add(
            f"declare {wide.text} @llvm.masked.load.{wide.mangled}.p0(ptr, i32, {mask}, {wide.text})"
        )
        return self.b.emit(
            f"call {wide.text} @llvm.masked.load.{wide.mangled}.p0(ptr {pointer}, i32 {align},"
            f" {mask} {lanes.mask}, {wide.text} zeroinitializer)"
        )

    def _gather(self, offset: int, stride: int, lanes: Lanes, wide: ValueType) -> str:
        value = "zeroinitializer"
        for lane in range(lanes.active):
            element = self.load(offset + lane * stride)
            value = self.b.emit(
                f"insertelement {wide.text} {value}, {self.type.element} {element}, i64 {lane}"
            )
        return value

    def store(self, value: str, offset: int) -> None:
        self.b.emit_void(f"store {self.type.element} {value}, ptr {self.at(offset)}, align {self.type.bytes}")

    def store_vector(self, value: str, offset: int, stride: int, lanes: Lanes) -> None:
        """Stores the active lanes; with a stride of zero the last of them."""
        wide = vector(self.type, lanes.width)
        if stride != 1:
            self._scatter(value, offset, stride, lanes, wide)
            return
        pointer, align = self.at(offset), self.type.bytes
        if not lanes.masked:
            self.b.emit_void(f"store {wide.text} {value}, ptr {pointer}, align {align}")
            return
        mask = f"<{lanes.width} x i1>"
        self.b.declarations.add(
            f"declare void @llvm.masked.store.{wide.mangled}.p0({wide.text}, ptr, i32, {mask})"
        )
        self.b.emit_void(
            f"call void @llvm.masked.store.{wide.mangled}.p0({wide.text} {value}, ptr {pointer},"
            f" i32 {align}, {mask} {lanes.mask})"
        )

    def _scatter(self, value: str, offset: int, stride: int, lanes: Lanes, wide: ValueType) -> None:
        for lane in range(lanes.active) if stride else (lanes.active - 1,):
            element = self.b.emit(f"extractelement {wide.text} {value}, i64 {lane}")
            self.store(element, offset + lane * stride)
