"""Dependencies and dependents of values in tensor expressions, through all operands or through those that
have derivatives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.texpr import ApplyOp, ScanOp, SliceOp
from ocannl.dialects.texpr.derivatives import CustomOp, JvpOp, VjpOp
from ocannl.dialects.texpr.scan_arguments import ResultOp
from ocannl.dialects.texpr.tensor_type import tensor_type
from ocannl.passes.analysis.values.slices import OperandsOf, slice_in


def all_operands(op: Operation) -> Sequence[SSAValue]:
    return op.operands


def differentiable_operands(op: Operation) -> Sequence[SSAValue]:
    """The operands with respect to which an operation has a derivative."""
    match op:
        case ApplyOp(stop=None):
            return op.args
        case SliceOp():
            return [op.source]
        case CustomOp():
            return op.wrt
        case VjpOp() | JvpOp() | ResultOp():
            return op.operands
        case ScanOp(within=None):
            return [v for v in op.operands if not isinstance(tensor_type(v).element, IntegerType)]
        case ScanOp():  # Where a fixed point is does not depend on where the search for it begins.
            return [v for v in op.captured if not isinstance(tensor_type(v).element, IntegerType)]
        case _:
            return ()


def dependencies(
    block: Block, values: Iterable[SSAValue], operands_of: OperandsOf = differentiable_operands
) -> list[Operation]:
    """The backward slice of values in a block, in its order, without operations that have no operands."""
    return [op for op in slice_in(block, values, operands_of) if operands_of(op)]


def dependents(
    ops: Iterable[Operation], sources: Iterable[SSAValue], operands_of: OperandsOf = differentiable_operands
) -> set[SSAValue]:
    """The forward slice of `sources` in operations given in order: the sources, and the results that depend
    on them.
    """
    found = set(sources)
    for op in ops:
        if any(operand in found for operand in operands_of(op)):
            found.update(op.results)
    return found
