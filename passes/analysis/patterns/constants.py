"""Scalar values that are constants of the program."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import SSAValue


def number(value: SSAValue) -> float | None:
    """The number, if the value is a constant of a float type."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp):
        attribute = owner.value
        if isinstance(attribute, FloatAttr):
            return attribute.value.data
    return None


def integer(value: SSAValue) -> int | None:
    """The number, with its sign, if the value is a constant of an integer type."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def truth(value: SSAValue) -> bool | None:
    """The truth, if the value is a constant `i1`."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp):
        attribute = owner.value
        if isinstance(attribute, IntegerAttr) and value.type == TRUE.type:
            return bool(attribute.value.data)
    return None


TRUE = IntegerAttr(-1, 1)
