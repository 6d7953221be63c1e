"""The values of all assignments of a run, in the order in which they were computed."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.ir.errors import OcannlError
from ocannl.program.text.html import text_html
from ocannl.program.text.number_tables import line_of
from ocannl.runtime.assignments import Assignment

DIGITS, MOST = 4, 4
ROUNDING = {2: 1e-2, 4: 1e-4, 8: 1e-10}
"""How much values that are computed in another order may differ, of the greatest, by the bytes of a float."""


# Names of what the compiler makes.
_MADE = re.compile(r"n(_\d+)?")

NotFinite: TypeAlias = tuple[tuple[float, ...], int, tuple[int, ...]]
"""When a value that is not finite was computed, by which step, and its place."""


@dataclass(frozen=True)
class Seen:
    """The value of memory: on a mesh the whole. Where ranks along some `axes` of the mesh have others, as
    terms of a sum, it has that of each of these, along the first axes.
    """

    value: NDArray[Any]
    axes: tuple[str, ...] = ()

    def at(self, ranks: Mapping[str, int], iterations: Sequence[int]) -> NDArray[Any]:
        """The value that ranks have, by their numbers along axes of the mesh, in iterations of loops."""
        of_ranks = [ranks.get(axis, slice(None)) for axis in self.axes]
        return self.value[(*of_ranks, *iterations)]


@dataclass(frozen=True)
class Step:
    """An assignment and what it computed. Of memory that is assigned several times, the value is the last; in
    loops, there is one for each iteration, along the first axes.
    """

    assignment: Assignment
    seen: Seen
    expression: str | None = None
    """Its value in the user's notation, where it has no name but a number."""

    @property
    def value(self) -> NDArray[Any]:
        return self.seen.value

    @property
    def title(self) -> str:
        """Its label, with its expression where it has no name."""
        label = self.assignment.label
        return label if self.expression is None else f"{label} ({self.expression})"

    def __str__(self) -> str:
        axes = ", ".join(f'"{axis}"' for axis in self.seen.axes)
        return _described(f"{self.title} on each rank of {axes}" if axes else self.title, self.value)


def _described(label: str, array: NDArray[Any]) -> str:
    sizes = "x".join(map(str, array.shape)) or "()"
    return f"{label}: {sizes} {array.dtype} = {line_of(array, DIGITS, MOST)}"


