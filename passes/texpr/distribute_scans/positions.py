"""Operations of the body of a scan, as operations over all of its positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.linear import Linear, Map, Space
from ocannl.dialects.ir.op_helpers import copied
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import static_ranges
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.texpr import ApplyOp, ConstantOp, ScanOp
from ocannl.dialects.texpr.apply import MATERIALIZED
from ocannl.dialects.texpr.axes import Axis
from ocannl.dialects.texpr.parts import Part
from ocannl.dialects.texpr.tensor_type import shape_of

FIRST = Axis("batch", 0)
"""The axis of positions in what moves: each position's part is in one piece."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A value outside of a scan that stands for one of its body: for all positions along an axis in the order
    of memory, or the same for all.
    """

    value: SSAValue
    axis: int | None

    def map(self, indices: Map, position: Linear) -> Map:
        """The indices of the value, given those of the one in the body."""
        if self.axis is None:
            return indices
        return (*indices[: self.axis], position, *indices[self.axis :])


@dataclass
class Positions:
    """The values outside of one scan that stand for those of its body."""

    scan: ScanOp
    moved: set[Operation]
    """Those operations that are computed outside."""
    before: bool
    """Whether they are computed before the scan."""
    known: dict[SSAValue, Stack] = field(default_factory=dict[SSAValue, Stack])
    made: list[Operation] = field(default_factory=list[Operation])

    def stack(self, value: SSAValue) -> Stack:
        """The stand-in of a value that is computed, or that the scan yields."""
        if value not in self.known:
            self.known[value] = self._stack(value)
        return self.known[value]

    def _stack(self, value: SSAValue) -> Stack:
        scan, owner = self.scan, value.owner
        if value in scan.captured_arguments:
            return Stack(scan.captured[scan.captured_arguments.index(value)], None)
        if value in scan.sequence_arguments:
            whole, axis = scan.sequences[scan.sequence_arguments.index(value)]
            return Stack(whole, axis.in_memory(shape_of(whole)))
        if isinstance(owner, ConstantOp):
            self.made.append(copied(owner, {}))
            return Stack(self.made[-1].results[0], None)
        if owner in self.moved:
            assert isinstance(owner, ApplyOp)
            axis = self.axis(owner)
            whole = self.whole(owner, axis).result
            return Stack(whole, axis.in_memory(shape_of(whole)))
        assert not self.before, "what moves before a scan depends on nothing that stays"
        whole, axis = scan.stack(value, FIRST)
        return Stack(whole, axis.in_memory(shape_of(whole)))

    def axis(self, op: ApplyOp) -> Axis:
        """The axis of positions in the results of an operation. Before a scan it is that of the first
        sequence which it reads, so that the axes of a batch of positions stay in one order, as one loop.
        """
        scan, axes = self.scan, list[Axis]()
        for operand in op.args if self.before else ():
            if operand in scan.sequence_arguments:
                axes.append(scan.sequences[scan.sequence_arguments.index(operand)][1])
        return axes[0] if axes and axes[0].row == "batch" else FIRST

    def whole(self, op: ApplyOp, axis: Axis) -> ApplyOp:
        """The results of an operation at all positions, along an axis."""
        type = self.scan.stack_type(op.result, axis)
        result = Stack(op.result, axis.in_memory(type.shape.data))
        name, space = self._position(op)
        parts = [self._part(part, result.map(part.result_map, name), name, space) for part in op.parts]
        # No program has a name for the values of all positions, by which memory that stays would be known.
        mode = None if op.mode_name == MATERIALIZED else op.mode_name
        made = ApplyOp.of_parts(parts, type, op.accum_name, mode=mode)
        return self._made(made, op)

    def total(self, op: ApplyOp) -> ApplyOp:
        """The sum of an operation that adds up, or that sets each cell once, over all positions."""
        name, space = self._position(op)
        parts = [self._part(part, part.result_map, name, space) for part in op.parts]
        return self._made(ApplyOp.of_parts(parts, op.result.type, "add"), op)

    def _made(self, made: ApplyOp, source: ApplyOp) -> ApplyOp:
        made.location = source.location
        made.result.name_hint = source.result.name_hint
        self.made.append(made)
        return made

    def _part(self, part: Part, result_map: Map, position: Linear, space: Space) -> Part:
        own = part.combination
        stacks = [self.stack(operand) for operand in own.operands]
        maps = [stack.map(indices, position) for stack, indices in zip(stacks, own.maps, strict=True)]
        combination = Combination.of(own.term, [stack.value for stack in stacks], maps)
        return Part(combination, result_map, (*space, *part.space))

    def _position(self, op: ApplyOp) -> tuple[Linear, Space]:
        """The index of the position, and its space; one position is 0."""
        if self.scan.size == 1:
            return Linear(), ()
        taken = {name for part in op.parts for name, _ in part.space} | (
            static_ranges(self.scan) or {}
        ).keys()
        name = unused(self.scan.index, taken)
        return Linear.var(name), ((name, self.scan.size),)


def unused(name: str, taken: set[str]) -> str:
    number = 0
    while (own := f"{name}{number or ''}") in taken:
        number += 1
    return own


def is_movable(op: Operation, scan: ScanOp) -> bool:
    """Whether an operation of a scan can be computed for all positions at once: it has not the number of the
    iteration in its maps.
    """
    if not isinstance(op, ApplyOp) or not op.is_projected:
        return False
    maps = (m for part in op.parts for m in (part.result_map, *part.combination.maps))
    return not any(index.coefficient(scan.index) for indices in maps for index in indices)


def users(value: SSAValue) -> Sequence[Operation]:
    return [use.operation for use in value.uses]
