"""NumPy's notation of einsum as OCANNL's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy


def split(text: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """The letters of operands and of the result, with one for each axis that `...` stands for."""
    if "..." in text:
        arrays = [numpy.broadcast_to(0, shape) for shape in shapes]
        left, right, _ = numpy._core.einsumfunc._parse_einsum_input((text, *arrays))  # pyright: ignore
        return left.split(","), right
    left, arrow, right = text.replace(" ", "").partition("->")
    once = "".join(c for c in sorted({*left} - {","}) if left.count(c) == 1)
    return left.split(","), right if arrow else once


def ones(slots: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """The axes of each operand that NumPy broadcasts: a name is one size in a spec, so they are left out."""
    if [len(slot) for slot in slots] != [len(shape) for shape in shapes]:
        return [[] for _ in shapes]
    most: dict[str, int] = {}
    for slot, shape in zip(slots, shapes, strict=True):
        for name, size in zip(slot, shape, strict=True):
            most[name] = size if most.get(name, 1) == 1 else most[name]
    return [
        [k for k, name in enumerate(slot) if shape[k] == 1 != most[name]]
        for slot, shape in zip(slots, shapes, strict=True)
    ]


def without(slot: str, left_out: Sequence[int]) -> str:
    return "".join(name for k, name in enumerate(slot) if k not in left_out)
