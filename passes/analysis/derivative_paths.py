"""Which operations lie between values, by all operands or by those that derivatives go through."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.texpr import ApplyOp
from ocannl.dialects.texpr.derivatives import CustomOp, JvpOp, VjpOp

OperandsOf: TypeAlias = Callable[[Operation], Sequence[SSAValue]]


def all_operands(op: Operation) -> Sequence[SSAValue]:
    return op.operands


def differentiable_operands(op: Operation) -> Sequence[SSAValue]:
    """What the derivative of an operation's result goes to."""
    match op:
        case ApplyOp(stop=None):
            return op.args
        case CustomOp():
            return op.wrt
        case VjpOp() | JvpOp():
            return op.operands
        case _:
            return ()


def dependencies(
    block: Block, values: Iterable[SSAValue], operands_of: OperandsOf = differentiable_operands
) -> list[Operation]:
    """The operations with operands that values depend on, in the order of the program."""
    needed: set[Operation] = set()
    stack = [value.owner for value in values]
    while stack:
        op = stack.pop()
        if isinstance(op, Operation) and op not in needed and (operands := operands_of(op)):
            needed.add(op)
            stack += [operand.owner for operand in operands]
    return [op for op in block.ops if op in needed]


def dependents(
    ops: Iterable[Operation],
    sources: Iterable[SSAValue],
    operands_of: OperandsOf = differentiable_operands,
) -> set[SSAValue]:
    """The sources, and the results of those of `ops`, in the order of the program, that depend on them."""
    found = set(sources)
    for op in ops:
        if any(operand in found for operand in operands_of(op)):
            found.update(op.results)
    return found
