"""Equal layers: which nodes of a routine stand for each other, layer by layer.

Of many equal layers a few are enough to compile: `fold-layers` leaves the others out, and `unfold-layers`
adds them again.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from ocannl.dialects.routine import RoutineOp

# The attribute of a routine whose layers are folded.
ATTRIBUTE = "layers"
# So many layers stay at each end: what one does to the next is seen there, and inside.
ENDS = 2
# The numbers, among those that stay, of the last layer before those left out and of the first one after them.
LAST, FIRST = ENDS - 1, ENDS


@dataclass(frozen=True)
class Layers:
    """The labels of nodes that stand for each other, layer by layer: empty where a layer has none."""

    rows: tuple[tuple[str, ...], ...]

    @property
    def left_out(self) -> int:
        """How many layers, inside, are not in the routine."""
        return len(self.rows[0]) - 2 * ENDS

    def levels(self) -> dict[str, int]:
        """The layer of each label in the routine, where those left out do not count."""
        kept = (*range(ENDS), *range(-ENDS, 0))
        return {row[at]: level for row in self.rows for level, at in enumerate(kept) if row[at]}

    def attribute(self) -> Attribute:
        return ArrayAttr(ArrayAttr(map(StringAttr, row)) for row in self.rows)


def folded_layers(routine: RoutineOp) -> Layers | None:
    """The layers that are left out of a routine, if any are."""
    found = routine.attributes.get(ATTRIBUTE)
    if not isa(found, ArrayAttr[ArrayAttr[StringAttr]]):
        return None
    return Layers(tuple(tuple(label.data for label in row) for row in found))
