"""The values of a routine's static indices, which are read and set by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from ocannl.dialects.ir.errors import OcannlError
from ocannl.execute.indices.index_limits import IndexLimits, Span
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.location import here
from ocannl.program.tensor import Index
from ocannl.runtime.interface import Interface

# A name so like that of an index that the code uses is a slip, though there is an index of that name.
ALIKE = 0.75


class IndexValues:
    """The values of a routine's static indices for its next run.

    Attributes:
        slots: the places of the indices that the code uses among the routine's arguments.
        surely_valid: for each of these, the number up to which integers from 0 on need no check.
    """

    def __init__(self, routine: str, interface: Interface, arguments: memoryview) -> None:
        layout = interface.layout
        slots = enumerate(layout.indices, layout.index_slot)
        self.slots: Mapping[str, int] = {name: slot for slot, name in slots if name in interface.ranges}
        self._routine = routine
        self._ranges = interface.ranges
        self._limits = IndexLimits(self._ranges, interface.facts.limits)
        self.surely_valid = {name: self._limits.surely_valid(name) for name in self._ranges}
        self._arguments = arguments
        self._unused: dict[str, int] = {}
        """The values of indices that were set though the code does not use them."""

    @property
    def declared(self) -> tuple[Index, ...]:
        """The indices, in the order of their declaration."""
        return tuple(Index(name, size) for name, size in self._ranges.items())

    @property
    def ranged(self) -> list[Index]:
        """The indices over which loops run."""
        return [index for index in self.declared if index.range is not None]

    def get(self, name: str) -> int:
        """The value of an index; 0 where the code does not use it and nobody has set it."""
        slot = self.slots.get(name)
        return self._unused.get(name, 0) if slot is None else self._arguments[slot]

    def set(self, name: str, value: int) -> bool:
        """Sets an index. Returns whether its value has to be checked together with those of others.

        Raises `OcannlError` for a name that is not an index, and for a value that it cannot have.
        """
        if type(value) is not int:
            value = integer(value, f"index {name}", least=None)
        slot = self.slots.get(name)
        if slot is None:
            if name not in Index.names or get_close_matches(name, self.slots, cutoff=ALIKE):
                names = ", ".join(self.slots) or "none"
                raise OcannlError(
                    here(f"routine {self._routine!r} has no index `{name}`; its indices are: {names}")
                )
            self._unused[name] = value
            return False
        self._limits.check(name, value)
        self._arguments[slot] = value
        return name in self._limits.joint

    def take(self, other: IndexValues) -> None:
        """Sets the indices as they are in another routine of the same code."""
        for name, slot in self.slots.items():
            self._arguments[slot] = other.get(name)
        self._unused |= {name: value for name, value in other._unused.items() if name not in self.slots}

    def advance_unused(self, advance: Sequence[Index], runs: int) -> None:
        """Adds the number of runs to those indices which the code does not use."""
        for index in advance:
            if index.name not in self.slots:
                self._unused[index.name] = self.get(index.name) + runs

    def check_run(self) -> None:
        """Raises `OcannlError` where the present values are outside of the data together."""
        self._limits.check_run(self._spans())

    def check_loop(self, runs: int = 1, advance: Sequence[Index] = ()) -> None:
        """Raises `OcannlError` for indices that cannot be advanced, and for values that one of `runs` runs
        over all ranged indices cannot have.
        """
        spans = self._spans() | {index.name: (0, (index.range or 0) - 1) for index in self.ranged}
        for index, times in Counter(map(checked_index, advance)).items():
            if index.range is not None:
                raise OcannlError(
                    f"index {index.name} has a range, so the loop runs over it: it is not advanced"
                )
            if times > 1:
                raise OcannlError(
                    f"index {index.name} is advanced by 1 after each run: it is given {times} times"
                )
            if index.name in spans:
                first = self.get(index.name)
                spans[index.name] = (first, first + runs - 1)
        if runs:
            self._limits.check_run(spans)

    def _spans(self) -> dict[str, Span]:
        """The present values of the indices."""
        return {name: (self._arguments[slot], self._arguments[slot]) for name, slot in self.slots.items()}


def checked_index(index: object) -> Index:
    """Raises `ArgumentError` for what is not an index."""
    if not isinstance(index, Index):
        raise ArgumentError(f"a routine's indices are oc.Index objects, found {index!r}")
    return index
