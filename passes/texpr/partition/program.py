"""The constraint system of a routine's placements on one mesh axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field, replace

from xdsl.dialects.builtin import FixedBitwidthType
from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import MICROBATCH
from ocannl.dialects.texpr import (
    ApplyOp,
    AssignOp,
    ConstantOp,
    EmbedOp,
    ForwardOp,
    MemoryOp,
    OfOp,
    ParamOp,
    RangeOp,
    ScanOp,
    TensorOp,
    ValueOp,
)
from ocannl.dialects.texpr.apply import MATERIALIZED
from ocannl.dialects.texpr.placement import Placement
from ocannl.dialects.texpr.tensor_type import shape_of, tensor_type
from ocannl.passes.analysis.infer_placements.problem import WHOLE, PlacedValue, Problem, Split, Step
from ocannl.passes.texpr.partition.asked_axes import asked_axis
from ocannl.passes.texpr.partition.ways import Cut, Dividing, cuts_of, cuts_of_assignment, cuts_of_other

FREE = ConstantOp | EmbedOp | RangeOp
"""Operations that each rank computes as it needs them."""


@dataclass
class Program:
    """A block of a routine, its values by the numbers that the constraint system has for them, and the ways
    of its steps.
    """

    block: Block
    mesh: str
    dividing: Dividing
    cuts_of_scan: Callable[[ScanOp, str, Dividing], list[Cut]]
    given: Mapping[SSAValue, Split] = field(default_factory=dict[SSAValue, Split])
    """The splits of arguments of the block."""
    numbers: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    values: list[PlacedValue] = field(default_factory=list[PlacedValue])
    owners: list[Operation] = field(default_factory=list[Operation])
    """The operation of each value."""
    steps: list[Step] = field(default_factory=list[Step])
    cuts: dict[Operation, list[Cut]] = field(default_factory=dict[Operation, list[Cut]])
    ops: list[Operation] = field(default_factory=list[Operation])
    """The operation of each step."""
    followers: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def problem(self) -> Problem:
        """Raises `OcannlError` for an axis that is asked and is not there."""
        ops = operations_of(self.block)
        for argument in self.block.args:
            self._number_argument(argument)
        kept = {op.tensor for op in ops if isinstance(op, ForwardOp)}
        kept |= {op.source for op in ops if isinstance(op, ValueOp)}
        for op in ops:
            if isinstance(op, TensorOp):
                self._number(op, kept)
        for op in ops:
            self._add(op)
        return Problem(self.dividing.ranks, self.values, self.steps, self.followers)

    def _number_argument(self, argument: SSAValue) -> None:
        scan = self.block.parent_op()
        assert scan is not None
        self.numbers[argument] = len(self.values)
        self.values.append(replace(placed_value(argument), given=self.given.get(argument)))
        self.owners.append(scan)

    def _number(self, op: TensorOp, kept: set[SSAValue]) -> None:
        """Numbers the results of an operation; all gradients of a value are one, and its last value is it."""
        if isinstance(op, ValueOp):
            self.numbers[op.result] = self.numbers[op.source]
            return
        if isinstance(op, OfOp):
            same = [use.operation for use in op.source.uses if type(use.operation) is type(op)]
            known = [self.numbers[each.results[0]] for each in same if each.results[0] in self.numbers]
            if known:
                self.numbers[op.result] = known[0]
                return
            self.followers.append((self.numbers[op.source], len(self.values)))
        is_weight = self._is_weight(op)
        for result in op.results:
            self.numbers[result] = len(self.values)
            self.values.append(replace(self._value(op, result, result in kept), is_weight=is_weight))
            self.owners.append(op)

    def _is_weight(self, op: TensorOp) -> bool:
        """Whether an operation is a parameter, or computed from parameters and numbers alone."""
        if isinstance(op, MemoryOp | OfOp):
            return isinstance(op, ParamOp)
        read = [self.values[self.numbers[value]] for value in op.operands]
        computed = [value for value in read if not value.free]
        return bool(computed) and all(value.is_weight for value in computed)

    def _value(self, op: TensorOp, value: SSAValue, is_kept: bool) -> PlacedValue:
        is_sum = isinstance(op, ApplyOp) and op.accum_name in (None, "add") and op.mode_name != MATERIALIZED
        return replace(
            placed_value(value),
            may_be_partial=is_sum and not is_kept,
            given=WHOLE if self._is_whole_in_time(op, is_kept) else self._given(op),
            free=isinstance(op, FREE),
        )

    def _is_whole_in_time(self, op: TensorOp, is_kept: bool) -> bool:
        """Whether the value is memory, which all microbatches share."""
        return self.mesh == MICROBATCH and (is_kept or isinstance(op, MemoryOp | OfOp))

    def _given(self, op: TensorOp) -> Split | None:
        placement = placement_of(op)
        if placement.asked == ():
            return WHOLE
        asked = placement.asked_over(self.mesh)
        if asked is None:
            return None
        axis = asked_axis(op, asked, self.mesh)
        return axis if shape_of(op.result).memory_sizes[axis] > 1 else WHOLE

    def _add(self, op: Operation) -> None:
        match op:
            case ApplyOp():
                self._need_projection(op, op.is_projected)
                self._add_step(op, [*op.args], [op.result], cuts_of(op, self.dividing), in_place=False)
            case AssignOp():
                self._need_projection(op, op.is_projected)
                cuts = cuts_of_assignment(op, self.dividing)
                self._add_step(op, [op.value, *op.ids], [op.target], cuts, in_place=True)
            case MemoryOp() | OfOp():
                pass
            case ScanOp():
                cuts = self.cuts_of_scan(op, self.mesh, self.dividing)
                self._add_step(op, [*op.operands], [*op.results], cuts, in_place=False)
            case TensorOp() if not isinstance(op, FREE):
                self._add_step(op, [*op.operands], [*op.results], cuts_of_other(op), in_place=False)
            case _:
                pass

    def _add_step(
        self,
        op: Operation,
        operands: list[SSAValue],
        results: list[SSAValue],
        cuts: list[Cut],
        *,
        in_place: bool,
    ) -> None:
        own = tuple(self.numbers[value] for value in operands)
        made = tuple(self.numbers[value] for value in results)
        places = frozenset(range(len(own), len(own) + len(made)) if in_place else ())
        self.cuts[op] = cuts
        self.ops.append(op)
        self.steps.append(Step(own, made, tuple(cut.way for cut in cuts), places))

    def _need_projection(self, op: Operation, is_projected: bool) -> None:
        if not is_projected:
            raise OcannlError(at_line(op, "an operation has no index maps yet: run infer-projections first"))


def placement_of(op: Operation) -> Placement:
    if isinstance(op, MemoryOp | OfOp | ApplyOp) and op.placement is not None:
        return op.placement.data
    return Placement()


def placed_value(value: SSAValue) -> PlacedValue:
    """A value of which nothing is given."""
    sizes, element = shape_of(value).memory_sizes, tensor_type(value).element
    assert isinstance(element, FixedBitwidthType)
    axes = tuple(axis for axis, size in enumerate(sizes) if size > 1)
    return PlacedValue(math.prod(sizes) * element.size, axes)
