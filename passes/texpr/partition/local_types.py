"""The types of one rank's parts of tensors."""

from __future__ import annotations

from ocannl.dialects.shapes.shape import Dim, Row, Shape
from ocannl.dialects.texpr.tensor_type import TensorType


def with_size(type: TensorType, axis: int, size: int) -> TensorType:
    """The type with another size of an axis, by its number in memory order."""
    shape, count = type.shape.data, 0
    rows: list[Row] = []
    for row in (shape.batch, shape.output, shape.input):
        leading, trailing = (
            tuple(
                Dim(size, dim.basis if isinstance(dim, Dim) else None) if number == axis else dim
                for number, dim in enumerate(dims, start)
            )
            for dims, start in ((row.leading, count), (row.trailing, count + len(row.leading)))
        )
        rows.append(Row(leading, row.var, trailing))
        count += row.known
    batch, output, input = rows
    return TensorType.of(Shape(batch, input, output), type.element_or_none)