@dataclass(frozen=True)
class Trace:
    """The steps of one run. As text it is a tree: the lines of the program in time, under each what it
    computed, and from what.
    """

    routine: str
    steps: Sequence[Step]
    before: Mapping[str, Seen]
    """The values before the run of the memory that it reads, by the labels of memory."""
    after: Mapping[str, Seen]
    """Those after it of all memory that it reads or writes."""
    ranks: int = 1
    """Those of the mesh."""

    def __getitem__(self, label: str) -> NDArray[Any]:
        """The value of a node by its label. Raises `KeyError`."""
        found = next((step.value for step in self.steps if step.assignment.label == label), None)
        if found is None:
            raise KeyError(f"the run of {self.routine!r} has computed no `{label}`")
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the tree to a file, to be compared with that of another run."""
        Path(path).write_text(f"{self}\n", "utf-8")

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def _lines(self) -> Iterator[str]:
        yield f"{self.routine}, on {self.ranks} ranks" if self.ranks > 1 else self.routine
        groups = [(place, [*steps]) for place, steps in groupby(self.steps, lambda s: s.assignment.place)]
        for number, (place, steps) in enumerate(groups):
            is_last = number == len(groups) - 1
            yield f"{'└─' if is_last else '├─'} {place or 'without a line'}"
            before = "   " if is_last else "│  "
            for step in steps:
                yield f"{before}{'└─' if step is steps[-1] else '├─'} {step}"
                if step.assignment.operands:
                    inner = "   " if step is steps[-1] else "│  "
                    yield f"{before}{inner}of {', '.join(step.assignment.operands)}"

    def not_finite(self, besides: frozenset[str]) -> NotFinite | None:
        """The first step, in time, with a value that is NaN or infinite; None if there is none."""
        # Of memory that a loop writes after a step, the value is that of the loop.
        loops = {s.assignment.written.memory: s for s in self.steps if s.assignment.is_loop}
        found: list[NotFinite] = []
        for number, step in enumerate(self.steps):
            one, value = step.assignment, step.value
            is_checked = one.label not in besides and loops.get(one.written.memory, step) is step
            if is_checked and value.dtype.kind == "f" and not np.isfinite(value).all():
                at = tuple(int(n) for n in np.argwhere(~np.isfinite(value))[0])
                iterations = at[len(step.seen.axes) :][: len(one.written.loops)]
                found.append((one.time(iterations), number, at))
        return min(found, default=None)

    def message(self, found: NotFinite) -> str:
        """The error of a value that is not finite: with the user's line, what was computed, and the values
        that it was computed from.
        """
        _, number, at = found
        return self._message(self.steps[number], at, self.steps[:number])

    def _message(self, step: Step, at: tuple[int, ...], earlier: Sequence[Step]) -> str:
        """The error of a value at a position, the first numbers of which are ranks, and then iterations."""
        one, loops, axes = step.assignment, step.assignment.written.loops, step.seen.axes
        ranks, at_rank = dict(zip(axes, at, strict=False)), at[len(axes) :]
        iterations, place = at_rank[: len(loops)], at_rank[len(loops) :]
        where = "" if one.place is None else f"{one.place}: "
        position = "" if not place else f" at {', '.join(map(str, place))}"
        when = " after a loop" if one.is_loop else ""
        if loops:
            numbers = zip(loops, iterations, strict=True)
            when += f", in the iteration {', '.join(f'{loop} = {number}' for loop, number in numbers)}"
        for axis, number in ranks.items():
            when += f', on rank {number} of "{axis}"'
        name, value = step.expression or one.written.name, step.value[at]
        lines = [f"{where}`{name}` is the first value that is not finite: {value}{position}{when}"]
        lines.append(f"  {one.shown}")
        computed = {other.assignment.written.memory for other in earlier}
        titles = {other.assignment.label: other.title for other in earlier}
        for kept in one.read:
            is_before = kept.memory in self.before and kept.memory not in computed
            seen = (self.before if is_before else self.after)[kept.memory]
            array = seen.at(ranks, iterations[: len(kept.loops)])
            lines.append(f"  {_described(titles.get(kept.name, kept.name), array)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Difference:
    """The first step in which two runs differ, and the names of what it reads that differed before them."""

    first: Step
    second: Step
    greatest: float
    given: tuple[str, ...] = ()

    def _at(self) -> str:
        """The element that differs most, and both of its values."""
        one, two = self.first.value, self.second.value
        if one.shape != two.shape or not one.shape:
            return ""
        at = np.unravel_index(int(np.argmax(_apart(one, two))), one.shape)
        return f" at {', '.join(map(str, at))}: {one[at]:.6g} and {two[at]:.6g}"

    def __str__(self) -> str:
        place, name = self.first.assignment.place, self.first.expression or self.first.assignment.label
        where = "" if place is None else f"{place}: "
        names = " and ".join(f"`{name}`" for name in self.given)
        given = f"\n  the runs began with different values of {names}" if names else ""
        return (
            f"{where}`{name}` differs by {self.greatest:.3g}{self._at()}\n"
            f"  {self.first}\n  {self.second}\n  {self.first.assignment.shown}{given}"
        )

    __repr__ = __str__


def check_finite(trace: Trace, besides: frozenset[str]) -> None:
    """Raises `OcannlError` at the first value of a run that is NaN or infinite."""
    found = trace.not_finite(besides)
    if found is not None:
        raise OcannlError(trace.message(found))


def first_difference(a: Trace, b: Trace) -> Difference | None:
    """The first step of two runs of one program that differs by more than rounding; None if none does. Of a
    run on a mesh beside one on another or on none, values that have names in the program are compared.

    Raises `OcannlError` where the programs differ.
    """
    names = [[step.assignment.label for step in trace.steps] for trace in (a, b)]
    pairs = [*zip(a.steps, b.steps, strict=False)]
    if a.ranks != b.ranks:
        pairs = _whole_in_both(a, b)
    elif names[0] != names[1]:
        other = next(
            (pair for pair in zip(*names, strict=False) if pair[0] != pair[1]), ("its end", "its end")
        )
        raise OcannlError(f"{a.routine!r} and {b.routine!r} are other programs: {other[0]} beside {other[1]}")
    for number, (one, two) in enumerate(pairs):
        greatest = _difference(one.value, two.value)
        if greatest > 0:
            earlier = {other.assignment.written.memory for other, _ in pairs[:number]}
            return Difference(one, two, greatest, tuple(_given(a, b, one, two, earlier)))
    return None


def _given(a: Trace, b: Trace, one: Step, two: Step, earlier: Collection[str]) -> Iterator[str]:
    """The names of what a step of two runs reads whose values differed before them."""
    for kept, other in zip(one.assignment.read, two.assignment.read, strict=False):
        first, second = a.before.get(kept.memory), b.before.get(other.memory)
        if first is None or second is None or kept.memory in earlier or first.axes != second.axes:
            continue
        if _difference(first.value, second.value) > 0:
            yield kept.name


def _whole_in_both(a: Trace, b: Trace) -> list[tuple[Step, Step]]:
    """The steps of the program itself that two runs have, with values of the same sizes."""
    others = {step.assignment.label: step for step in b.steps}
    pairs = [
        (step, others[step.assignment.label])
        for step in a.steps
        if step.assignment.label in others
        and (step.expression is not None or not _MADE.fullmatch(step.assignment.label))
    ]
    return [(one, two) for one, two in pairs if one.value.shape == two.value.shape]


def _apart(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """How much elements differ: NaN not from itself, and infinitely from a number."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(x - y))
    return np.where(np.isnan(apart), np.inf, apart)


def _difference(a: NDArray[Any], b: NDArray[Any]) -> float:
    """The greatest difference, 0 if it is rounding."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if not (greatest := float(_apart(a, b).max(initial=0.0))):
        return 0.0
    finite = np.abs(np.where(np.isfinite(a), a.astype(np.float64), 0.0)).max()
    allowed = ROUNDING.get(a.dtype.itemsize, 0.0) if a.dtype.kind == "f" else 0.0
    return greatest if greatest > allowed * max(finite, 1e-30) else 0.0
