"""Functions that may be approximated by instructions of hardware: `fastmath<afn>`.

Exponentials take subnormal numbers as 0, and so do reciprocals that are `fastmath<arcp,afn>`; quotients and
tanh do not. A tanh that is `fastmath<arcp>` becomes arithmetic with an approximate quotient. Zeros,
infinities and NaN are as in IEEE 754.
"""

from __future__ import annotations

from typing import TypeAlias

from xdsl.dialects.arith import ConstantOp, DivfOp, FastMathFlagsAttr
from xdsl.dialects.builtin import Float32Type, FloatAttr
from xdsl.dialects.math import ErfOp, Exp2Op, ExpOp, TanhOp
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation

APPROXIMATE = FastMathFlagsAttr([FastMathFlag.APPROX_FUNC])
# A reciprocal of what is no subnormal number.
RECIPROCAL = FastMathFlagsAttr([FastMathFlag.ALLOW_RECIP, FastMathFlag.APPROX_FUNC])

QUOTIENT_ALONE = FastMathFlagsAttr([FastMathFlag.ALLOW_RECIP])

# Those that become an instruction each. `exp` and `erf` become arithmetic with such.
Instruction: TypeAlias = Exp2Op | TanhOp | DivfOp


def is_approximate(op: Operation) -> bool:
    """Whether an operation is a function or a quotient of f32 that may be approximated."""
    if not isinstance(op, Instruction | ExpOp | ErfOp) or op.results[0].type != Float32Type():
        return False
    return op.fastmath == APPROXIMATE or (op.fastmath == RECIPROCAL and is_reciprocal(op))


def has_approximate_quotient(op: Operation) -> bool:
    return isinstance(op, TanhOp) and op.fastmath == QUOTIENT_ALONE


def is_reciprocal(op: Operation) -> bool:
    return isinstance(op, DivfOp) and is_one(op.lhs.owner)


def is_one(op: object) -> bool:
    return isinstance(op, ConstantOp) and isinstance(op.value, FloatAttr) and op.value.value.data == 1
