"""The assignments of a routine as a trace tells of them, and where their values are."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from ocannl.dialects.records import dataclass

# How assignments of values begin.
OF_VALUES = "assign.accum "
OF_LOOPS = "assign.repeat "


@dataclass(frozen=True, slots=True)
class Kept:
    """A node, and the memory in which its values are after a run, by label. What a loop computes has an axis
    for each loop in front, the outermost first; iterations that did not run are 0.
    """

    name: str
    memory: str
    loops: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name, for all iterations: `h at t`."""
        return f"{self.name} at {', '.join(self.loops)}" if self.loops else self.name


@dataclass(frozen=True, slots=True)
class Assignment:
    """One assignment of a routine: what it writes and reads, its text, and the user's line. `order` is its
    place in the routine; in a loop, that of the loop, and the place in there.
    """

    written: Kept
    read: tuple[Kept, ...]
    text: str
    place: str | None
    order: tuple[int, ...]

    @property
    def label(self) -> str:
        return self.written.label

    @property
    def operands(self) -> tuple[str, ...]:
        return tuple([kept.label for kept in self.read])

    @property
    def is_loop(self) -> bool:
        return self.text.startswith(OF_LOOPS)

    @property
    def shown(self) -> str:
        """The text without what only the compiler needs."""
        return self.text.partition(" ")[2].replace("%", "") if self.text.startswith(OF_VALUES) else self.text

    def time(self, iterations: tuple[int, ...]) -> tuple[float, ...]:
        """When it is computed in an iteration of each of its loops: what comes before is less. A loop is
        computed after all of its iterations.
        """
        pairs = zip(self.order, (*iterations, inf if self.is_loop else 0), strict=True)
        return tuple([number for pair in pairs for number in pair])

    def moved(self, order: int, memory: dict[str, str]) -> Assignment:
        """As part of a loop at a place in another routine, where memory has other labels."""
        read = tuple([replace(kept, memory=memory[kept.memory]) for kept in self.read])
        written = replace(self.written, memory=memory[self.written.memory])
        return replace(self, written=written, read=read, order=(order, *self.order))
