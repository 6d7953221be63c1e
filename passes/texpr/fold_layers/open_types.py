"""Keys of types of programs as built, whose variables have other numbers in each of several equal layers."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.ir import Attribute

from ocannl.dialects.shapes.shape import Dim, DimTerm, DimVar, Row
from ocannl.dialects.texpr.tensor_type import DimsAttr, TensorType

_ANY = "any"


def key_without_numbers(attribute: Attribute) -> Hashable:
    """A key of an attribute: for types and named dimensions one that is the same for any variables."""
    match attribute:
        case TensorType():
            return (*map(_row_key, attribute.shape.data), attribute.element_or_none)
        case DimsAttr():
            return tuple([(name, _dim_key(dim)) for name, dim in attribute.data])
        case _:
            return attribute


def _row_key(row: Row) -> Hashable:
    if row.var is None and DimVar not in map(type, row.axes):
        return row
    return tuple(map(_dim_key, row.leading)), row.var and _ANY, tuple(map(_dim_key, row.trailing))


def _dim_key(dim: DimTerm) -> Hashable:
    return dim if isinstance(dim, Dim) else _ANY
