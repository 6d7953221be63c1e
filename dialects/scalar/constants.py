"""Constants of f32."""

from __future__ import annotations

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import SSAValue


def number(value: float) -> ConstantOp:
    return ConstantOp(FloatAttr(value, f32))


def constant_of(value: SSAValue) -> float | None:
    """The number that a value of f32 is, if it is constant."""
    op = value.owner
    if not isinstance(op, ConstantOp) or not isinstance(op.value, FloatAttr) or value.type != f32:
        return None
    return op.value.value.data
