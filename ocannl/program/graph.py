"""The program under construction: the operations that the API appends, and the solver of their shapes.

The solver learns from each operation when it is appended, so that shapes that do not fit are reported at the
user's line. It knows nothing that does not follow from the operations. Threads share it: who asks or tells it
holds a lock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeVar
from weakref import ref

from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.ir.errors import OcannlError
from ocannl.dialects.ir.op_helpers import drop_uses
from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.shapes.shape import DimTerm, DimVar, Row, RowVar, Shape
from ocannl.dialects.texpr import ApplyOp, OfOp, ParamOp, TensorOp
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of
from ocannl.passes.texpr.infer_shapes.constraints import demands_of
from ocannl.passes.texpr.infer_shapes.errors import ShapeInferenceError
from ocannl.passes.texpr.infer_shapes.messages import shape_error
from ocannl.passes.texpr.infer_shapes.sites import Site
from ocannl.passes.texpr.infer_shapes.solver import Solver
from ocannl.passes.texpr.infer_shapes.store import Store
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.eager.cells import note_again
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.eager.setting import is_eager
from ocannl.program.location import here, is_called_through, user_location, users_text
from ocannl.program.meshes.stage_scope import open_stage
from ocannl.program.values import Asked, Value, label_of, note_statement, values_of
from ocannl.runtime.collector import spare_collector
from ocannl.runtime.locks import shared

OpT = TypeVar("OpT", bound=Operation)

# Packages whose specs and operators a message does not show, but the user's call of them.
PACKAGES = ("ocannl.nn.", "ocannl.models.", "ocannl.train.")

_NO_NAME = re.compile("[^0-9A-Za-z]")
_solver = Solver(Store.of_variables())


def solver() -> Solver:
    """The solver of the shapes of the program under construction, for a caller that holds the lock."""
    return _solver


def fresh_dim() -> DimVar:
    """A variable for an unknown dimension."""
    with shared:
        return _solver.fresh_dim()


def fresh_row() -> Row:
    """A row of unknown axes."""
    with shared:
        return Row((), _solver.fresh_row(), ())


def fresh_type(element: Attribute | None = None) -> TensorType:
    """A tensor type of unknown shape; without an element type, that is unknown, too."""
    return TensorType.of(Shape(fresh_row(), fresh_row(), fresh_row()), element)


def known_shape(value: SSAValue) -> Shape:
    """The shape as known now; nothing is closed."""
    if isinstance(value, Value) and value.final_shape is not None:
        return value.final_shape
    with shared:
        return _solver.shape(shape_of(value))


def known_dim(dim: DimTerm) -> DimTerm:
    """The dimension as known now."""
    with shared:
        return _solver.dim(dim)


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


def add(op: TensorOp, label: str | None = None) -> Value:
    """The value of an operation, which gets the user's line; the solver gets its constraints on shapes.

    Raises `ShapeError` or `SpecError`.
    """
    op.location = user_location()
    if label is not None:
        op.result.name_hint = hint(label)
    stage = None if is_eager() else _stage_of(op)
    seen = RECORDER.operations.find(op, known_dim) if is_eager() else None
    if seen is not None and seen.value is not None:
        if seen.own:
            with shared:
                _solver.add(*seen.equations())
        note_again(seen.value)
        return seen.value
    _learn(op)
    value = Value(op)
    if stage is not None:
        value.stage = stage
    if seen is not None:
        RECORDER.remember(seen, value)
    return value


def _stage_of(op: TensorOp) -> int | None:
    """The stage that computes an operation: it gets copies there of what earlier stages compute.

    Raises `OcannlError` where it reads what a later stage computes.
    """
    stage = open_stage()
    if stage is None:
        return max([v.stage for v in values_of(op) if v.stage is not None], default=None)
    if isinstance(op, ParamOp):
        return stage
    for value in values_of(op):
        if value.stage is None and not value.is_apart:
            _bind(value, stage)
    known = [value for value in values_of(op) if value.stage is not None]
    if any(value.stage != stage for value in known):
        op.operands = [_at(value, stage) for value in values_of(op)]
    return stage if known else None


def _bind(value: Value, stage: int) -> None:
    """Gives the parameters that a value of no stage depends on to a stage, and what is computed from them."""
    stack = [(value, False)]
    while stack:
        current, ready = stack.pop()
        operands = values_of(current.op)
        if current.stage is not None or current.is_apart:
            continue
        if not ready and operands:
            stack += [(current, True), *((operand, False) for operand in operands)]
        elif isinstance(current.op, ParamOp) or any(operand.stage is not None for operand in operands):
            current.stage = stage
        else:
            current.is_apart = True


def _at(value: Value, stage: int) -> Value:
    """A value as a stage reads it: itself, or its copy from an earlier stage."""
    if value.stage is None or value.stage == stage:
        return value
    if value.stage > stage:
        what = f"stage {stage} reads `{label_of(value)}`, which stage {value.stage} computes"
        raise OcannlError(here(f"{what}: a stage reads what it and earlier stages compute"))
    known = value.moved.get(stage)
    copy = None if known is None else known()
    if copy is None:
        op = ApplyOp(Arg(0), [value], fresh_type(), logic="... | ... -> ... => ... | ... -> ...")
        op.set_stages((value.stage, stage))
        op.location = user_location()
        op.result.name_hint = value.name_hint or "moved"
        _learn(op)
        copy = Value(op)
        copy.stage = stage
        value.moved = {**value.moved, stage: ref(copy)}
    return copy


def add_statement(op: OpT) -> OpT:
    """`add` for an operation without a result."""
    op.location = user_location()
    _learn(op)
    note_statement(op)
    return op


def _learn(op: Operation) -> None:
    drop_uses(op)
    spare_collector()
    with shared:
        try:
            _solver.add(
                *demands_of(op, _solver, Site(op, tuple([value.trace for value in values_of(op)]))).found
            )
        except ShapeInferenceError as error:
            within = users_text() if any(map(is_called_through, PACKAGES)) else None
            raise shape_error(error, op, _Numbered().shape, within) from None


def hint(label: str) -> str:
    """A label as the name of an SSA value: ASCII, and not a number, which would be no name."""
    if not isinstance(label, str):
        raise ArgumentError(f"a label is a string, found {label!r}")
    text = _NO_NAME.sub("_", label)
    return text if text[:1].isalpha() else f"n{text}"


def memory_of_tensor(source: Value, kind: type[OfOp], element: Attribute | None = None) -> Value:
    """The one gradient or last value of a value, as memory; of an element type, if it is new."""
    with shared:
        asked = source.asked.get(kind)
        if asked is None:
            value = add(kind(source, TensorType.of(shape_of(source), element)))
            source.asked = {**source.asked, kind: Asked(value)}
            return value
        value = asked.value()
        if value is None:
            op = kind(source, asked.type)
            op.location = asked.location
            drop_uses(op)
            value = Value(op)
            asked.value = ref(value)
        return value
