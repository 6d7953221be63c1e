"""The terms of shape inference (dimensions, rows, shapes) and the constraints over them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

RowKind: TypeAlias = Literal["batch", "input", "output"]
ROW_KINDS: tuple[RowKind, ...] = ("batch", "input", "output")


@dataclass(frozen=True, slots=True)
class Dim:
    """A known size. Two sizes match only if their bases (units, such as `rgb`) do."""

    size: int
    basis: str | None = None

    @property
    def broadcasts(self) -> bool:
        """Whether this size may stand above any other: 1 without a basis."""
        return self.size == 1 and self.basis is None

    def __str__(self) -> str:
        return str(self.size) if self.basis is None else f"{self.size}:{self.basis}"


@dataclass(frozen=True, slots=True)
class DimVar:
    """An unknown dimension."""

    id: int

    def __str__(self) -> str:
        return f"?d{self.id}"


DimTerm: TypeAlias = Dim | DimVar
ONE = Dim(1)


@dataclass(frozen=True, slots=True)
class RowVar:
    """An unknown number of axes, none included."""

    id: int

    def __str__(self) -> str:
        return f"..r{self.id}.."


@dataclass(frozen=True, slots=True)
class Row:
    """Axes in order: `leading`, then those of `var` (none, if the row is closed), then `trailing`.

    As an operand the row broadcasts right after `leading`: the leading axes align left, all others right. So a row
    given by a user, which broadcasts as in NumPy, has all its axes in `trailing`.
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

    def __str__(self) -> str:
        items = (*self.leading, *(() if self.var is None else (self.var,)), *self.trailing)
        return "[" + ", ".join(map(str, items)) + "]"


EMPTY_ROW = Row()


def closed_row(*axes: int | DimTerm) -> Row:
    """The closed row of these axes, which broadcasts as in NumPy."""
    return Row(trailing=tuple(Dim(axis) if isinstance(axis, int) else axis for axis in axes))


@dataclass(frozen=True, slots=True)
class Shape:
    """The three rows of a tensor: `batch | input -> output`."""

    batch: Row
    input: Row
    output: Row

    def row(self, kind: RowKind) -> Row:
        if kind == "batch":
            return self.batch
        return self.input if kind == "input" else self.output

    def __str__(self) -> str:
        return f"{self.batch} | {self.input} -> {self.output}"


class LeafKind(Enum):
    """What a leaf is decides what happens to dimensions of it that nothing determines."""

    PARAM = "parameter"
    CONSTANT = "constant"
    DATA = "data"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor that no operation computes: parameters, constant fills, ranges, data."""

    shape: Shape
    kind: LeafKind
    name: str
    origin: object = None


@dataclass(frozen=True, slots=True)
class DimEq:
    """`a` and `b` are the same dimension."""

    a: DimTerm
    b: DimTerm
    origin: object = None


@dataclass(frozen=True, slots=True)
class DimLe:
    """`res` refines `opnd`: they are equal, or `opnd` is 1 without a basis."""

    res: DimTerm
    opnd: DimTerm
    origin: object = None


@dataclass(frozen=True, slots=True)
class DimAtLeast:
    """`dim` has a size of `minimum` or more, because a fixed position of it is used."""

    dim: DimTerm
    minimum: int
    origin: object = None


@dataclass(frozen=True, slots=True)
class RowEq:
    """`a` and `b` have the same axes."""

    a: Row
    b: Row
    origin: object = None


@dataclass(frozen=True, slots=True)
class RowLe:
    """`res` refines `opnd`: `opnd` broadcasts to `res`, after the leading axes that `opnd` is written with."""

    res: Row
    opnd: Row
    origin: object = None


@dataclass(frozen=True, slots=True)
class TotalElements:
    """All axes of `rows` together have `total` elements."""

    rows: tuple[Row, ...]
    total: int
    origin: object = None


Constraint: TypeAlias = DimEq | DimLe | DimAtLeast | RowEq | RowLe | TotalElements
