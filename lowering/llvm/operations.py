"""Scalar operations of nests and kernels: those of `arith` and `math`, and the reduction of far angles."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from ocannl.dialects.scalar.far_angle_op import FarAngleOp
from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.far_angle import emit_far_angle
from ocannl.lowering.llvm.instructions import emit_scalar
from ocannl.lowering.llvm.types import ValueType


def emit_operation(
    b: FunctionBuilder, op: Operation, operands: Sequence[str], type: ValueType, result: ValueType
) -> str:
    """The value of an operation on operands that are all scalars or all vectors of the same width."""
    if isinstance(op, FarAngleOp):
        return emit_far_angle(b, op, operands[0], operands[1], type)
    return emit_scalar(b, op, operands, type, result)
