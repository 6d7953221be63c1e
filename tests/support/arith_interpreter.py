"""Runs scalar operations of `arith` and `math` by NumPy, on whole arrays, in their own precision."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    f32,
    f64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.scalar.arith_builder import ArithBuilder, ScalarType
from ocannl.dialects.scalar.far_op import FarOp
from ocannl.passes.loops.expand_math.far import formula

Array = NDArray[Any]

FLOATS = {f32: np.float32, f64: np.float64}
INTS = {1: np.bool_, 32: np.int32, 64: np.int64}


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The exact product of doubles (Dekker 1971), for factors below 2^996."""

    def halves(x: Array) -> tuple[Array, Array]:
        high = (134217729.0 * x) - (134217729.0 * x - x)
        return high, x - high

    p = a * b
    (a1, a2), (b1, b2) = halves(a), halves(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def fma(a: Array, b: Array, c: Array) -> Array:
    """Rounded once, except that a tie may be broken the wrong way."""
    if a.dtype == np.float32:
        return (a.astype(np.float64) * b + c).astype(np.float32)
    (x, x_exponent), (y, y_exponent) = np.frexp(a), np.frexp(b)
    scale = x_exponent + y_exponent
    p, lost = two_product(x, y)
    s, rest = two_sum(p, np.ldexp(c, -scale))
    exact = np.ldexp(s + (rest + lost), scale)
    return np.where(np.isfinite(exact) & (exact != 0), exact, a * b + c)


def compare(op: Operation, a: Array, b: Array) -> Array:
    assert isinstance(op, arith.CmpfOp)
    predicate = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    relations = {
        "eq": np.equal,
        "ne": np.not_equal,
        "le": np.less_equal,
        "lt": np.less,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    unordered = (np.isnan(a) | np.isnan(b)) & (predicate[0] == "u")
    return relations[predicate[1:]](a, b) | unordered


def shift_left(a: Array, b: Array) -> Array:
    unsigned = np.dtype(f"u{a.dtype.name}")
    return (a.view(unsigned) << b.view(unsigned)).view(a.dtype)


def shift_right(a: Array, b: Array) -> Array:
    unsigned = np.dtype(f"u{a.dtype.name}")
    return (a.view(unsigned) >> b.view(unsigned)).view(a.dtype)


OPERATIONS: dict[str, Callable[..., Array]] = {
    "arith.addf": np.add,
    "arith.addi": np.add,
    "arith.andi": np.bitwise_and,
    "arith.divf": np.divide,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.mulf": np.multiply,
    "arith.muli": np.multiply,
    "arith.negf": np.negative,
    "arith.ori": np.bitwise_or,
    "arith.select": np.where,
    "arith.shli": shift_left,
    "arith.shrsi": np.right_shift,
    "arith.shrui": shift_right,
    "arith.subf": np.subtract,
    "arith.subi": np.subtract,
    "arith.xori": np.bitwise_xor,
    "loops.remainder": np.fmod,
    "math.absf": np.abs,
    "math.ceil": np.ceil,
    "math.copysign": np.copysign,
    "math.floor": np.floor,
    "math.fma": fma,
    "math.roundeven": np.rint,
    "math.sqrt": np.sqrt,
    "math.trunc": np.trunc,
}


def dtype_of(type_: Attribute) -> Any:
    if isinstance(type_, Float32Type | Float64Type):
        return FLOATS[type_]
    assert isinstance(type_, IntegerType)
    return INTS[type_.bitwidth]


def far(op: FarOp, is_far: Array, *operands: Array) -> Array:
    """Far numbers by their function, which targets call."""
    assert isinstance(op.result.type, Float32Type | Float64Type)
    made = formula(op.function.data, op.result.type)
    block = made.arguments[0].block
    block.add_ops([*made.ops, ReturnOp(made.result)])
    *arguments, near = operands
    return np.where(is_far, run(block, arguments), near)


def run_op(op: Operation, operands: list[Array]) -> Array:
    if isinstance(op, arith.ConstantOp):
        assert isinstance(op.value, FloatAttr | IntegerAttr)
        return np.asarray(op.value.value.data, dtype_of(op.value.type))
    if isinstance(op, arith.CmpfOp):
        return compare(op, *operands)
    if isinstance(op, arith.CmpiOp):
        assert arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data] == "ne"
        return np.not_equal(*operands)
    if isinstance(op, arith.BitcastOp):
        return operands[0].view(dtype_of(op.result.type))
    if isinstance(op, arith.ExtUIOp | arith.UIToFPOp):
        (number,) = operands
        unsigned = number if number.dtype == np.bool_ else number.view(np.dtype(f"u{number.dtype.name}"))
        return unsigned.astype(dtype_of(op.results[0].type))
    if isinstance(op, arith.SIToFPOp | arith.TruncIOp | arith.FPToSIOp):
        return operands[0].astype(dtype_of(op.result.type))
    if isinstance(op, FarOp):
        return far(op, *operands)
    return OPERATIONS[op.name](*operands)


def run(block: Block, args: Sequence[Array]) -> Array:
    """The results of a block of `arith` and `math` operations, for arrays of inputs."""
    known: dict[SSAValue, Array] = dict(zip(block.args, args, strict=True))
    with np.errstate(all="ignore"):
        for op in block.ops:
            if isinstance(op, ReturnOp):
                break
            known[op.results[0]] = np.asarray(run_op(op, [known[v] for v in op.operands]))
    assert block.last_op is not None
    return np.broadcast_to(known[block.last_op.operands[0]], np.broadcast_shapes(*(a.shape for a in args)))


def lowered(emit: Callable[..., SSAValue], arity: int, type_: ScalarType, *passes: ModulePass) -> Block:
    """The block of a function made by an `ArithBuilder` and its arguments, after some passes."""
    block = Block(arg_types=[type_] * arity)
    builder = ArithBuilder(type_)
    value = emit(builder, *block.args)
    block.add_ops([*builder.ops, ReturnOp(value)])
    module = ModuleOp([FuncOp("f", ([type_] * arity, [type_]), Region(block))])
    for each in passes:
        each.apply(Context(), module)
    module.verify()
    return block
