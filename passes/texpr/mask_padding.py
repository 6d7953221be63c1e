"""`mask-padding`: reductions leave out what lies beyond the real size of padded axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.accumulation import neutral_number
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.precisions import is_float
from ocannl.dialects.scalar.terms import App, Arg, Const
from ocannl.dialects.shapes.shape import Dim, Row, Shape, closed_row
from ocannl.dialects.texpr import (
    ApplyOp,
    AssignOp,
    BackpropOp,
    EmbedOp,
    RangeOp,
    ScanOp,
    TensorOp,
    TexprRoutineOp,
    VjpOp,
)
from ocannl.dialects.texpr.parts import Part
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of, tensor_type
from ocannl.passes.analysis.projection import whole

WAY_OUT = "without `*` in the axes of the function, none is padded"
NOWHERE = -1
"""An id that is not a position."""
SCALAR = Shape(Row(), Row(), Row())


@dataclass
class Masking:
    """One block of a routine, in which an axis is padded if its basis is the name of a static index."""

    routine: TexprRoutineOp
    block: Block
    positions: dict[Dim, SSAValue] = field(default_factory=dict[Dim, SSAValue])
    counts: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])

    def run(self) -> None:
        """Raises `OcannlError` where rows beyond the real ones would count."""
        for op in operations_of(self.block):
            if isinstance(op, ScanOp):
                self._check_scan(op)
                Masking(self.routine, op.block).run()
            elif isinstance(op, ApplyOp):
                self._mask_apply(op)
            elif isinstance(op, AssignOp):
                self._mask_assign(op)
            elif isinstance(op, BackpropOp | VjpOp) and any(self.padded(op.tensor)):
                self._mask_cotangent(op)

    def _check_scan(self, op: ScanOp) -> None:
        """A scan of padded positions would go on beyond the last real one."""
        for value, axis in op.sequences:
            if self.padded(value)[axis.in_memory(shape_of(value))]:
                raise _error(op, "a scan of a padded axis goes on beyond the last real position")

    def padded(self, value: SSAValue) -> list[Dim | None]:
        """The sizes of padded axes, None for others, in the order of memory."""
        axes, ranges = shape_of(value).memory_axes, self.routine.ranges
        return [axis if isinstance(axis, Dim) and axis.basis in ranges else None for axis in axes]

    def _mask_apply(self, op: ApplyOp) -> None:
        if not any(axis for value in op.args for axis in self.padded(value)):
            return
        accum, parts = op.accum_name, list[Part]()
        for part in op.parts:
            combination = part.combination
            reduced = self._reduced(op, op.result, part.result_map, combination.operands, combination.maps)
            neutral = neutral_number(accum, tensor_type(op.result).element) if accum else 0.0
            parts.append(self._masked(part, neutral, reduced))
        if parts != [*op.parts]:
            op.project(parts, accum)

    def _mask_assign(self, op: AssignOp) -> None:
        if op.result_map is None or op.value_map is None or not any(map(any, map(self.padded, op.operands))):
            return
        ids = [self._without_padding(op, value, NOWHERE, i64) for value in op.ids]
        placed = {index.variable for indices in op.maps_of_ids for index in indices}
        reduced = self._reduced(op, op.target, op.result_map.data, [op.value], [op.value_map.data])
        value, accum = op.value, op.accum_name
        if accum is not None and reduced.keys() - placed:
            element = tensor_type(value).element
            value = self._without_padding(op, value, neutral_number(accum, element), element)
        op.operands = [op.target, value, *ids]

    def _mask_cotangent(self, op: BackpropOp | VjpOp) -> None:
        by = op.cotangent if isinstance(op, VjpOp) else None
        if isinstance(op, BackpropOp) or by is None or self.padded(by) != self.padded(op.tensor):
            raise _error(op, "the sum of its gradient would have padded rows: take its mean")
        op.operands = [op.tensor, op.wrt, self._without_padding(op, by, 0.0, tensor_type(by).element)]

    def _without_padding(self, op: Operation, value: SSAValue, other: float, element: Attribute) -> SSAValue:
        """A value with another one beyond the real sizes, integers in an element type."""
        axes, type = self.padded(value), tensor_type(value)
        if not any(axes):
            return value
        indices, space = whole(shape_of(value).memory_sizes, self.routine.ranges)
        names = [index.variable for index in indices]
        own = {name: axis for name, axis in zip(names, axes, strict=True) if name and axis}
        part = Part(Combination(Arg(0), (value,), (indices,)), indices, space)
        made_type = type if is_float(type.element) else TensorType.of(type.shape.data, element)
        made = ApplyOp.of_parts([self._masked(part, other, own)], made_type, None)
        made.location = op.location
        made.result.name_hint = value.name_hint and f"{value.name_hint}_masked"
        self.block.insert_op_before(made, op)
        return made.result

    def _reduced(
        self,
        op: Operation,
        result: SSAValue,
        result_map: Sequence[Linear],
        operands: Sequence[SSAValue],
        maps: Sequence[Sequence[Linear]],
    ) -> dict[str, Dim]:
        """The variables of padded axes that the result does not have."""
        found: dict[str, Dim] = {}
        for value, indices in zip(operands, maps, strict=True):
            for index, axis in zip(indices, self.padded(value), strict=True):
                if axis is not None and index.variable is None:
                    raise _error(op, "a part of a padded axis may have rows that are not real")
                if axis is not None and index.variable is not None:
                    found[index.variable] = axis
        kept = zip(result_map, self.padded(result), strict=True)
        whole_axes = {index.variable for index, axis in kept if axis is not None}
        for name in {name for index in result_map for name in index.names}.intersection(found):
            if name not in whole_axes:
                raise _error(op, "a padded axis is combined with others: its real rows would be apart")
            del found[name]
        return found

    def _masked(self, part: Part, other: float, reduced: dict[str, Dim]) -> Part:
        """The accumulation, of another value beyond the real sizes."""
        term, (operands, maps) = part.combination.term, (part.combination.operands, part.combination.maps)
        for name, axis in reduced.items():
            place = len(operands)
            real = App("lt", (Arg(place), Arg(place + 1)))
            term = App("where", (real, term, Const(other)))
            operands = (*operands, self._position(axis), self._count(axis))
            maps = (*maps, (Linear.var(name),), ())
        return Part(Combination.of(term, operands, maps), part.result_map, part.space)

    def _position(self, axis: Dim) -> SSAValue:
        if axis not in self.positions:
            shape = Shape(Row(), Row(), closed_row(axis))
            self.positions[axis] = self._add(RangeOp(TensorType.of(shape, i32)))
        return self.positions[axis]

    def _count(self, axis: Dim) -> SSAValue:
        name = axis.basis
        assert name is not None
        if name not in self.counts:
            self.counts[name] = self._add(EmbedOp(Linear.var(name), TensorType.of(SCALAR, i32)))
        return self.counts[name]

    def _add(self, op: TensorOp) -> SSAValue:
        """A leaf, before all other operations."""
        first = self.block.first_op
        assert first is not None
        op.location = self.routine.location
        self.block.insert_op_before(op, first)
        return op.result


def _error(op: Operation, why: str) -> OcannlError:
    return OcannlError(at_line(op, f"{why}; {WAY_OUT}"))


@dataclass(frozen=True)
class MaskPaddingPass(ModulePass):
    """Masks reductions over padded axes: beyond the real size, which is a static index, they accumulate
    their neutral element, as masked operations of vector machines do.
    """

    name = "mask-padding"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in op.body.block.ops:
            if isinstance(routine, TexprRoutineOp) and routine.ranges:
                Masking(routine, routine.body.block).run()
