"""Transposition of a square register tile."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.lowering.loops_to_llvm.builder import FunctionBuilder
from ocannl.lowering.loops_to_llvm.types import ValueType


def transpose(b: FunctionBuilder, rows: Sequence[str], type: ValueType) -> list[str]:
    """The columns of a square of vectors: blocks of 1, 2, 4, ... change places across the diagonal."""
    tile, size = list(rows), type.width
    assert len(tile) == size
    block = 1
    while block < size:
        low = [lane if not lane & block else size + lane - block for lane in range(size)]
        high = [lane + block if not lane & block else size + lane for lane in range(size)]
        for row in range(size):
            if not row & block:
                pair = tile[row], tile[row + block]
                tile[row], tile[row + block] = _shuffle(b, *pair, low, type), _shuffle(b, *pair, high, type)
        block *= 2
    return tile


def _shuffle(b: FunctionBuilder, x: str, y: str, lanes: Sequence[int], type: ValueType) -> str:
    indices = ", ".join([f"i32 {lane}" for lane in lanes])
    return b.emit(f"shufflevector {type.text} {x}, {type.text} {y}, <{len(lanes)} x i32> <{indices}>")
