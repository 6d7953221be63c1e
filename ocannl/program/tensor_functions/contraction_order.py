"""Products of more than three operands, as products of few of them in an order of low cost."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ocannl.dialects.ir.errors import SpecError
from ocannl.dialects.shapes.shape import Dim, Row
from ocannl.dialects.shapes.spec import Name, RowSpec, Slot, Spec, names_of
from ocannl.program import graph
from ocannl.program.location import here
from ocannl.program.values import Value

# What a size that is not known yet counts as.
UNKNOWN = 16
EXHAUSTIVE = 6
"""Up to so many operands every order is tried."""


@dataclass(frozen=True)
class Step:
    """A product of some of the operands that are left, which it replaces at the end of their list."""

    places: tuple[int, ...]
    spec: Spec


def contraction_steps(spec: Spec, operands: Sequence[Value], given: Mapping[str, int]) -> list[Step]:
    """The products of two or three operands that a spec of more is made of, by `numpy.einsum_path`.

    `given` are sizes by name. Raises `SpecError` for axes that are not names.
    """
    slots = list(spec.operands)
    for slot in (*slots, spec.result):
        if any(not isinstance(axis, Name) for row in slot.rows for axis in row.axes):
            raise SpecError(here(f"with more than three operands every axis is a name: {str(spec)!r}"))
    rows = _home_rows(slots)
    steps: list[Step] = []
    for places in _path(spec, {**_sizes(slots, operands), **given}):
        taken = [slots[place] for place in places]
        slots = [slot for place, slot in enumerate(slots) if place not in places]
        last = not slots
        wanted = {symbol for slot in (*slots, spec.result) for symbol in slot_names(slot)}
        kept = [symbol for symbol in rows if symbol in wanted and any(symbol in slot_names(s) for s in taken)]
        result = spec.result if last else _slot(kept, rows, spec)
        steps.append(Step(places, Spec(tuple(taken), result)))
        slots.append(result)
    return steps


def slot_names(slot: Slot) -> list[str]:
    """The names of a slot's axes, and of its row variables with dots, which no axis has."""
    names = [name for row in slot.rows for axis in row.axes for name in names_of(axis)]
    return [*names, *(f"..{row.var}.." for row in slot.rows if row.var is not None)]


def _home_rows(slots: Sequence[Slot]) -> dict[str, int]:
    """The row in which each name stands first."""
    found: dict[str, int] = {}
    for slot in slots:
        for place, row in enumerate(slot.rows):
            for symbol in slot_names(Slot(row, RowSpec(), RowSpec())):
                found.setdefault(symbol, place)
    return found


def _slot(kept: Sequence[str], rows: Mapping[str, int], spec: Spec) -> Slot:
    """A slot with these axes, each in its row; a row has one variable, so others go where there is none."""
    names: list[list[Name]] = [[], [], []]
    variables: list[str | None] = [None, None, None]
    for symbol in kept:
        home = rows[symbol]
        if not symbol.startswith(".."):
            names[home].append(Name(symbol))
            continue
        free = [place for place in (home, 0, 1, 2) if variables[place] is None]
        if not free:
            raise SpecError(here(f"a product within {str(spec)!r} would have more than three row variables"))
        variables[free[0]] = symbol.strip(".")
    return Slot(*(RowSpec(tuple(axes), var) for axes, var in zip(names, variables, strict=True)))


def _sizes(slots: Sequence[Slot], operands: Sequence[Value]) -> dict[str, int]:
    """The sizes that are known now; that of a row variable is the number of its elements."""
    found: dict[str, int] = {}
    for slot, operand in zip(slots, operands, strict=True):
        for written, row in zip(slot.rows, graph.known_shape(operand), strict=True):
            if row.var is None and len(row.axes) >= len(written.axes):
                found |= _row_sizes(written, row)
    return found


def _row_sizes(written: RowSpec, row: Row) -> dict[str, int]:
    sizes = [axis.size if isinstance(axis, Dim) else UNKNOWN for axis in row.axes]
    end = len(sizes) - len(written.trailing)
    at = [*sizes[: len(written.leading)], *sizes[end:]]
    found = {str(axis): size for axis, size in zip(written.axes, at, strict=True)}
    if written.var is not None:
        found[f"..{written.var}.."] = math.prod(sizes[len(written.leading) : end])
    return found


def _path(spec: Spec, sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
    """The places of the operands of each step, at most three of them."""
    slots = [*spec.operands, spec.result]
    symbols = dict.fromkeys(symbol for slot in spec.operands for symbol in slot_names(slot))
    if len(symbols) > len(string.ascii_letters):
        raise SpecError(here(f"there are more than {len(string.ascii_letters)} names in {str(spec)!r}"))
    letters = dict(zip(symbols, string.ascii_letters, strict=False))
    terms = ["".join(dict.fromkeys(letters.get(symbol, "") for symbol in slot_names(slot))) for slot in slots]
    unit = np.empty(())
    arrays = [
        np.broadcast_to(unit, [sizes.get(s, UNKNOWN) for s in symbols if letters[s] in t]) for t in terms[:-1]
    ]
    ordered = ["".join(letter for letter in letters.values() if letter in term) for term in terms[:-1]]
    how = "optimal" if len(arrays) <= EXHAUSTIVE else "greedy"
    path = np.einsum_path(f"{','.join(ordered)}->{terms[-1]}", *arrays, optimize=(how, 2**62))[0][1:]
    return [step for places in path for step in _of_two(tuple(sorted(places)))]


def _of_two(places: tuple[int, ...]) -> list[tuple[int, ...]]:
    """A step in steps of two operands. One of more is that of all that are left."""
    if len(places) <= 3:
        return [places]
    count = len(places)
    return [(0, 1), *((0, count - k - 1) for k in range(1, count - 1))]
