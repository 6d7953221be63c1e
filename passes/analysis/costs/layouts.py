"""The layouts of accesses along the lanes of a tile."""

from __future__ import annotations

from enum import Enum, auto

from ocannl.dialects.loops import ReduceOp, StoreOp
from ocannl.passes.analysis.schedules.nest_facts import Access
from ocannl.passes.analysis.schedules.store_groups import stores_side_by_side
from ocannl.passes.analysis.targets.target import INTERLEAVED, SPACED


class Layout(Enum):
    """The layout of an access along the lanes.

    `TRANSPOSED`: contiguous along the rows of a square tile, which is transposed in registers. `INTERLEAVED`:
    the tile is one block of memory with the elements of its rows interleaved. `REVERSED`: contiguous from the
    end on. `SPACED`: so few elements apart that those between are loaded with them, or other stores fill the
    gaps. `STRIDED`: anything else, moved element by element.
    """

    UNIFORM = auto()
    CONTIGUOUS = auto()
    TRANSPOSED = auto()
    INTERLEAVED = auto()
    REVERSED = auto()
    SPACED = auto()
    STRIDED = auto()


def is_spaced(access: Access, stride: int) -> bool:
    """Whether an access that takes such steps along the lanes loads what is between, or other stores fill the
    gaps. What a sum reads counts as moved: rows of a tile share it.
    """
    if access.scattered or isinstance(access.op.parent_op(), ReduceOp):
        return False
    if isinstance(access.op, StoreOp):
        return stride == len(stores_side_by_side(access.op)) <= INTERLEAVED
    return abs(stride) <= SPACED
