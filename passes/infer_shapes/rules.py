"""Constraints as the solver keeps them: one object each, compared by identity, with a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ocannl.passes.infer_shapes.terms import DimProduct, DimSum, DimTerm, Row


@dataclass(slots=True, eq=False)
class EqRule:
    """Two rows have the same axes."""

    left: Row
    right: Row
    origin: object
    id: int


@dataclass(slots=True, eq=False)
class LeRule:
    """Row `left` refines row `right`, which broadcasts after its first `split` axes."""

    left: Row
    right: Row
    origin: object
    split: int
    id: int


@dataclass(slots=True, eq=False)
class AxisRule:
    """Dimension `left` equals, or refines, dimension `right`.

    If it comes from a rule over rows, `place` is the axis in both, counted from the end if negative.
    """

    equal: bool
    left: DimTerm
    right: DimTerm
    origin: object
    rows: EqRule | LeRule | None = None
    place: int = 0


@dataclass(slots=True, eq=False)
class AtLeastRule:
    """A dimension has `minimum` or more positions."""

    dim: DimTerm
    minimum: int
    origin: object


@dataclass(slots=True, eq=False)
class TotalRule:
    """The axes of these rows have `total` elements together."""

    rows: tuple[Row, ...]
    total: int
    origin: object
    id: int


@dataclass(slots=True, eq=False)
class ProductRule:
    """A dimension is a product of axes."""

    product: DimProduct
    id: int

    @property
    def origin(self) -> object:
        return self.product.origin


@dataclass(slots=True, eq=False)
class SumRule:
    """A dimension is a linear combination of dimensions."""

    sum: DimSum
    id: int

    @property
    def origin(self) -> object:
        return self.sum.origin


@dataclass(slots=True, eq=False)
class ClosingRule:
    """No constraint but a choice: made when the shapes of leaves and results were demanded."""

    origin: object = None


Relation: TypeAlias = ProductRule | SumRule
Rule: TypeAlias = EqRule | LeRule | AxisRule | AtLeastRule | TotalRule | ProductRule | SumRule | ClosingRule
