"""Backward slices: the operations on which values depend, directly or through others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.ir.op_helpers import operands_of, operations_of
from ocannl.dialects.loops import ReduceOp
from ocannl.passes.analysis.nests import operations

# The operands of an operation through which a slice continues.
OperandsOf: TypeAlias = Callable[[Operation], Sequence[SSAValue]]


def operands_with_body(op: Operation) -> Sequence[SSAValue]:
    """The operands of an operation, and those of the operations in the body of a reduction."""
    if type(op) is not ReduceOp:  # `isinstance` takes several times as long
        return operands_of(op)
    return [operand for inner in operations(op.body.block) for operand in operands_of(inner)]


def backward_slice(values: Iterable[SSAValue], operands: OperandsOf = operands_with_body) -> set[Operation]:
    """The operations on which values depend, in all blocks, those that define the values among them."""
    found: set[Operation] = set()
    waiting = [value.owner for value in values]
    while waiting:
        op = waiting.pop()
        if op not in found and not isinstance(op, Block):
            found.add(op)
            waiting += [operand.owner for operand in operands(op)]
    return found


def slice_in(
    block: Block, values: Iterable[SSAValue], operands: OperandsOf = operands_with_body
) -> list[Operation]:
    """The operations of a block that belong to the backward slice of values, in their order."""
    needed = backward_slice(values, operands)
    return [op for op in operations_of(block) if op in needed]
