"""Shuffles: threads of a warp exchange values."""

from __future__ import annotations

from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.types import ValueType


def exchanged(b: FunctionBuilder, value: str, mask: int, type: ValueType) -> str:
    """The value of the thread of the warp whose number differs in the bits of a mask."""
    bits = 8 * type.bytes
    if bits == 64:
        pair = b.emit(f"bitcast {type.text} {value} to <2 x i32>")
        found = "poison"
        for k in range(2):
            half = shuffled(b, b.emit(f"extractelement <2 x i32> {pair}, i64 {k}"), mask)
            found = b.emit(f"insertelement <2 x i32> {found}, i32 {half}, i64 {k}")
        return b.emit(f"bitcast <2 x i32> {found} to {type.text}")
    number = b.emit(f"bitcast {type.text} {value} to i{bits}")
    if bits < 32:
        number = b.emit(f"zext i{bits} {number} to i32")
    number = shuffled(b, number, mask)
    if bits < 32:
        number = b.emit(f"trunc i32 {number} to i{bits}")
    return b.emit(f"bitcast i{bits} {number} to {type.text}")


def shuffled(b: FunctionBuilder, number: str, mask: int) -> str:
    """The same of an `i32`."""
    return b.emit(f"call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 {number}, i32 {mask}, i32 31)")
