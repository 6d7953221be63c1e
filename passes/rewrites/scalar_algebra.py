"""Algebraic simplification of scalar operations, with constant folding: a peephole rule for each kind of
operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerAttr, f32
from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.loops import IndexOp, ReduceOp
from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.dialects.scalar.small_floats import small_format, small_value
from ocannl.passes.analysis.patterns.constants import TRUE, number, truth
from ocannl.passes.rewrites.integer_algebra import (
    simplify_int_cmp,
    simplify_integer_index,
    simplify_integers,
    simplify_resize,
    simplify_to_float,
)

LARGEST = {Float32Type: 3.4028234663852886e38, Float64Type: 1.7976931348623157e308}
INFINITE_NEUTRAL: Mapping[type[Operation], float] = {arith.MaximumfOp: -math.inf, arith.MinimumfOp: math.inf}


def negated(value: SSAValue) -> SSAValue | None:
    """`x` of `-x`."""
    return value.owner.operands[0] if isinstance(value.owner, arith.NegfOp) else None


def inverted(value: SSAValue) -> SSAValue | None:
    """`x` of `not x`, which is `x` exclusive or true."""
    owner = value.owner
    return owner.operands[0] if isinstance(owner, arith.XOrIOp) and truth(owner.operands[1]) else None


def product(value: SSAValue, user: Operation) -> tuple[SSAValue, SSAValue] | None:
    """The factors of a product whose only user is `user`, in the same block."""
    owner = value.owner
    if isinstance(owner, arith.MulfOp) and owner.parent is user.parent and value.has_one_use():
        return owner.operands[0], owner.operands[1]
    return None


def is_power_of_two(value: float) -> bool:
    """Whether a number is a power of two with an exact reciprocal that is normal in every float type."""
    return math.isfinite(value) and abs(math.frexp(value)[0]) == 0.5 and 2.0**-100 < abs(value) < 2.0**100


def is_zero(value: float | None, sign: int) -> bool:
    """Whether a number is the zero of a sign: `x + 0.0` is not x where that is -0.0."""
    return value == 0 and math.copysign(1, value) == sign


def constant(b: ArithBuilder, value: float) -> SSAValue | None:
    """A constant; None for a number out of the range of the type, which is computed at run time."""
    return b.const(value) if abs(value) <= LARGEST[type(b.type)] else None


def simplify_add(b: ArithBuilder, op: Operation) -> SSAValue | None:
    x, y = op.operands
    known_x, known_y = number(x), number(y)
    if known_x is not None and known_y is not None:
        return constant(b, known_x + known_y)
    if is_zero(known_y, -1):
        return x
    if known_x == 0:  # where an accumulation starts: it has no sign
        return y
    if (minus_y := negated(y)) is not None:
        return b.sub(x, minus_y)
    if (minus_x := negated(x)) is not None:
        return b.sub(y, minus_x)
    if (factors := product(x, op)) is not None:
        return b.fma(*factors, y)
    if (factors := product(y, op)) is not None:
        return b.fma(*factors, x)
    return None


def simplify_sub(b: ArithBuilder, op: Operation) -> SSAValue | None:
    x, y = op.operands
    known_x, known_y = number(x), number(y)
    if known_x is not None and known_y is not None:
        return constant(b, known_x - known_y)
    if is_zero(known_y, 1):
        return x
    if is_zero(known_x, -1):
        return b.neg(y)
    if (minus_y := negated(y)) is not None:
        return b.add(x, minus_y)
    if (factors := product(y, op)) is not None:
        factor, other = factors if number(factors[1]) is None else reversed(factors)
        return b.fma(_negate(b, factor), other, x)
    if (factors := product(x, op)) is not None:
        return b.fma(*factors, _negate(b, y))
    return None


def _negate(b: ArithBuilder, x: SSAValue) -> SSAValue:
    known = number(x)
    return b.neg(x) if known is None else b.const(-known)


def simplify_mul(b: ArithBuilder, op: Operation) -> SSAValue | None:
    x, y = op.operands
    known_x, known_y = number(x), number(y)
    if known_x is not None and known_y is not None:
        return constant(b, known_x * known_y)
    minus_x, minus_y = negated(x), negated(y)
    if minus_x is not None and minus_y is not None:
        return b.mul(minus_x, minus_y)
    return _scale(b, x, known_y, minus_x) or _scale(b, y, known_x, minus_y)


def _scale(b: ArithBuilder, x: SSAValue, factor: float | None, minus_x: SSAValue | None) -> SSAValue | None:
    if factor is None:
        return None
    if factor == 1:
        return x
    if factor == -1:
        return b.neg(x) if minus_x is None else minus_x
    return None if minus_x is None else b.mul(minus_x, b.const(-factor))


def simplify_div(b: ArithBuilder, op: Operation) -> SSAValue | None:
    x, y = op.operands
    known_x, known_y = number(x), number(y)
    if known_y is not None:
        if known_x is not None and known_y != 0:
            return constant(b, known_x / known_y)
        if known_y == 1:
            return x
        if is_power_of_two(known_y):
            return b.mul(x, b.const(1 / known_y))
    minus_x, minus_y = negated(x), negated(y)
    return b.div(minus_x, minus_y) if minus_x is not None and minus_y is not None else None


def simplify_neg(b: ArithBuilder, op: Operation) -> SSAValue | None:
    (x,) = op.operands
    known = number(x)
    if known is not None:
        return b.const(-known)
    return negated(x)


def simplify_abs(b: ArithBuilder, op: Operation) -> SSAValue | None:
    (x,) = op.operands
    known, minus_x = number(x), negated(x)
    if known is not None:
        return b.const(abs(known))
    if minus_x is not None:
        return b.float_op(math_dialect.AbsFOp, minus_x)
    return x if isinstance(x.owner, math_dialect.AbsFOp) else None


def simplify_extreme(b: ArithBuilder, op: Operation) -> SSAValue | None:
    """`arith.maximumf` and `arith.minimumf` of equal operands, of their neutral element, or applied twice."""
    x, y = op.operands
    neutral = INFINITE_NEUTRAL[type(op)]
    for value in (x, y):
        known = number(value)
        if known is not None and math.isnan(known):
            return value
    if x is y or number(y) == neutral:
        return x
    if number(x) == neutral:
        return y
    if isinstance(x.owner, type(op)) and number(y) is not None and number(x.owner.operands[1]) == number(y):
        return x
    return None


def simplify_fma(b: ArithBuilder, op: Operation) -> SSAValue | None:
    x, y, z = op.operands
    known_x, known_y = number(x), number(y)
    if known_x is not None and abs(known_x) == 1:
        x, y, known_y = y, x, known_x
    if known_y == 1:
        return b.add(x, z)
    if known_y == -1:
        return b.sub(z, x)
    return b.mul(x, y) if is_zero(number(z), -1) else None


def simplify_cmp(b: ArithBuilder, op: Operation) -> SSAValue | None:
    """Comparisons of constants, and of a truth value that was converted to a number."""
    x, y = op.operands
    predicate = op.properties["predicate"]
    assert isinstance(predicate, IntegerAttr)
    name = arith.CMPF_COMPARISON_OPERATIONS[predicate.value.data]
    known_x, known_y = number(x), number(y)
    if known_x is not None and known_y is not None:
        return b.truth_const(compare(name, known_x, known_y))
    if known_y == 0 and isinstance(x.owner, arith.UIToFPOp) and x.owner.operands[0].type == TRUE.type:
        bit = x.owner.operands[0]
        if name in ("une", "one", "ogt", "ugt"):
            return bit
        if name in ("oeq", "ueq", "ole", "ule"):
            return b.bit_op(arith.XOrIOp, bit, b.truth_const(True))
    return None


def compare(predicate: str, x: float, y: float) -> bool:
    """The result of `arith.cmpf` on two numbers."""
    if predicate in ("false", "true"):
        return predicate == "true"
    unordered = math.isnan(x) or math.isnan(y)
    if predicate in ("ord", "uno"):
        return unordered == (predicate == "uno")
    if unordered:
        return predicate[0] == "u"
    relations = {"eq": x == y, "gt": x > y, "ge": x >= y, "lt": x < y, "le": x <= y, "ne": x != y}
    return relations[predicate[1:]]


def simplify_select(b: ArithBuilder, op: Operation) -> SSAValue | None:
    condition, x, y = op.operands
    if x is y or _is_same_constant(x, y):
        return x
    known = truth(condition)
    if known is not None:
        return x if known else y
    if (opposite := inverted(condition)) is not None:
        return b.select(opposite, y, x)
    return None


def _is_same_constant(x: SSAValue, y: SSAValue) -> bool:
    a, b = x.owner, y.owner
    return isinstance(a, arith.ConstantOp) and isinstance(b, arith.ConstantOp) and a.value == b.value


def simplify_truth(b: ArithBuilder, op: Operation) -> SSAValue | None:
    known = truth(op.operands[0])
    return simplify_to_float(b, op) if known is None else b.const(float(known))


def simplify_logic(b: ArithBuilder, op: Operation) -> SSAValue | None:
    """`and`, `or` and `xor` of truth values with a constant or with themselves."""
    x, y = op.operands
    for value, other in ((x, y), (y, x)):
        known = truth(other)
        if known is None:
            continue
        if isinstance(op, arith.XOrIOp):
            return inverted(value) if known else value
        return value if known == isinstance(op, arith.AndIOp) else other
    return x if x is y and not isinstance(op, arith.XOrIOp) else None


def simplify_bits(b: ArithBuilder, op: Operation) -> SSAValue | None:
    return simplify_logic(b, op) if op.results[0].type == TRUE.type else simplify_integers(b, op)


def simplify_extend(b: ArithBuilder, op: Operation) -> SSAValue | None:
    (x,) = op.operands
    format = small_format(x.type)
    if format is None:
        known = number(x)
        return None if known is None else b.const(known)
    narrowed = x.owner.operands[0] if isinstance(x.owner, arith.TruncFOp) else x
    if narrowed is not x and is_extreme_of(narrowed, x.type):
        return narrowed
    known = number(narrowed) if narrowed.type == f32 else None
    return None if known is None else constant(b, small_value(known, format))


def is_extreme_of(value: SSAValue, small: Attribute) -> bool:
    """Whether a value is the greatest or the least of numbers of a small type, and so one of that type."""
    reduce = value.owner
    if not isinstance(reduce, ReduceOp) or reduce.accum.data not in ("max", "min") or reduce.where:
        return False
    widened = reduce.yielded.owner
    is_widened = isinstance(widened, arith.ExtFOp) and widened.input.type == small
    return is_widened and all(size for _, size in reduce.space.data)


def simplify_truncate(b: ArithBuilder, op: Operation) -> SSAValue | None:
    (x,), type = op.operands, op.results[0].type
    known = number(x)
    if known is not None and small_format(type) is None:
        return constant(b, known)
    if isinstance(x.owner, arith.ExtFOp) and x.owner.operands[0].type == type:
        return x.owner.operands[0]
    return None


def simplify_index(b: ArithBuilder, op: Operation) -> SSAValue | None:
    assert isinstance(op, IndexOp)
    if op.result.type != b.type:
        return simplify_integer_index(b, op)
    if not op.index.is_constant:
        return None
    return b.const(float(op.index.constant))


RULES: Mapping[type[Operation], Callable[[ArithBuilder, Operation], SSAValue | None]] = {
    arith.AddfOp: simplify_add,
    arith.SubfOp: simplify_sub,
    arith.MulfOp: simplify_mul,
    arith.DivfOp: simplify_div,
    arith.NegfOp: simplify_neg,
    arith.MaximumfOp: simplify_extreme,
    arith.MinimumfOp: simplify_extreme,
    arith.CmpfOp: simplify_cmp,
    arith.SelectOp: simplify_select,
    arith.UIToFPOp: simplify_truth,
    arith.AndIOp: simplify_bits,
    arith.OrIOp: simplify_bits,
    arith.XOrIOp: simplify_bits,
    **dict.fromkeys(
        (
            arith.AddiOp,
            arith.SubiOp,
            arith.MuliOp,
            arith.DivSIOp,
            arith.DivUIOp,
            arith.MaxSIOp,
            arith.MinSIOp,
        ),
        simplify_integers,
    ),
    **dict.fromkeys((arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp), simplify_resize),
    arith.CmpiOp: simplify_int_cmp,
    arith.SIToFPOp: simplify_to_float,
    arith.ExtFOp: simplify_extend,
    arith.TruncFOp: simplify_truncate,
    math_dialect.AbsFOp: simplify_abs,
    math_dialect.FmaOp: simplify_fma,
    IndexOp: simplify_index,
}
