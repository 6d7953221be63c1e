"""Dependencies and dependents of values in tensor expressions, through all operands or through those that
have derivatives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.ir.errors import OcannlError, at_line
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
        case ScanOp():
            return [v for v in op.operands if not isinstance(tensor_type(v).element, IntegerType)]
        case _:
            return ()


def is_once(op: Operation) -> bool:
    """Whether an operation is one of a gradient that has no derivative."""
    return isinstance(op, ApplyOp) and op.once is not None


def check_has_derivative(op: Operation) -> None:
    """Raises `OcannlError` for a gradient that has no derivative."""
    if is_once(op):
        message = "this gradient cannot be differentiated again: oc.fixed_point has first derivatives only"
        raise OcannlError(at_line(op, f"{message}, and oc.while_loop all"))


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
