"""Rows of shapes as users give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ocannl.dialects.shapes.shape import Dim as KnownDim
from ocannl.dialects.shapes.shape import DimTerm, Row, closed_row
from ocannl.program import graph
from ocannl.program.arguments.checks import integer
from ocannl.program.tensor import Dim

RowSizes: TypeAlias = int | Dim | Sequence[int | Dim]


def row_of(sizes: RowSizes | None) -> Row:
    """The row of given sizes, without further axes; for None a row of unknown axes."""
    if sizes is None:
        return graph.fresh_row()
    axes = list(sizes) if isinstance(sizes, list | tuple) else [sizes]
    return closed_row(*map(_dim_term, axes))


def _dim_term(axis: object) -> DimTerm:
    if isinstance(axis, Dim):
        return axis.term
    return KnownDim(integer(axis, "a size in a row (an int, an oc.Dim, or a list of them)"))
