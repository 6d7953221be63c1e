"""Divisors of sizes, for loops that are cut in equal parts."""

from __future__ import annotations

import math

FAR = 10_000
"""A divisor is looked for among so many numbers."""


def divisors(size: int, most: int) -> list[int]:
    """The divisors that are at most so much, in ascending order."""
    small = [d for d in range(1, min(math.isqrt(size), most) + 1) if size % d == 0]
    return sorted({*small, *(size // d for d in small if size // d <= most)})


def largest_divisor(size: int, most: int) -> int:
    """The largest divisor that is at most so much."""
    return next(part for part in range(min(size, most), 0, -1) if size % part == 0)


def divisors_beside(size: int, number: int) -> tuple[int, int | None]:
    """The divisors of a size that are next to a number: below, and above if there is one not far off."""
    above = range(number + 1, min(size, number + FAR) + 1)
    return largest_divisor(size, number - 1), next((d for d in above if size % d == 0), None)
