"""The iteration spaces of a spec with concatenations (`a^b`): one for each consistent choice of parts.

In a space each concatenation that can be is at one of its parts; a name that is a part is chosen in every
axis that has it. An operand whose axes have no part in a space is not read there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from ocannl.dialects.records import dataclass
from ocannl.dialects.shapes.spec import Concat, Name, Slot, Spec, names_of

Place: TypeAlias = tuple[int, int, int]
"""An axis of a spec: its slot, its row and its place among the written axes of the row."""


@dataclass(frozen=True, slots=True)
class PartSpace:
    """One space: the part at which each concatenation stands, and the operands that are read."""

    parts: dict[Place, int]
    reads: tuple[int, ...]


def part_spaces(spec: Spec) -> tuple[PartSpace, ...]:
    """The spaces of a spec in the order of its result's parts; those in which nothing is read are left out.

    A spec without a concatenation has one.
    """
    concats = dict(_concats(spec))
    if not concats:
        return (PartSpace({}, tuple(range(len(spec.operands)))),)
    joined = {name for concat in concats.values() for name in names_of(concat)}
    active = joined & set(_plain_names(spec.result))
    spaces = (_space(spec, choice, joined) for choice in _choices(concats, active))
    return tuple(space for space in spaces if space is not None and space.reads)


def _concats(spec: Spec) -> Iterator[tuple[Place, Concat]]:
    """The concatenations, those of the result first."""
    result = len(spec.operands)
    for slot in (result, *range(result)):
        for row, axes in enumerate(spec.slots[slot].rows):
            for place, axis in enumerate(axes.axes):
                if isinstance(axis, Concat):
                    yield (slot, row, place), axis


def _plain_names(slot: Slot) -> Iterator[str]:
    for row in slot.rows:
        for axis in row.axes:
            if not isinstance(axis, Concat):
                yield from names_of(axis)


@dataclass(frozen=True, slots=True)
class _Choice:
    """The part of each concatenation, None if it has no place here, and the names that are settled by it."""

    parts: dict[Place, int | None]
    active: frozenset[str]
    excluded: frozenset[str] = frozenset()

    def allowed(self, concat: Concat) -> list[int]:
        """The parts of one more concatenation at which it could stand."""
        names = [part.name if isinstance(part, Name) else None for part in concat.parts]
        forced = self.active.intersection(names_of(concat))
        if len(forced) > 1:
            return []
        return [
            i for i, name in enumerate(names) if (name in forced if forced else name not in self.excluded)
        ]

    def at(self, place: Place, concat: Concat, chosen: int | None) -> _Choice:
        parts = {**self.parts, place: chosen}
        if chosen is None:
            return _Choice(parts, self.active, self.excluded)
        part = concat.parts[chosen]
        own = {part.name} if isinstance(part, Name) else set[str]()
        return _Choice(parts, self.active | own, self.excluded | set(names_of(concat)) - own)


def _options(allowed: list[int], waits: bool) -> list[int | None]:
    return [*allowed, None] if waits or not allowed else [*allowed]


def _choices(concats: Mapping[Place, Concat], active: Iterable[str]) -> Iterator[_Choice]:
    """Every way to choose a part of as many concatenations as can stand somewhere together."""
    choices = [_Choice({}, frozenset(active))]
    later = Counter(name for concat in concats.values() for name in names_of(concat))
    for place, concat in concats.items():
        names = set(names_of(concat))
        later -= Counter(names_of(concat))
        # Only what comes later can still take away a place that there is now.
        waits = not names.isdisjoint(later)
        choices = [
            choice.at(place, concat, part)
            for choice in choices
            for part in _options(choice.allowed(concat), waits)
        ]
    for choice in choices:
        missing = (concats[place] for place, part in choice.parts.items() if part is None)
        if not any(choice.allowed(concat) for concat in missing):
            yield choice


def _space(spec: Spec, choice: _Choice, joined: set[str]) -> PartSpace | None:
    """The space of a choice; None if the result has no place in it."""
    missing = {place[0] for place, part in choice.parts.items() if part is None}
    for slot, axes in enumerate(spec.slots):
        if any(name in joined and name not in choice.active for name in _plain_names(axes)):
            missing.add(slot)
    result = len(spec.operands)
    if result in missing:
        return None
    parts = {place: part for place, part in choice.parts.items() if part is not None}
    return PartSpace(parts, tuple(slot for slot in range(result) if slot not in missing))
