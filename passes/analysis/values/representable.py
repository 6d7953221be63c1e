"""Values that a narrower float has, too, so that nothing is rounded where they become such."""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Attribute, SSAValue

from ocannl.dialects.scalar.small_floats import small_format, small_value

FAR = 8
"""So many operations away a value is not looked at."""


def is_representable(value: SSAValue, type: Attribute, far: int = FAR) -> bool:
    """Whether a value surely is one of a small float type: it was such, and only its sign was changed, or it
    was chosen among such.
    """
    op, operands = value.owner, list[SSAValue]()
    match op:
        case arith.ExtFOp():
            return op.input.type == type
        case arith.ConstantOp():
            return isinstance(op.value, FloatAttr) and _has(type, op.value.value.data)
        case arith.NegfOp() | math.AbsFOp() | arith.MaximumfOp() | arith.MinimumfOp():
            operands = [*op.operands]
        case math.CopySignOp():
            operands = [op.lhs]
        case arith.SelectOp():
            operands = [op.lhs, op.rhs]
        case _:
            pass
    return bool(operands) and far > 0 and all(is_representable(each, type, far - 1) for each in operands)


def _has(type: Attribute, number: float) -> bool:
    format = small_format(type)
    return format is not None and small_value(number, format) == number
