"""The terms of shape inference (dimensions, rows, shapes) and the constraints over them.

Constraints are compared by identity, by which a solver looks up its progress on each. That of a program under
construction keeps it in their `state`.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Any, TypeAlias

from ocannl.dialects.records import dataclass
from ocannl.dialects.shapes.shape import (
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
    "DimPair",
    "DimProduct",
    "DimSum",
    "DimTerm",
    "DimVar",
    "Leaf",
    "LeafKind",
    "Relation",
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
    """The kind of a leaf, which decides on its dimensions that no constraint determines."""

    PARAM = "parameter"
    CONSTANT = "constant"
    DATA = "data"
    RANGE = "range"
    NAME = "name"


@dataclass(eq=False, slots=True)
class Leaf:
    """A tensor that no operation computes: parameters, constant fills, ranges, data; or, as the one axis of a
    shape, a name of a spec that only the result has.
    """

    shape: Shape
    kind: LeafKind
    name: str
    origin: object = None


@dataclass(eq=False, slots=True)
class DimEq:
    """`left` and `right` are the same dimension."""

    left: DimTerm
    right: DimTerm
    origin: object = None


@dataclass(eq=False, slots=True)
class DimLe:
    """The result `left` refines the operand `right`: they are equal, or `right` is 1 without a basis."""

    left: DimTerm
    right: DimTerm
    origin: object = None


@dataclass(eq=False, slots=True)
class DimAtLeast:
    """`dim` has a size of `minimum` or more, because a fixed position of it is used."""

    dim: DimTerm
    minimum: int
    origin: object = None


@dataclass(eq=False, slots=True)
class DimProduct:
    """`whole` has as many positions as all axes of `factors` have elements together: `axis` of a spec."""

    whole: DimTerm
    factors: tuple[Row, ...]
    axis: str
    origin: object = None
    state: Any = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class DimSum:
    """`whole` is `constant` plus the sum of `coefficient * dimension` over `terms`: `axis` of a spec.

    No dimension of `terms` is less than `least`; the `droppable` ones are equal to it where nothing else is
    known of them. With `window`, the axis is read at every sum of positions of its terms, and has no others.
    """

    whole: DimTerm
    terms: tuple[tuple[int, DimTerm], ...]
    constant: int
    axis: str
    least: int = 0
    droppable: tuple[DimTerm, ...] = ()
    window: bool = False
    origin: object = None
    state: Any = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class RowEq:
    """`left` and `right` have the same axes."""

    left: Row
    right: Row
    origin: object = None
    state: Any = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class RowLe:
    """The result `left` refines the operand `right`, which broadcasts to it after its leading axes as
    written here.
    """

    left: Row
    right: Row
    origin: object = None
    state: Any = field(default=None, init=False, repr=False)

    @property
    def split(self) -> int:
        """How many axes of the operand align left."""
        return len(self.right.leading)


@dataclass(eq=False, slots=True)
class TotalElements:
    """All axes of `rows` together have `total` elements."""

    rows: tuple[Row, ...]
    total: int
    origin: object = None
    state: Any = field(default=None, init=False, repr=False)


DimPair: TypeAlias = tuple[DimVar, DimVar]
"""Unknown dimensions of a result and of an operand that it refines."""

Relation: TypeAlias = DimProduct | DimSum
Constraint: TypeAlias = DimEq | DimLe | DimAtLeast | DimProduct | DimSum | RowEq | RowLe | TotalElements
