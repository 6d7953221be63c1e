"""Shuffles of register tiles: transposition of squares, and interleaving of rows."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.types import ValueType


def transpose(b: FunctionBuilder, rows: Sequence[str], type: ValueType) -> list[str]:
    """Transposes a square of vectors: blocks of 1, 2, 4, ... are swapped across the diagonal."""
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


def interleave(b: FunctionBuilder, rows: Sequence[str], type: ValueType) -> list[str]:
    """The elements of all rows, lane by lane, as vectors one after the other."""
    places = [divmod(element, len(rows)) for element in range(len(rows) * type.width)]
    return gathered(b, rows, [(row, lane) for lane, row in places], type)


def deinterleave(b: FunctionBuilder, vectors: Sequence[str], type: ValueType) -> list[str]:
    """The rows of which `interleave` makes the vectors."""
    count = len(vectors)
    places = [divmod(lane * count + row, type.width) for row in range(count) for lane in range(type.width)]
    return gathered(b, vectors, places, type)


def gathered(
    b: FunctionBuilder, sources: Sequence[str], places: Sequence[tuple[int, int]], type: ValueType
) -> list[str]:
    """Vectors of elements that stand at a source and a lane: each takes from one source after the other."""
    size = type.width
    results: list[str] = []
    for start in range(0, len(places), size):
        own = places[start : start + size]
        used = sorted({source for source, _ in own})
        result = sources[used[0]]
        lanes = [lane if source == used[0] else -1 for source, lane in own]
        if len(used) == 1:
            result = _shuffle(b, result, "poison", lanes, type)
        for step in used[1:]:
            lanes = [
                size + lane if source == step else now for (source, lane), now in zip(own, lanes, strict=True)
            ]
            result = _shuffle(b, result, sources[step], lanes, type)
            lanes = [place if lane >= 0 else -1 for place, lane in enumerate(lanes)]
        results.append(result)
    return results


def _shuffle(b: FunctionBuilder, x: str, y: str, lanes: Sequence[int], type: ValueType) -> str:
    indices = ", ".join([f"i32 {lane}" if lane >= 0 else "i32 poison" for lane in lanes])
    return b.emit(f"shufflevector {type.text} {x}, {type.text} {y}, <{len(lanes)} x i32> <{indices}>")
