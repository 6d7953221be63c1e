"""Equal layers of a routine: nodes that correspond to each other, layer by layer.

Of many equal layers a few are enough to compile: `fold-layers` leaves the others out, and `unfold-layers`
adds them again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import TypeAlias

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import RoutineOp
from ocannl.passes.analysis.names import JOINED

# The attribute of a routine whose layers are folded.
ATTRIBUTE = "layers"
# The attribute of a routine that has all of its equal layers.
ALL_LAYERS = "all_layers"
# The layers that stay at each end, so that the transition between equal layers is compiled too.
ENDS = 2
# The numbers, among those that stay, of the last layer before those left out and of the first one after them.
LAST, FIRST = ENDS - 1, ENDS
# The row of a label, its layer in the routine, and the suffix that passes have added to it.
LabelSource: TypeAlias = tuple[Sequence[str], int, str]


@dataclass(frozen=True)
class Layers:
    """The labels of corresponding nodes, a row for each with one label a layer: empty
    where a layer has none.
    """

    rows: tuple[tuple[str, ...], ...]
    origins: dict[str, list[LabelSource]] = field(default_factory=dict[str, list[LabelSource]], repr=False)
    """The sources of labels, as far as they were asked for."""

    @property
    def left_out(self) -> int:
        """The number of layers that are not in the routine, between those at the ends."""
        return len(self.rows[0]) - 2 * ENDS

    def at(self, label: str, distance: int) -> str | None:
        """The label `distance` layers after that of `label`, with the suffixes that passes have added to it.

        The first layer after those left out counts as the next one. None for a label of no layer.
        """
        if label not in self.origins:
            self.origins[label] = [self.origin(part) for part in label.split(JOINED)]
        found: list[str] = []
        for row, level, added in self.origins[label]:
            if level + distance >= len(row) or not row[level + distance]:
                return None
            found.append(row[level + distance] + added)
        return JOINED.join(found)

    def origin(self, label: str) -> LabelSource:
        """The row of a label, its layer in the routine, and the suffix that passes have added to it."""
        stem = next((stem for stem in stems(label) if stem in self.places), "")
        row, level = self.places.get(stem, ((), 0))
        return row, level, label[len(stem) :]

    def number(self, label: str) -> int | None:
        """The layer of a label, counting those left out; None for a label of no layer."""
        return next((self.numbers[stem] for stem in stems(label) if stem in self.numbers), None)

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {label: number for row in self.rows for number, label in enumerate(row) if label}

    def level(self, label: str) -> int | None:
        """The layer of a label in the routine, not counting those left out; None for a label of no layer."""
        row, level, _ = self.origin(label)
        return level if row else None

    @cached_property
    def places(self) -> dict[str, tuple[tuple[str, ...], int]]:
        """The row and the layer in the routine of each label that stays."""
        return {
            row[at]: (row, level)
            for row in self.rows
            for level, at in enumerate((*range(ENDS), *range(-ENDS, 0)))
            if row[at]
        }

    def attribute(self) -> Attribute:
        return ArrayAttr(ArrayAttr(map(StringAttr, row)) for row in self.rows)


def folded_layers(routine: RoutineOp) -> Layers | None:
    """The layers that are left out of a routine; None if there are none. Raises `OcannlError` for a malformed
    attribute.
    """
    return layers_in(routine, ATTRIBUTE)


def equal_layers(routine: RoutineOp) -> Layers | None:
    """The equal layers of a routine, whether some are left out or not; None if there are none."""
    return layers_in(routine, ATTRIBUTE) or layers_in(routine, ALL_LAYERS)


def layers_in(routine: RoutineOp, attribute: str) -> Layers | None:
    found = routine.attributes.get(attribute)
    if found is None:
        return None
    rows = found.data if isa(found, ArrayAttr[ArrayAttr[StringAttr]]) else ()
    lengths = {len(row) for row in rows}
    if len(lengths) != 1 or min(lengths) <= 2 * ENDS:
        message = (
            f"`{attribute}` has as many labels in each row, one for each of {2 * ENDS + 1} layers or more"
        )
        raise OcannlError(at_line(routine, message))
    return Layers(tuple(tuple(label.data for label in row) for row in rows))


def stems(label: str) -> Iterator[str]:
    """A label, and its prefixes to which passes may have added suffixes, longest first; `w_1` is none of `w`,
    but memory of its own.
    """
    yield label
    for end in reversed([found.start() for found in re.finditer(r"[. ]|_(?!\d+([._ ]|$))", label)]):
        if end:
            yield label[:end]
