"""Sums of products that are added to something: they start from it, as those of tensor cores do."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.kernel.launch import LaunchOp
from ocannl.dialects.kernel.mma import MmaOp
from ocannl.dialects.loops import ReduceOp
from ocannl.lowering.kernels.registers import Variables


def totals(launch: LaunchOp, over: Mapping[SSAValue, Variables]) -> dict[Operation, arith.AddfOp]:
    """The additions `something + sum` that have no other use of the sum, by the sums."""
    found: dict[Operation, arith.AddfOp] = {}
    for op in launch.body.walk():
        if isinstance(op, ReduceOp) and isinstance(op.yielded.owner, MmaOp) and op.accum.data == "add":
            users = [use.operation for use in op.result.uses]
            total = users[0] if len(users) == 1 else None
            if isinstance(total, arith.AddfOp) and can_start(op, total, over):
                found[op] = total
    return found


def can_start(sum: ReduceOp, total: arith.AddfOp, over: Mapping[SSAValue, Variables]) -> bool:
    """Whether the other term is known before the sum, and has the same registers."""
    start = total.lhs.owner
    if total.rhs is not sum.result or not isinstance(start, Operation):
        return False
    is_before = start.parent is sum.parent is total.parent and start.is_before_in_block(sum)
    return is_before and over[total.lhs] == over[total.result] == over[sum.result]
