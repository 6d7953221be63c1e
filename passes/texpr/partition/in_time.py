"""The axis of microbatches, which is in time: memory is whole, and what reads it reads a part each time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.routine import MICROBATCH
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.texpr import ApplyOp, AssignOp, ForwardOp, MemoryOp, TexprRoutineOp, ValueOp
from ocannl.dialects.texpr.placement import AskedAxis, Placement, PlacementAttr, placement_in
from ocannl.dialects.texpr.tensor_type import shape_of, tensor_type
from ocannl.passes.analysis.projection import whole
from ocannl.passes.texpr.partition.asked_axes import asked_axis


def keep_memory_whole(routine: TexprRoutineOp, microbatches: int) -> None:
    """Puts copies between memory and what reads it in parts, and between expressions that are kept in memory
    and that: the copies are divided.

    Raises `OcannlError` for an axis whose size the number of microbatches does not divide.
    """
    ops = operations_of(routine.body.block)
    for op in ops:
        if isinstance(op, MemoryOp) and (asked := placement_in(op).asked_over(MICROBATCH)) is not None:
            _read_in_parts(op, asked_axis(op, asked, MICROBATCH), microbatches, routine.ranges)
    for value in dict.fromkeys(op.tensor for op in ops if isinstance(op, ForwardOp)):
        if isinstance(value.owner, ApplyOp) and math.prod(shape_of(value).memory_sizes) > 1:
            _keep_apart(value, routine.ranges)


def _read_in_parts(op: MemoryOp, axis: int, microbatches: int, taken: Iterable[str]) -> None:
    size = shape_of(op.result).memory_sizes[axis]
    if size % microbatches:
        is_split = any(split.axis == axis for split in placement_in(op).splits)
        positions = f"{size} positions of `{op.label.data}`" + (" that a rank has" if is_split else "")
        raise OcannlError(at_line(op, f"{microbatches} microbatches do not divide the {positions}"))
    copy = _copy(op.result, taken)
    copy.properties["placement"] = PlacementAttr(Placement(((MICROBATCH, AskedAxis(None, axis)),)))
    for use in [*op.result.uses]:
        reader = use.operation
        is_target = isinstance(reader, AssignOp) and use.index == 0
        if reader is not copy and isinstance(reader, ApplyOp | AssignOp) and not is_target:
            reader.operands = [
                copy.result if index == use.index else operand
                for index, operand in enumerate(reader.operands)
            ]


def _keep_apart(value: SSAValue, taken: Iterable[str]) -> None:
    copy, hint = _copy(value, taken), value.name_hint
    copy.result.name_hint, value.name_hint = hint, hint and f"{hint}_parts"
    owner = value.owner
    assert isinstance(owner, ApplyOp)
    known = placement_in(owner)
    if known.splits:
        copy.properties["placement"] = PlacementAttr(Placement(splits=known.splits))
        owner.properties["placement"] = PlacementAttr(replace(known, splits=()))
    for use in [*value.uses]:
        if isinstance(use.operation, ForwardOp | ValueOp):
            use.operation.operands = [copy.result]


def _copy(value: SSAValue, taken: Iterable[str]) -> ApplyOp:
    owner = value.owner
    assert isinstance(owner, Operation)
    maps, space = whole(shape_of(value).memory_sizes, taken)
    copy = ApplyOp.projected(Combination.of(Arg(0), [value], [maps]), tensor_type(value), None, maps, space)
    copy.location = owner.location
    copy.result.name_hint = value.name_hint
    block = owner.parent_block()
    assert block is not None
    block.insert_op_after(copy, owner)
    return copy
