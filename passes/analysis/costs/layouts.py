"""The layouts of accesses along the lanes of a tile."""

from __future__ import annotations

from enum import Enum, auto


class Layout(Enum):
    """The layout of an access along the lanes.

    `TRANSPOSED`: contiguous along the rows of a square tile, which is transposed in registers. `INTERLEAVED`:
    the tile is one block of memory with the elements of its rows interleaved. `REVERSED`: contiguous from the
    end on. `STRIDED`: anything else, moved element by element.
    """

    UNIFORM = auto()
    CONTIGUOUS = auto()
    TRANSPOSED = auto()
    INTERLEAVED = auto()
    REVERSED = auto()
    STRIDED = auto()
