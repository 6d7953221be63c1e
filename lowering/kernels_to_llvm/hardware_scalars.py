"""Scalar operations for which NVIDIA's GPUs have instructions that LLVM does not select by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from xdsl.dialects import arith
from xdsl.dialects.builtin import bf16, f32
from xdsl.dialects.math import Exp2Op, TanhOp
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.approximate import RECIPROCAL, is_approximate
from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.instructions import INTRINSICS, LIBRARY
from ocannl.passes.loops.expand_math import way_without

# Functions of `math` that the hardware has, exactly rounded.
ON_DEVICE = {
    *("fabs", "ceil", "floor", "trunc", "nearbyint", "round", "copysign", "fma", "sqrt"),
    *("maxnum", "minnum", "smax", "smin", "umax", "umin"),
}
# Approximations of f32: the first two take subnormal numbers as 0, within 2^-22; quotients are within 2 ulp,
# and tanh within 2^-11. Text of PTX, where intrinsics are not those of all versions of LLVM.
EXP2 = "call float @llvm.nvvm.ex2.approx.ftz.f(float {})"
RCP = "call float @llvm.nvvm.rcp.approx.ftz.f(float {})"
QUOTIENT = 'call float asm "div.full.f32 $0, $1, $2;", "=f,f,f"(float {}, float {})'
TANH = 'call float asm "tanh.approx.f32 $0, $1;", "=f,f"(float {})'
# The f32 whose upper half is a rounded one: a conversion of a pair, the other of which is zero.
PAIR = "call <2 x bfloat> @llvm.nvvm.ff2bf16x2.rn(float {}, float 0.0)"
UPPER_HALF = "bitcast <2 x bfloat> {} to float"


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions for one operation: the first has operands, and each other one takes the result before."""

    operands: Sequence[SSAValue]
    texts: tuple[str, ...]

    def emit(self, b: FunctionBuilder, values: Sequence[str]) -> str:
        for text in self.texts:
            values = [b.emit(text.format(*values))]
        return values[0]


def hardware_instructions(op: Operation) -> Instructions | None:
    """Those of an operation; None if LLVM selects them. Raises `OcannlError` for what the hardware lacks."""
    if is_approximate(op):
        match op:
            case Exp2Op():
                return Instructions(op.operands, (EXP2,))
            case TanhOp():
                return Instructions(op.operands, (TANH,))
            case arith.DivfOp():
                if op.fastmath == RECIPROCAL:
                    return Instructions([op.rhs], (RCP,))
                return Instructions(op.operands, (QUOTIENT,))
            case _:
                pass
    if isinstance(op, arith.ExtFOp) and rounds_to_bf16(op.input.owner):
        return Instructions(op.input.owner.operands, (PAIR, UPPER_HALF))
    function = INTRINSICS.get(type(op)) or LIBRARY.get(type(op))
    if function is not None and function not in ON_DEVICE:
        wanted = f"`{op.name}` of {op.results[0].type}"
        raise OcannlError(at_line(op, f"the GPU has no {wanted}{way_without(op)}"))
    return None


def rounds_to_bf16(op: object) -> TypeGuard[arith.TruncFOp]:
    return isinstance(op, arith.TruncFOp) and op.input.type == f32 and op.result.type == bf16
