"""Algebraic simplification of operations on integers and of conversions, with constant folding."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.loops import IndexOp
from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.dialects.scalar.precisions import BOOL, is_integer
from ocannl.passes.analysis.patterns.constants import integer

# On integers with a sign; the result is wrapped around.
FOLDED: Mapping[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda x, y: x + y,
    arith.SubiOp: lambda x, y: x - y,
    arith.MuliOp: lambda x, y: x * y,
    arith.AndIOp: lambda x, y: x & y,
    arith.OrIOp: lambda x, y: x | y,
    arith.XOrIOp: lambda x, y: x ^ y,
    arith.MaxSIOp: max,
    arith.MinSIOp: min,
}
RELATIONS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}
# Operations that give the first operand if the second is this.
RIGHT_NEUTRAL: Mapping[type[Operation], int] = {
    arith.AddiOp: 0,
    arith.SubiOp: 0,
    arith.MuliOp: 1,
    arith.AndIOp: -1,
    arith.OrIOp: 0,
    arith.XOrIOp: 0,
    arith.DivSIOp: 1,
    arith.DivUIOp: 1,
}
COMMUTATIVE = (arith.AddiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp)


def simplify_integers(b: ArithBuilder, op: Operation) -> SSAValue | None:
    x, y = op.operands
    known_x, known_y, type = integer(x), integer(y), op.results[0].type
    kind = op.__class__
    assert is_integer(type)
    if known_x is not None and known_y is not None and kind in FOLDED:
        return b.int_const(FOLDED[kind](known_x, known_y), type)
    neutral = RIGHT_NEUTRAL.get(kind)
    if neutral is not None and known_y == neutral:
        return x
    return y if neutral is not None and known_x == neutral and kind in COMMUTATIVE else None


def simplify_int_cmp(b: ArithBuilder, op: Operation) -> SSAValue | None:
    """Comparisons of constants, and with zero of a truth value that was converted to an integer."""
    x, y = op.operands
    predicate = op.properties["predicate"]
    assert isinstance(predicate, IntegerAttr)
    name = arith.CMPI_COMPARISON_OPERATIONS[predicate.value.data]
    known_x, known_y = integer(x), integer(y)
    assert is_integer(x.type)
    if known_x is not None and known_y is not None:
        if name.startswith("u"):
            known_x, known_y = (known % 2**x.type.bitwidth for known in (known_x, known_y))
        return b.truth_const(RELATIONS[name[-2:]](known_x, known_y))
    bit = converted_truth(x)
    if bit is not None and known_y == 0 and name in ("ne", "eq"):
        return bit if name == "ne" else b.bit_op(arith.XOrIOp, bit, b.truth_const(True))
    return None


def converted_truth(value: SSAValue) -> SSAValue | None:
    """The truth value that was converted to an integer."""
    op = value.owner
    return op.operands[0] if isinstance(op, arith.ExtUIOp) and op.operands[0].type == BOOL else None


def simplify_resize(b: ArithBuilder, op: Operation) -> SSAValue | None:
    """Extensions and truncations of constants and of truth values, and truncations of what was extended."""
    (x,), type = op.operands, op.results[0].type
    known = integer(x)
    assert is_integer(x.type)
    assert is_integer(type)
    if known is not None:
        return b.int_const(known % 2**x.type.bitwidth if isinstance(op, arith.ExtUIOp) else known, type)
    source = x.owner
    if not isinstance(source, arith.ExtUIOp | arith.ExtSIOp):
        return None
    (narrow,) = source.operands
    if isinstance(op, arith.TruncIOp):
        return narrow if narrow.type == type else None
    # What was extended without a sign has none.
    return b.convert(arith.ExtUIOp, narrow, type) if isinstance(source, arith.ExtUIOp) else None


def simplify_to_float(b: ArithBuilder, op: Operation) -> SSAValue | None:
    """Conversions of constants, indices and truth values from integers to floats."""
    (x,) = op.operands
    known, bit = integer(x), converted_truth(x)
    assert is_integer(x.type)
    if known is not None:
        has_no_sign = isinstance(op, arith.UIToFPOp)
        return b.const(float(known % 2**x.type.bitwidth if has_no_sign else known))
    if bit is not None:
        return b.truth(bit)
    if isinstance(x.owner, IndexOp) and isinstance(op, arith.SIToFPOp):
        index = IndexOp(x.owner.index, b.type)
        b.ops.append(index)
        return index.result
    return None


def simplify_integer_index(b: ArithBuilder, op: IndexOp) -> SSAValue | None:
    """An index expression that is constant, as an integer."""
    type = op.result.type
    if type not in (i32, i64) or not op.index.is_constant:
        return None
    assert is_integer(type)
    return b.int_const(op.index.constant, type)
