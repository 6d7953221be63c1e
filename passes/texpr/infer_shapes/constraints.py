"""The constraints that each tensor operation puts on the shapes of its operands and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.ir.errors import SpecError, at_line
from ocannl.dialects.ir.op_helpers import operands_of
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import IndicesAttr, static_ranges
from ocannl.dialects.shapes.shape import ROW_KINDS, Dim, DimTerm, Row, RowKind, Shape
from ocannl.dialects.shapes.spec_parser import SpecSyntaxError, parse_spec
from ocannl.dialects.texpr import ApplyOp, AssignOp, ConstantOp, DataOp, MergeOp, ScanOp, SliceOp
from ocannl.dialects.texpr.axes import Axis
from ocannl.dialects.texpr.scan_arguments import ArgumentOp
from ocannl.dialects.texpr.slices import Ids, Position, Positions, Range, RowPositions
from ocannl.dialects.texpr.tensor_op import LikeOp
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of, tensor_type
from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.passes.texpr.infer_shapes.sites import Site
from ocannl.passes.texpr.infer_shapes.solver import Solver
from ocannl.passes.texpr.infer_shapes.spec_rows import SpecRows, check_spec
from ocannl.passes.texpr.infer_shapes.terms import (
    EMPTY_ROW,
    Constraint,
    DimAtLeast,
    RowEq,
    RowLe,
    TotalElements,
)

ShapeOf: TypeAlias = Callable[[SSAValue], Shape]
_Pair: TypeAlias = tuple[RowKind, RowKind]

_BATCH: _Pair = ("batch", "batch")
_INPUT: _Pair = ("input", "input")
_OUTPUT: _Pair = ("output", "output")


@dataclass(frozen=True, eq=False, slots=True)
class ValueRow:
    """A row of a value."""

    value: SSAValue
    kind: RowKind


_RESULT = -1


@dataclass(eq=False, slots=True)
class Origin:
    """The operation that makes a constraint, and the rows that it constrains, for error messages.

    Values are given by the number of the operand, -1 for the result.
    """

    source: Operation | Site
    left_place: int
    left_kind: RowKind
    right_place: int
    right_kind: RowKind

    @property
    def op(self) -> Operation:
        return self.source.op if isinstance(self.source, Site) else self.source

    @property
    def left(self) -> ValueRow:
        return ValueRow(_value_at(self.op, self.left_place), self.left_kind)

    @property
    def right(self) -> ValueRow:
        return ValueRow(_value_at(self.op, self.right_place), self.right_kind)


def _value_at(op: Operation, place: int) -> SSAValue:
    return op.results[0] if place == _RESULT else operands_of(op)[place]


@dataclass(slots=True)
class Demands:
    """The constraints of one operation under construction."""

    op: Operation
    source: Operation | Site
    """The operation, as origins refer to it."""
    found: list[Constraint] = field(default_factory=list[Constraint])
    names: dict[str, DimTerm] = field(default_factory=dict[str, DimTerm])
    """The dimensions of a spec whose sizes its projection needs by name."""
    new: dict[str, DimTerm] = field(default_factory=dict[str, DimTerm])
    """The dimensions of names that only the result of a spec has."""

    def place(self, value: SSAValue) -> int:
        """The number of an operand, -1 for the result."""
        for place, operand in enumerate(operands_of(self.op)):
            if operand is value:
                return place
        return _RESULT

    def origin(self, left: SSAValue, left_kind: RowKind, right: SSAValue, right_kind: RowKind) -> Origin:
        """The origin of a constraint between rows of two values."""
        return Origin(self.source, self.place(left), left_kind, self.place(right), right_kind)

    def refines(self, result: SSAValue, operand: SSAValue, *pairs: _Pair) -> None:
        """Rows of `result` refine those of `operand`: the operand broadcasts to the result."""
        shape, other_shape = shape_of(result), shape_of(operand)
        left, right = self.place(result), self.place(operand)
        for kind, other in pairs:
            refined, row = shape.row(kind), other_shape.row(other)
            # No axes broadcast to anything: only closing asks for such operands.
            if refined != row and not (row == EMPTY_ROW and isinstance(self.source, Site)):
                self.found.append(RowLe(refined, row, Origin(self.source, left, kind, right, other)))

    def equals(self, value: SSAValue, kind: RowKind, row: Row, other: SSAValue | None = None) -> None:
        origin = self.origin(value, kind, value if other is None else other, kind)
        self.found.append(RowEq(shape_of(value).row(kind), row, origin))

    def same(self, value: SSAValue, other: SSAValue) -> None:
        for kind in ROW_KINDS:
            row = shape_of(other).row(kind)
            if row != shape_of(value).row(kind):
                self.equals(value, kind, row, other)

    def same_at(self, place: int, shape: Shape, other: Shape) -> None:
        """Two shapes are the same, because of the value at a place."""
        for kind in ROW_KINDS:
            if shape.row(kind) != other.row(kind):
                origin = Origin(self.source, place, kind, place, kind)
                self.found.append(RowEq(shape.row(kind), other.row(kind), origin))

    def refines_at(self, place: int, value: SSAValue, operand: SSAValue) -> None:
        """A value inside of the operation refines the operand at a place."""
        for kind in ROW_KINDS:
            origin = Origin(self.source, place, kind, place, kind)
            self.found.append(RowLe(shape_of(value).row(kind), shape_of(operand).row(kind), origin))

    def along(self, place: int, whole: Shape, part: Shape, axis: Axis, size: DimTerm, solver: Solver) -> None:
        """A shape is that of a part, with one more axis."""
        row = part.row(axis.row)
        if axis.number == -1:
            longer = Row(row.leading, row.var, (*row.trailing, size))
        else:
            ahead, behind = max(axis.number, 0), max(-1 - axis.number, 0)
            leading = tuple(solver.fresh_dim() for _ in range(ahead))
            trailing = tuple(solver.fresh_dim() for _ in range(behind))
            rest = solver.fresh_row()
            origin = Origin(self.source, place, axis.row, place, axis.row)
            self.found.append(RowEq(row, Row(leading, rest, trailing), origin))
            at_front = axis.number >= 0
            longer = Row(
                (*leading, size) if at_front else leading, rest, trailing if at_front else (size, *trailing)
            )
        for kind in ROW_KINDS:
            inner = longer if kind == axis.row else part.row(kind)
            if whole.row(kind) != inner:
                origin = Origin(self.source, place, kind, place, kind)
                self.found.append(RowEq(whole.row(kind), inner, origin))

    def pointwise(self, result: SSAValue, operand: SSAValue) -> None:
        self.refines(result, operand, _BATCH, _INPUT, _OUTPUT)

    def transpose(self, result: SSAValue, operand: SSAValue) -> None:
        self.refines(result, operand, _BATCH, ("input", "output"), ("output", "input"))

    def compose(self, result: SSAValue, left: SSAValue, right: SSAValue) -> None:
        self.refines(left, right, ("input", "output"))
        self.refines(result, left, _BATCH)
        self.refines(result, right, _BATCH)
        self.refines(result, left, _OUTPUT)
        self.refines(result, right, _INPUT)


def demands_of(op: Operation, solver: Solver, site: Site | None = None) -> Demands:
    """The constraints of one operation: none for operations on code, and of leaves only for flat data. Their
    origins are its `site`, if that is given, and do not keep it then.

    Raises `SpecError` for a malformed spec.
    """
    demands = Demands(op, site or op)
    match op:
        case ApplyOp():
            if op.logic is not None:
                _apply(demands, op, op.logic.data, solver)
        case AssignOp():
            if op.logic is not None:
                _assign(demands, op, op.logic.data, solver)
        case ConstantOp():
            pass
        case SliceOp():
            _slice(demands, op, solver)
        case ArgumentOp():
            _argument(demands, op, solver)
        case DataOp() if op.elements is not None:
            _flat(demands, op, op.elements.data)
        case LikeOp():
            _like(demands, op)
        case MergeOp():
            demands.same(op.result, op.source)
        case ScanOp():
            _scan(demands, op, solver)
        case UniformOp(like=SSAValue() as like):
            demands.same(op.result, like)
        case _:
            pass
    return demands


def _apply(demands: Demands, op: ApplyOp, logic: str, solver: Solver) -> None:
    if logic == ".":
        # Operands of one shape, as a parameter and its moments, demand the same.
        of_shapes = dict[Shape, SSAValue]()
        for arg in op.args:
            of_shapes.setdefault(shape_of(arg), arg)
        for arg in of_shapes.values():
            demands.pointwise(op.result, arg)
    elif logic == "T":
        _check_operands(op, logic, 1)
        demands.transpose(op.result, op.args[0])
    elif logic == "@":
        _check_operands(op, logic, 2)
        demands.compose(op.result, *op.args)
    else:
        dims = {} if op.dims is None else dict(op.dims.data)
        _spec(demands, logic, [*op.args, op.result], dims, solver)


def _like(demands: Demands, op: LikeOp) -> None:
    demands.same(op.result, op.like)
    for result, operand in op.refinements:
        demands.pointwise(result, operand)


def _scan(demands: Demands, op: ScanOp, solver: Solver) -> None:
    """Carries refine what they begin with, and are what is yielded; sequences have an axis more."""
    types = result_types(op)
    carried, first = op.carried.data, op.carried.data
    yielded = op.yielded
    for place, (argument, value, last) in enumerate(
        zip(op.carry_arguments, yielded.carries, types[:carried], strict=True)
    ):
        demands.refines_at(place, argument, op.inits[place])
        demands.same_at(place, shape_of(argument), shape_of(value))
        demands.same_at(place, last.shape.data, shape_of(argument))
    for place, (argument, (value, axis)) in enumerate(
        zip(op.sequence_arguments, op.sequences, strict=True), first
    ):
        demands.along(place, shape_of(value), shape_of(argument), axis, op.count, solver)
    for argument, value in zip(op.captured_arguments, op.captured, strict=True):
        demands.same_at(_RESULT, shape_of(argument), shape_of(value))
    for stack, (value, axis) in zip(types[carried:], yielded.stacked, strict=True):
        demands.along(_RESULT, stack.shape.data, shape_of(value), axis, op.count, solver)


def result_types(op: ScanOp) -> Sequence[TensorType]:
    """The types of all results; under construction, the operation has the first result only."""
    noted = op.attributes.get("results")
    if isa(noted, ArrayAttr[TensorType]):
        return noted.data
    return [tensor_type(result) for result in op.results]


def _argument(demands: Demands, op: ArgumentOp, solver: Solver) -> None:
    """A carry refines what it begins with; a position has an axis less than its sequence."""
    if op.axis is None:
        demands.pointwise(op.result, op.source)
    else:
        shape = shape_of(op.source), shape_of(op.result)
        demands.along(0, *shape, op.axis, op.dims.data[0][1], solver)


def _check_operands(op: ApplyOp, logic: str, count: int) -> None:
    if len(op.args) != count:
        raise SpecError(at_line(op, f'the logic "{logic}" takes {count} operands, found {len(op.args)}'))


def _assign(demands: Demands, op: AssignOp, logic: str, solver: Solver) -> None:
    if op.at is not None:
        _assign_part(demands, op, op.at.data, solver)
    elif logic == ".":
        demands.pointwise(op.target, op.value)
    elif logic == "T":
        demands.transpose(op.target, op.value)
    elif logic == "@":
        raise SpecError(at_line(op, 'the logic "@" combines two tensors, an assignment has one value'))
    else:
        dims = {} if op.dims is None else dict(op.dims.data)
        _spec(demands, logic, [op.value, op.target], dims, solver)


def _slice(demands: Demands, op: SliceOp, solver: Solver) -> None:
    for kind, positions in zip(ROW_KINDS, op.positions.data, strict=True):
        part = shape_of(op.result).row(kind)
        found = _part(demands, op, op.source, kind, positions, part, solver)
        if found is not part:
            demands.equals(op.result, kind, found)


def _part(
    demands: Demands,
    op: SliceOp | AssignOp,
    source: SSAValue,
    kind: RowKind,
    positions: RowPositions,
    part: Row,
    solver: Solver,
) -> Row:
    """The row of a part: that which is expected, if positions only drop axes."""
    leading, kept_ahead = _sliced(op, positions.leading, solver)
    trailing, kept_behind = _sliced(op, positions.trailing, solver)
    rest = Row((), solver.fresh_row(), ()) if kept_ahead or kept_behind else part
    whole = Row((*leading, *rest.leading), rest.var, (*rest.trailing, *trailing))
    demands.equals(source, kind, whole, op.result if isinstance(op, SliceOp) else source)
    for axis, position in zip((*leading, *trailing), positions.all, strict=True):
        origin = demands.origin(source, kind, source, kind)
        if isinstance(position, Range):
            demands.found.append(DimAtLeast(axis, position.minimum, origin))
        elif isinstance(position, Linear) and position.is_constant:
            demands.found.append(DimAtLeast(axis, position.constant + 1, origin))
    return Row(kept_ahead, rest.var, kept_behind) if kept_ahead or kept_behind else part


def _assign_part(demands: Demands, op: AssignOp, at: Positions, solver: Solver) -> None:
    value, target = demands.place(op.value), demands.place(op.target)
    for kind, positions in zip(ROW_KINDS, at, strict=True):
        row = _part(demands, op, op.target, kind, positions, Row((), solver.fresh_row(), ()), solver)
        origin = Origin(demands.source, target, kind, value, kind)
        demands.found.append(RowLe(row, shape_of(op.value).row(kind), origin))


def _sliced(
    op: SliceOp | AssignOp, positions: Sequence[Position], solver: Solver
) -> tuple[tuple[DimTerm, ...], tuple[DimTerm, ...]]:
    """The sizes of the axes that have positions, and of those of the part."""
    source, part = list[DimTerm](), list[DimTerm]()
    for position in positions:
        size = _range_of(op, position) if isinstance(position, Linear) else None
        source.append(solver.fresh_dim() if size is None else Dim(size))
        if isinstance(position, Range):
            part.append(Dim(position.size))
        elif isinstance(position, Ids):
            part += _axes_of_ids(op, position, solver) if position.axes else []
        elif position is None:
            part.append(source[-1])
    return tuple(source), tuple(part)


def _axes_of_ids(op: SliceOp | AssignOp, position: Ids, solver: Solver) -> list[DimTerm]:
    """The axes of ids, in the order of memory. Raises `SpecError` where their number is another one."""
    ids = op.operands[2 + position.operand]
    found = solver.shape(shape_of(ids)).memory_axes
    if len(found) != position.axes:
        raise SpecError(at_line(op, f"`{tensor_name(ids)}` has {len(found)} axes, not {position.axes}"))
    return [*found]


def _flat(demands: Demands, op: DataOp, elements: int) -> None:
    shape = shape_of(op.result)
    origin = demands.origin(op.result, "batch", op.result, "output")
    # The last open row gets the axes that no use determines.
    rows = (shape.input, shape.batch, shape.output)
    demands.found.append(TotalElements(rows, elements, origin))


def _range_of(op: SliceOp | AssignOp, index: Linear) -> int | None:
    """The range of a static index at which a tensor is sliced."""
    return None if index.variable is None else ranges_of(op).get(index.variable)


def ranges_of(op: SliceOp | AssignOp) -> Mapping[str, int | None]:
    """The ranges of static indices, from the routine or, outside one, from the operation."""
    ranges = static_ranges(op)
    if ranges is not None:
        return ranges
    noted = op.attributes.get("indices")
    return dict(noted.data) if isinstance(noted, IndicesAttr) else {}


def _spec(
    demands: Demands, text: str, values: Sequence[SSAValue], dims: Mapping[str, DimTerm], solver: Solver
) -> None:
    try:
        spec = parse_spec(text, len(values) - 1)
        check_spec(spec, text, dims, solver.dim)
    except (SpecSyntaxError, SpecError) as error:
        raise SpecError(at_line(demands.op, str(error))) from None
    place = ValueRow(values[0], "output")

    def origin() -> Origin:
        return demands.origin(place.value, place.kind, place.value, place.kind)

    rows = SpecRows(solver, spec, origin, dict(dims))
    for slot, value in zip(spec.slots, values, strict=True):
        for kind, row in zip(ROW_KINDS, slot.rows, strict=True):
            place = ValueRow(value, kind)
            demands.equals(value, kind, rows.row(row))
    rows.capture_rows()
    demands.found += rows.relations
    demands.names = rows.named()
    demands.new = {name: rows.dims[name] for name in spec.new_names()}
