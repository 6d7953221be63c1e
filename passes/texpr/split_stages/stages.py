"""The stage of each value of a routine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

from xdsl.dialects.builtin import FixedBitwidthType
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.records import dataclass
from ocannl.dialects.texpr import ApplyOp, AssignOp, GradOp, MemoryOp, OfOp, ParamOp, TensorOp, ValueOp
from ocannl.dialects.texpr.placement import placement_in
from ocannl.dialects.texpr.tensor_type import shape_of, tensor_type


@dataclass
class Stages:
    """The stages of values. What has none is computed, or held, by each stage that reads it: data, numbers,
    random numbers, and what follows from these alone.

    Parameters have stages, and what goes from one stage to another. Other operations are where most bytes
    of their operands are, and memory that code writes where it is written from. On a mesh without stages all
    are one.
    """

    ops: Sequence[Operation]
    count: int
    known: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def infer(self) -> None:
        """Raises `OcannlError` for a stage that the mesh has not."""
        for op in self.ops:
            if isinstance(op, MemoryOp) and (stage := placement_in(op).stage) is not None:
                self.known[op.result] = self._checked(op, stage)
        self._follow()
        for op in self.ops:
            if isinstance(op, ParamOp) and op.result not in self.known:
                users = [result for use in op.result.uses for result in use.operation.results]
                self.known[op.result] = min([self.known[v] for v in users if v in self.known], default=0)
                self._follow()

    def of(self, value: SSAValue) -> int | None:
        return self.known.get(value)

    def _checked(self, op: Operation, stage: int) -> int:
        if self.count == 1:
            return 0
        if stage >= self.count:
            message = f'there is no stage {stage}: the mesh has {self.count} ranks along "stage", from 0 on'
            raise OcannlError(at_line(op, message))
        return stage

    def _follow(self) -> None:
        """Decides what follows from what is known, until nothing does."""
        while sum([self._decide(op) for op in self.ops]):
            pass

    def _decide(self, op: Operation) -> bool:
        values = [memory_key(op.target)] if isinstance(op, AssignOp) else [*op.results]
        if not values or all(value in self.known for value in values):
            return False
        stage = self._stage(op)
        if stage is not None:
            self.known.update(dict.fromkeys(values, stage))
        return stage is not None

    def _stage(self, op: Operation) -> int | None:
        if isinstance(op, ApplyOp) and op.moves is not None:
            return self._checked(op, op.moves[1])
        if isinstance(op, OfOp):
            return self.known.get(op.source, self.known.get(memory_key(op.result)))
        if not isinstance(op, TensorOp | AssignOp):
            return None
        read = op.operands[1:] if isinstance(op, AssignOp) else op.operands
        own = [value for value in dict.fromkeys(read) if value in self.known]
        stages = {self.known[value] for value in own}
        if len(stages) <= 1:
            return next(iter(stages), None)
        bytes_of = {stage: sum(size_of(v) for v in own if self.known[v] == stage) for stage in stages}
        return max(stages, key=lambda stage: (bytes_of[stage], stage))


def memory_key(value: SSAValue) -> SSAValue:
    """The one value that stands for memory: all gradients of a value are one, and its last value is it."""
    op = value.owner
    if isinstance(op, ValueOp):
        return op.source
    if isinstance(op, GradOp):
        return next(use.operation.result for use in op.source.uses if isinstance(use.operation, GradOp))
    return value


def size_of(value: SSAValue) -> int:
    """The bytes of a value."""
    element = tensor_type(value).element
    assert isinstance(element, FixedBitwidthType)
    return math.prod(shape_of(value).memory_sizes) * element.size
