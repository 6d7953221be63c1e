"""Messages about arrays that have another shape than the memory they are for."""

from __future__ import annotations

from itertools import permutations
from math import prod

MOST_AXES = 6
"""Of more axes, their orders are too many to be tried."""


def other_shape(name: str, wanted: tuple[int, ...], found: tuple[int, ...]) -> str:
    """The lines below the message that names both shapes: the axes that differ, and the way out."""
    if turned := _turned(wanted, found):
        return f"\n  hint: arrays have batch, output, input axes, in this order: give {turned}"
    counts = f"{_axes(len(wanted))} in {name}, {_axes(len(found))} in the array"
    lines = [counts] if len(wanted) != len(found) else [_differing(name, wanted, found)]
    if prod(wanted) == prod(found):
        lines.append(f"hint: the numbers of elements are equal: array.reshape({wanted})")
    return "".join(f"\n  {line}" for line in lines)


def _turned(wanted: tuple[int, ...], found: tuple[int, ...]) -> str | None:
    """The array with its axes in the order of the memory, where sizes tell that order."""
    if len(wanted) != len(found) or len(found) > MOST_AXES:
        return None
    orders = [p for p in permutations(range(len(found))) if tuple(found[k] for k in p) == wanted]
    if len(orders) != 1:
        return None
    return "array.T" if orders[0] == tuple(reversed(range(len(found)))) else f"array.transpose{orders[0]}"


def _differing(name: str, wanted: tuple[int, ...], found: tuple[int, ...]) -> str:
    pairs = enumerate(zip(wanted, found, strict=True))
    return "; ".join(f"axis {k}: {a} in {name}, {b} in the array" for k, (a, b) in pairs if a != b)


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count or 'no'} axes"
