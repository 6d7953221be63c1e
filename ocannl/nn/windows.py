"""Windows over the spatial axes of images, in the notation of einsum specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ocannl.program.checks import integer
from ocannl.program.errors import ArgumentError

Sizes: TypeAlias = int | Sequence[int]
"""One number for all spatial axes, or one for each."""


def sizes_of(what: str, sizes: Sizes, rank: int) -> list[int]:
    """One number for each of `rank` axes; `what` names them in a message.

    Raises `ArgumentError` for another number of axes, a size less than 1, and what is no integer.
    """
    given = list(sizes) if isinstance(sizes, list | tuple) else [sizes] * rank
    if len(given) != rank:
        raise ArgumentError(f"{what} is a number, or one for each of {rank} axes, found {sizes}")
    return [integer(size, what, 1) for size in given]


def listed(prefix: str, axes: str) -> str:
    """An axis for each letter: `oh, ow`."""
    return ", ".join(prefix + axis for axis in axes)


def windows(axes: str, stride: Sequence[int], dilation: Sequence[int]) -> str:
    """A window `k` at each position `o` of each axis: `2*oh + kh, 2*ow + kw`."""
    steps = zip(axes, stride, dilation, strict=True)
    return ", ".join(f"{_times(s)}o{axis} + {_times(d)}k{axis}" for axis, s, d in steps)


def _times(coefficient: int) -> str:
    return "" if coefficient == 1 else f"{coefficient}*"


def window_sizes(axes: str, sizes: Sequence[int]) -> dict[str, int]:
    """The sizes of the windows, by their names in a spec."""
    return {f"k{axis}": size for axis, size in zip(axes, sizes, strict=True)}
