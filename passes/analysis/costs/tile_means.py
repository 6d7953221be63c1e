"""Means over the tiles of a loop, of which the last may be smaller."""

from __future__ import annotations

import math
from collections.abc import Callable


def mean_of_tiles(count: Callable[[int], float], size: int, width: int) -> float:
    """The mean of a count in tiles of `width`, with that of the remainder."""
    whole, remainder = divmod(max(1, size), width)
    of_remainder = count(remainder) if remainder else 0
    return (whole * count(width) + of_remainder) / (whole + bool(remainder))


def whole_tiles(size: int, width: int) -> float:
    """The part of the tiles of `width` that are whole."""
    return size // width / max(1, math.ceil(size / width))


def mean_extent(size: int, extent: int) -> float:
    """The mean number of points in tiles of `extent`, with that of the remainder."""
    return size / math.ceil(size / extent) if size else 1.0
