"""Register tiles: their lanes, the values on them, and loops over a size in tiles."""

from __future__ import annotations

from collections.abc import Iterator

from ocannl.dialects.records import dataclass
from ocannl.lowering.llvm.types import ValueType


@dataclass(frozen=True, slots=True)
class Lanes:
    """The vector dimension of a tile: `width` is a power of two, of which the first `active` lanes count."""

    width: int = 1
    active: int = 1

    @staticmethod
    def of(count: int) -> Lanes:
        return Lanes(1 << (count - 1).bit_length(), count)

    @property
    def masked(self) -> bool:
        return self.active < self.width

    @property
    def mask(self) -> str:
        bits = ["i1 1"] * self.active + ["i1 0"] * (self.width - self.active)
        return f"<{', '.join(bits)}>"


@dataclass(frozen=True, slots=True)
class Tile:
    """A value on a register tile: one for all rows or one a row, each a scalar or a vector over the lanes.

    `type` is the type of the values; `depth` the scope that they are defined in.
    """

    rows: list[str]
    type: ValueType
    depth: int


@dataclass(frozen=True, slots=True)
class Segment:
    """`count` steps of `extent` points each, from `start`."""

    start: int
    count: int
    extent: int

    @property
    def stop(self) -> int:
        return self.start + self.count * self.extent


def strip_start(variable: str) -> str:
    """The name of the position at which the strip of a loop starts."""
    return f"strip of {variable}"


def segments(size: int, extent: int) -> Iterator[Segment]:
    """Splits `size` points into steps of `extent`, and one smaller step for the remainder."""
    whole, remainder = divmod(size, extent)
    if whole:
        yield Segment(0, whole, extent)
    if remainder:
        yield Segment(whole * extent, 1, remainder)
