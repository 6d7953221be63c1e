"""Scalar operations of nests and kernels: those of `arith` and `math`, and functions of what is rare."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from ocannl.dialects.scalar.far_op import FarOp
from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.far import emit_far
from ocannl.lowering.llvm.instructions import emit_scalar
from ocannl.lowering.llvm.types import ValueType


def emit_operation(
    b: FunctionBuilder, op: Operation, operands: Sequence[str], type: ValueType, result: ValueType
) -> str:
    """The value of an operation on operands that are all scalars or all vectors of the same width."""
    if isinstance(op, FarOp):
        return emit_far(b, op.function.data, operands, result)
    return emit_scalar(b, op, operands, type, result)
