"""Index expressions in LLVM text."""

from __future__ import annotations

from collections.abc import Mapping

from ocannl.dialects.index.addresses import Address
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.types import ValueType


def linear_value(
    b: FunctionBuilder, address: Address, positions: Mapping[str, Position]
) -> tuple[str, int, int]:
    """The value of a linear expression as a sum of an `i64` and a constant, and the scope of the former."""
    total, constant, depth = "0", address.constant, 0
    for at, coefficient in sorted(
        ((positions[variable], coefficient) for variable, coefficient in address.terms),
        key=lambda term: term[0].depth,
    ):
        constant += coefficient * at.offset
        if at.name is not None:
            depth = at.depth
            scaled = at.name if coefficient == 1 else b.emit_at(depth, f"mul i64 {at.name}, {coefficient}")
            total = scaled if total == "0" else b.emit_at(depth, f"add i64 {total}, {scaled}")
    return total, constant, depth


def from_index(b: FunctionBuilder, number: str, type: ValueType, result: ValueType) -> str:
    """An index, of 32 or 64 bits, as a number of another type."""
    if result.is_float:
        return b.emit(f"sitofp {type.text} {number} to {result.text}")
    if result.bytes == type.bytes:
        return number
    return b.emit(f"{'trunc' if result.bytes < type.bytes else 'sext'} {type.text} {number} to {result.text}")
