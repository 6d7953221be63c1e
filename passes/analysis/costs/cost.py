"""The cost of scalar operations, in instructions of a processor with vectors.

The unit is one vector instruction, such as an addition or `math.fma`. A division or a square root keeps its
port busy for about as long as six of them (vectors of 128 bits, in Agner Fog's "Instruction tables" and on
uops.info). A function or a random number costs the operations of its expansion for f32 by `expand-math`; a
conversion of a small float, the instructions that it becomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import BFloat16Type, Float8E4M3FNType, Float8E5M2Type, Float16Type
from xdsl.ir import Attribute, Operation

from ocannl.dialects.loops import IndexOp, LoadOp, ReduceOp, StoreOp, UniformOp, YieldOp
from ocannl.dialects.scalar.far_op import FarOp
from ocannl.dialects.scalar.remainder_op import RemainderOp

# Loads and stores are costed by where their data lies, and the body of a reduction by itself.
FREE = (arith.ConstantOp, IndexOp, LoadOp, StoreOp, ReduceOp, YieldOp)
# All other operations are one instruction.
INSTRUCTIONS: Mapping[type[Operation], int] = {
    arith.DivfOp: 6,
    math.SqrtOp: 6,
    math.ExpOp: 26,
    math.Exp2Op: 25,
    math.LogOp: 32,
    math.Log2Op: 32,
    math.SinOp: 22,
    math.CosOp: 24,
    math.TanOp: 47,
    math.AsinOp: 18,
    math.AcosOp: 23,
    math.AtanOp: 24,
    math.Atan2Op: 41,
    math.SinhOp: 29,
    math.CoshOp: 24,
    math.ExpM1Op: 28,
    math.Log1pOp: 43,
    math.Log10Op: 34,
    math.TanhOp: 24,
    math.ErfOp: 26,
    math.PowFOp: 128,
    RemainderOp: 16,
    FarOp: 2,
    UniformOp: 222,
}
# Instructions that widen a small float to f32, and that narrow an f32 to it.
CONVERSIONS: Mapping[type[Attribute], tuple[int, int]] = {
    Float16Type: (3, 2),
    BFloat16Type: (2, 8),
    Float8E5M2Type: (10, 16),
    Float8E4M3FNType: (10, 14),
}


def instructions(op: Operation) -> int:
    """The instructions of one evaluation of an operation, without the body of a reduction."""
    return _of_kind(type(op))


def length(op: Operation) -> int:
    """The instructions of the code of an operation: a division is one, however long its port is busy."""
    return 1 if isinstance(op, arith.DivfOp | math.SqrtOp) else instructions(op)


@cache
def _of_kind(kind: type[Operation]) -> int:
    return 0 if issubclass(kind, FREE) else INSTRUCTIONS.get(kind, 1)
