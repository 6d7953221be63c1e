"""Instructions of matrix units: each adds the products of two small matrices to a tile of accumulators."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import bf16, f16, f32, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue


@dataclass(frozen=True, slots=True)
class DotInstruction:
    """An instruction on tiles of at most 16 rows of 64 bytes (Intel, "Advanced Matrix Extensions").

    Attributes:
        name: the instruction, by which LLVM's intrinsic is called.
        feature: the feature of the processor that has it, as LLVM calls it.
        operands: the element types, and how each is widened: a float, or an integer with or without sign.
        result: the type in which products are added up.
        depth: the neighbours along the sum that each product takes from both operands: those in 32 bits.
    """

    name: str
    feature: str
    operands: tuple[tuple[Attribute, type[Operation]], tuple[Attribute, type[Operation]]]
    result: Attribute
    depth: int


# The rows of a tile, the accumulators in each of them, and its groups of neighbours along the sum.
TILE = 16

_BF16, _F16 = (bf16, arith.ExtFOp), (f16, arith.ExtFOp)
_S8, _U8 = (i8, arith.ExtSIOp), (i8, arith.ExtUIOp)

DOT_INSTRUCTIONS = {
    found.name: found
    for found in (
        DotInstruction("tdpbf16ps", "amx-bf16", (_BF16, _BF16), f32, 2),
        DotInstruction("tdpfp16ps", "amx-fp16", (_F16, _F16), f32, 2),
        DotInstruction("tdpbssd", "amx-int8", (_S8, _S8), i32, 4),
        DotInstruction("tdpbsud", "amx-int8", (_S8, _U8), i32, 4),
        DotInstruction("tdpbusd", "amx-int8", (_U8, _S8), i32, 4),
        DotInstruction("tdpbuud", "amx-int8", (_U8, _U8), i32, 4),
    )
}


def widened(value: SSAValue) -> tuple[Attribute, type[Operation]]:
    """The type of a number before it is widened, and the operation that widens it."""
    op = value.owner
    if isinstance(op, arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp):
        return op.input.type, type(op)
    return value.type, Operation


def dot_instruction(left: SSAValue, right: SSAValue, result: Attribute) -> DotInstruction | None:
    """The instruction that adds up products of two widened numbers."""
    operands = widened(left), widened(right)
    return next(
        (dot for dot in DOT_INSTRUCTIONS.values() if (dot.operands, dot.result) == (operands, result)), None
    )
