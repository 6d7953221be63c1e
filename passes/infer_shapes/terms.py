"""The terms of shape inference (dimensions, rows, shapes) and the constraints over them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from ocannl.dialects.shape import (
    EMPTY_ROW,
    ONE,
    ROW_KINDS,
    Dim,
    DimTerm,
    DimVar,
    Row,
    RowKind,
    RowVar,
    Shape,
    closed_row,
)

__all__ = [
    "EMPTY_ROW",
    "ONE",
    "ROW_KINDS",
    "Constraint",
    "Dim",
    "DimAtLeast",
    "DimEq",
    "DimLe",
    "DimProduct",
    "DimSum",
    "DimTerm",
    "DimVar",
    "Leaf",
    "LeafKind",
    "Row",
    "RowEq",
    "RowKind",
    "RowLe",
    "RowVar",
    "Shape",
    "TotalElements",
    "closed_row",
]


class LeafKind(Enum):
    """What a leaf is decides what happens to dimensions of it that nothing determines."""

    PARAM = "parameter"
    CONSTANT = "constant"
    DATA = "data"
    RANGE = "range"


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
class DimProduct:
    """`whole` has as many positions as all axes of `factors` have elements together: `axis` of a spec."""

    whole: DimTerm
    factors: tuple[Row, ...]
    axis: str
    origin: object = None


@dataclass(frozen=True, slots=True)
class DimSum:
    """`whole` is `constant` and the sum of `coefficient * dimension` over `terms`: `axis` of a spec.

    No dimension of `terms` is less than `least`. The `droppable` ones become that where nothing else is known
    of them. In a `window` the axis is read at every sum of positions of its terms, and no further.
    """

    whole: DimTerm
    terms: tuple[tuple[int, DimTerm], ...]
    constant: int
    axis: str
    least: int = 0
    droppable: tuple[DimTerm, ...] = ()
    window: bool = False
    origin: object = None


@dataclass(frozen=True, slots=True)
class RowEq:
    """`a` and `b` have the same axes."""

    a: Row
    b: Row
    origin: object = None


@dataclass(frozen=True, slots=True)
class RowLe:
    """`res` refines `opnd`: `opnd` broadcasts to `res`, after its leading axes as written here."""

    res: Row
    opnd: Row
    origin: object = None


@dataclass(frozen=True, slots=True)
class TotalElements:
    """All axes of `rows` together have `total` elements."""

    rows: tuple[Row, ...]
    total: int
    origin: object = None


Constraint: TypeAlias = DimEq | DimLe | DimAtLeast | DimProduct | DimSum | RowEq | RowLe | TotalElements
