"""How many values a processor has to hold at the same time."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Block, SSAValue

from ocannl.dialects.ir.op_helpers import operands_of, operations_of


def most_live(block: Block) -> int:
    """The most values of a block that are computed and still needed, between any two of its operations.
    Constants do not count: instructions read them from memory.
    """
    ops = [op for op in operations_of(block) if not isinstance(op, arith.ConstantOp)]
    last = {value: at for at, op in enumerate(ops) for value in operands_of(op)}
    live, most = set[SSAValue](), 0
    for at, op in enumerate(ops):
        live.difference_update(value for value in operands_of(op) if last[value] == at)
        live.update(result for result in op.results if result in last)
        most = max(most, len(live))
    return most
