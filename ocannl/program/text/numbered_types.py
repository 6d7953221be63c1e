"""Types as known now, with variables numbered in the order in which they come."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from ocannl.dialects.shapes.shape import Dim, DimTerm, DimVar, Row, RowVar, Shape
from ocannl.dialects.texpr.tensor_type import DimsAttr, TensorType, known_type, tensor_type
from ocannl.program import graph
from ocannl.program.values import Value


@dataclass
class NumberedTypes:
    """The types of values of the program under construction, which depend on nothing else there: equal parts
    of the program have equal types.
    """

    rows: dict[RowVar, RowVar] = field(default_factory=dict[RowVar, RowVar])
    dims: dict[DimVar, DimVar] = field(default_factory=dict[DimVar, DimVar])

    def of(self, value: SSAValue) -> TensorType:
        """The type of a value."""
        type = tensor_type(value)
        if isinstance(value, Value) and value.final_shape is not None:
            return known_type(value.final_shape, type.element_or_none)
        batch, input, output = type.shape.data
        return known_type(Shape(self._row(batch), self._row(input), self._row(output)), type.element_or_none)

    def dims_of(self, dims: DimsAttr) -> DimsAttr:
        """Named dimensions."""
        return DimsAttr(tuple((name, self._dim(dim)) for name, dim in dims.data))

    def _row(self, written: Row) -> Row:
        """A row that is closed by now is given as such; where it broadcasts is as it was written."""
        if written.is_final:
            return written
        row = graph.solver().row(written)
        if row.var is not None:
            return self._numbered(self._with_trailing(written, row))
        axes, split = row.axes, len(written.leading)
        return self._numbered(Row(axes[:split], None, axes[split:]))

    def _with_trailing(self, written: Row, known: Row) -> Row:
        """With the axes that are known to end the variable, which other code may have told."""
        if written.known:
            known = graph.solver().row(Row(var=written.var))
        if known.leading:
            return written
        return Row(written.leading, known.var, known.trailing + written.trailing)

    def _numbered(self, row: Row) -> Row:
        var = row.var
        if var is not None:
            var = self.rows.setdefault(var, RowVar(len(self.rows)))
        return Row(self._dims(row.leading), var, self._dims(row.trailing))

    def _dims(self, dims: tuple[DimTerm, ...]) -> tuple[DimTerm, ...]:
        return tuple(map(self._dim, dims)) if DimVar in map(type, dims) else dims

    def _dim(self, dim: DimTerm) -> DimTerm:
        if isinstance(dim, Dim):
            return dim
        known = graph.solver().dim(dim)
        return self.dims.setdefault(known, DimVar(len(self.dims))) if isinstance(known, DimVar) else known
