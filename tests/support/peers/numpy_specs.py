"""NumPy's notation of einsum as OCANNL's."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy


def parsed(*operands: Any) -> tuple[str, str, list[Any]]:
    """The letters of operands and of the result, and the operands."""
    # NumPy has no public reader of its notation, and NumPy is what these tests adapt.
    return numpy._core.einsumfunc._parse_einsum_input(operands)  # pyright: ignore


def split(text: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """The letters of operands and of the result, with one for each axis that `...` stands for."""
    if "..." in text:
        left, right, _ = parsed(text, *(numpy.broadcast_to(0, shape) for shape in shapes))
        return left.split(","), right
    left, arrow, right = text.replace(" ", "").partition("->")
    once = "".join(c for c in sorted({*left} - {","}) if left.count(c) == 1)
    return left.split(","), right if arrow else once


def without_ones(slots: Sequence[str], operands: Sequence[Any]) -> tuple[list[str], list[Any]]:
    """Without the axes of operands that NumPy broadcasts: a name is one size in a spec."""
    if [len(slot) for slot in slots] != [x.ndim for x in operands]:
        return [*slots], [*operands]
    pairs = [[*zip(slot, x.shape, strict=True)] for slot, x in zip(slots, operands, strict=True)]
    most: dict[str, int] = {}
    for name, size in itertools.chain.from_iterable(pairs):
        most[name] = size if most.get(name, 1) == 1 else most[name]
    kept = [[size != 1 or most[name] == 1 for name, size in pair] for pair in pairs]
    return (
        ["".join(itertools.compress(slot, keep)) for slot, keep in zip(slots, kept, strict=True)],
        [
            x if all(keep) else x[tuple(slice(None) if k else 0 for k in keep)]
            for x, keep in zip(operands, kept, strict=True)
        ],
    )
