"""The rules that the solver runs: constraints, and their consequences for single axes."""

from __future__ import annotations

from typing import TypeAlias

from ocannl.dialects.records import dataclass
from ocannl.passes.texpr.infer_shapes.terms import DimAtLeast, DimTerm, Relation, RowEq, RowLe, TotalElements


@dataclass(slots=True, eq=False)
class AxisRule:
    """Dimension `left` equals, or refines, dimension `right`.

    For a consequence of a rule over rows, `place` is the axis in both rows, counted from the end if negative.
    """

    equal: bool
    left: DimTerm
    right: DimTerm
    origin: object
    rows: RowEq | RowLe | None = None
    place: int = 0


@dataclass(slots=True, eq=False)
class ClosingRule:
    """A choice of closing rather than a constraint."""

    origin: object = None


Rule: TypeAlias = RowEq | RowLe | AxisRule | DimAtLeast | TotalElements | Relation | ClosingRule
