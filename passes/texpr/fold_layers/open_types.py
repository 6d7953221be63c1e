"""Types of programs as built, whose variables have other numbers in each of several equal layers."""

from __future__ import annotations

from xdsl.ir import Attribute

from ocannl.dialects.shapes.shape import Dim, DimTerm, DimVar, Row, RowVar, Shape
from ocannl.dialects.texpr.tensor_type import DimsAttr, TensorType, known_type

_ANY_AXES, _ANY_SIZE = RowVar(0), DimVar(0)


def without_numbers(attribute: Attribute) -> Attribute:
    """A type, or named dimensions, whose variables have no numbers; any other attribute as it is."""
    match attribute:
        case TensorType() if not (shape := attribute.shape.data).is_final:
            return known_type(Shape(*map(_row, shape)), attribute.element_or_none)
        case DimsAttr():
            return DimsAttr(tuple([(name, _size(dim)) for name, dim in attribute.data]))
        case _:
            return attribute


def _row(row: Row) -> Row:
    if row.is_final:
        return row
    var = None if row.var is None else _ANY_AXES
    return Row(tuple(map(_size, row.leading)), var, tuple(map(_size, row.trailing)))


def _size(dim: DimTerm) -> DimTerm:
    return dim if isinstance(dim, Dim) else _ANY_SIZE
