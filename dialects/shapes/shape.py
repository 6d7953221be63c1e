"""Shapes of three rows (batch, input, output) with row and dimension variables.

Source: OCANNL's shapes. A row is `leading .. variable .. trailing`; a closed row keeps its split, because
broadcasting happens in the middle. All of them are named tuples, which are made, compared and hashed by the
thousand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

RowKind: TypeAlias = Literal["batch", "input", "output"]
ROW_KINDS: tuple[RowKind, ...] = ("batch", "input", "output")


class Dim(NamedTuple):
    """A known size. Two sizes match only if their bases (units, such as `rgb`) do."""

    size: int
    basis: str | None = None

    @property
    def broadcasts(self) -> bool:
        """Whether this size may stand above any other: 1 without a basis."""
        return self.size == 1 and self.basis is None

    def __str__(self) -> str:
        return str(self.size) if self.basis is None else f"{self.size}:{self.basis}"


class DimVar(NamedTuple):
    """An unknown dimension."""

    id: int

    def __str__(self) -> str:
        return f"?d{self.id}"


DimTerm: TypeAlias = Dim | DimVar
ONE = Dim(1)


class RowVar(NamedTuple):
    """An unknown number of axes, none included."""

    id: int

    def __str__(self) -> str:
        return f"..r{self.id}.."


class Row(NamedTuple):
    """Axes in order: `leading`, then those of `var` (none, if the row is closed), then `trailing`.

    As an operand the row broadcasts right after `leading`: the leading axes align left, all others right. So
    a row given by a user, which broadcasts as in NumPy, has all its axes in `trailing`.
    """

    leading: tuple[DimTerm, ...] = ()
    var: RowVar | None = None
    trailing: tuple[DimTerm, ...] = ()

    @property
    def axes(self) -> tuple[DimTerm, ...]:
        """The known axes; all of them, if the row is closed."""
        return self.leading + self.trailing

    @property
    def is_closed(self) -> bool:
        return self.var is None

    @property
    def known(self) -> int:
        """The number of known axes: the rank, if the row is closed."""
        return len(self.leading) + len(self.trailing)

    @property
    def is_final(self) -> bool:
        """No variable is left."""
        return self.var is None and DimVar not in map(type, self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of a final row."""
        sizes = tuple([d.size for d in self.axes if isinstance(d, Dim)])
        assert self.var is None, "the row is closed"
        assert len(sizes) == self.known, "the row is final"
        return sizes

    def __str__(self) -> str:
        items = (*self.leading, *(() if self.var is None else (self.var,)), *self.trailing)
        return "[" + ", ".join(map(str, items)) + "]"


EMPTY_ROW = Row()


def closed_row(*axes: int | DimTerm) -> Row:
    """The closed row of these axes, which broadcasts as in NumPy."""
    return Row(trailing=tuple(Dim(axis) if isinstance(axis, int) else axis for axis in axes))


class Shape(NamedTuple):
    """Rows `batch | input -> output`; memory order is batch, output, input."""

    batch: Row
    input: Row
    output: Row

    def row(self, kind: RowKind) -> Row:
        if kind == "batch":
            return self.batch
        return self.input if kind == "input" else self.output

    @property
    def is_final(self) -> bool:
        return self.batch.is_final and self.input.is_final and self.output.is_final

    @property
    def memory_axes(self) -> tuple[DimTerm, ...]:
        """The known axes in the order of memory: batch, output, input."""
        return self.batch.axes + self.output.axes + self.input.axes

    @property
    def memory_sizes(self) -> tuple[int, ...]:
        """Sizes of the array that holds a tensor of this final shape: batch, output, input, row-major."""
        return self.batch.sizes + self.output.sizes + self.input.sizes

    @property
    def elements(self) -> int:
        return math.prod(self.memory_sizes)

    def __str__(self) -> str:
        """As people read it, with `...` for axes that are not known, and `?` for a size that is not."""
        return shape_text(self, lambda var, letter: "...", ",", "|", "->", size=_known_size) or "()"


def _known_size(dim: DimTerm) -> str:
    return str(dim) if isinstance(dim, Dim) else "?"


def shape_text(
    shape: Shape,
    variable: Callable[[RowVar, str], str],
    comma: str,
    bar: str,
    arrow: str,
    split: str = "..",
    size: Callable[[DimTerm], str] = str,
) -> str:
    """The one notation of shapes, for people and for IR: empty closed batch and input rows are left out."""

    def row_text(row: Row, letter: str) -> str:
        items = [size(d) for d in row.leading]
        if row.var is not None:
            items.append(variable(row.var, letter))
        elif items:
            items.append(split)
        items += [size(d) for d in row.trailing]
        return comma.join(items)

    batch, input, output = row_text(shape.batch, "b"), row_text(shape.input, "i"), row_text(shape.output, "o")
    return (batch + bar if batch else "") + (input + arrow if input else "") + output
