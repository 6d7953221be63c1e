"""Functions that may be approximated by an instruction of hardware: `fastmath<afn>`."""

from __future__ import annotations

from xdsl.dialects.arith import ConstantOp, DivfOp, FastMathFlagsAttr
from xdsl.dialects.builtin import Float32Type, FloatAttr
from xdsl.dialects.math import Exp2Op, ExpOp
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation

APPROXIMATE = FastMathFlagsAttr([FastMathFlag.APPROX_FUNC])


def is_approximate(op: Operation) -> bool:
    """Whether an operation is an exponential or a reciprocal of f32 that may be approximated."""
    if not isinstance(op, ExpOp | Exp2Op | DivfOp) or op.result.type != Float32Type():
        return False
    return op.fastmath == APPROXIMATE and (not isinstance(op, DivfOp) or is_one(op.lhs.owner))


def is_one(op: object) -> bool:
    return isinstance(op, ConstantOp) and isinstance(op.value, FloatAttr) and op.value.value.data == 1
