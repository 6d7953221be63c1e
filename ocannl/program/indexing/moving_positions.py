"""Positions that change each time in eager mode, such as those of batches: these are ids, and ids are
data, so that no program depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ocannl.program.code import is_recording
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.eager.setting import is_eager
from ocannl.program.values import Value

MOST_WRITTEN = 2
"""Positions of one kind that are part of the program; further ones are ids."""


Ids: TypeAlias = NDArray[np.int64]


def moving(value: Value, items: Sequence[object], sizes: Sequence[int | None]) -> dict[int, Ids]:
    """The positions of those integers and slices of a key that change each time, by their place in it;
    `sizes` are those of their axes, None for other items and where it is not known.
    """
    if not is_eager() or is_recording():
        return {}
    if not all(item is None or isinstance(item, int | slice | EllipsisType) for item in items):
        return {}
    found: dict[int, Ids] = {}
    kinds = tuple([item if item is None or item is ... else type(item) for item in items])
    for number, (item, size) in enumerate(zip(items, sizes, strict=True)):
        positions = _positions(item, size)
        if positions is None:
            continue
        first, *others = positions
        step = others[0] - first if others else 1
        seen = RECORDER.positions.setdefault((value, kinds, number, len(positions), step, type(item)), set())
        if first not in seen and len(seen) < MOST_WRITTEN:
            seen.add(first)
        if first not in seen:
            found[number] = np.array(first if isinstance(item, int) else positions, np.int64)
    return found


def _positions(item: Any, size: int | None) -> range | None:
    """The positions of an integer or a slice; None for others, and a slice that is empty or whole."""
    if size is None:
        return None
    if isinstance(item, int):
        at = item + size if item < 0 else item
        return range(at, at + 1) if 0 <= at < size else None
    if not isinstance(item, slice):
        return None
    try:
        span = range(*item.indices(size))
    except (TypeError, ValueError):
        return None
    return span if len(span) and span != range(size) else None
