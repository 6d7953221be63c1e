"""The program under construction: the operations that the API appends, and the solver of their shapes.

The solver learns from each operation when it is appended, so that shapes that do not fit are reported at the
user's line. It knows nothing that does not follow from the operations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.shapes.shape import DimTerm, DimVar, Row, RowVar, Shape
from ocannl.dialects.texpr import OfOp
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of
from ocannl.passes.texpr.infer_shapes.constraints import demands_of
from ocannl.passes.texpr.infer_shapes.errors import ShapeInferenceError
from ocannl.passes.texpr.infer_shapes.messages import shape_error
from ocannl.passes.texpr.infer_shapes.solver import Solver
from ocannl.program.errors import ArgumentError
from ocannl.program.location import user_location

OpT = TypeVar("OpT", bound=Operation)
OfOpT = TypeVar("OfOpT", bound=OfOp)

_solver = Solver()


def solver() -> Solver:
    """The solver of the shapes of the program under construction."""
    return _solver


def fresh_dim() -> DimVar:
    """A variable for an unknown dimension."""
    return _solver.fresh_dim()


def fresh_row() -> Row:
    """A row of unknown axes."""
    return Row((), _solver.fresh_row(), ())


def fresh_type(element: Attribute | None = None) -> TensorType:
    """A tensor type of unknown shape; without an element type, that is unknown, too."""
    return TensorType.of(Shape(fresh_row(), fresh_row(), fresh_row()), element)


def known_shape(value: SSAValue) -> Shape:
    """The shape as known now; nothing is closed."""
    return _solver.shape(shape_of(value))


@dataclass
class _Numbered:
    """Known shapes with variables numbered in the order in which a message shows them."""

    rows: dict[RowVar, RowVar] = field(default_factory=dict[RowVar, RowVar])
    dims: dict[DimVar, DimVar] = field(default_factory=dict[DimVar, DimVar])

    def shape(self, value: SSAValue) -> Shape:
        return Shape(*(self._row(row) for row in known_shape(value)))

    def _row(self, row: Row) -> Row:
        var = None if row.var is None else self.rows.setdefault(row.var, RowVar(len(self.rows)))
        return Row(tuple(map(self._dim, row.leading)), var, tuple(map(self._dim, row.trailing)))

    def _dim(self, dim: DimTerm) -> DimTerm:
        return self.dims.setdefault(dim, DimVar(len(self.dims))) if isinstance(dim, DimVar) else dim


def add(op: OpT, label: str | None = None) -> OpT:
    """Appends an operation with the user's line, and gives the solver its constraints on shapes.

    Raises `ShapeError` or `SpecError`; the operation is then gone.
    """
    op.location = user_location()
    if label is not None and op.results:
        op.results[0].name_hint = hint(label)
    try:
        _solver.add(*demands_of(op, _solver).found)
    except ShapeInferenceError as error:
        message = shape_error(error, op, _Numbered().shape)
        op.drop_all_references()
        raise message from None
    return op


def hint(label: str) -> str:
    """A label as the name of an SSA value: ASCII, and not a number, which would be no name."""
    if not isinstance(label, str):
        raise ArgumentError(f"a label is a string, found {label!r}")
    text = "".join(c if c.isascii() and c.isalnum() else "_" for c in label)
    return text if text[:1].isalpha() else f"n{text}"


def memory_of_tensor(value: SSAValue, kind: type[OfOpT]) -> OfOpT:
    """The one gradient or value node of a tensor, made on first use."""
    for use in value.uses:
        if isinstance(use.operation, kind):
            return use.operation
    return add(kind(value, TensorType.of(shape_of(value))))
