"""The operations of `arith` and `math` as LLVM instructions, on scalars and on vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from ocannl.dialects.ir.errors import at_line
from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.conversions import extend, truncate
from ocannl.lowering.llvm.types import ValueType, float_literal, is_nan_literal, literal, value_type, vector
from ocannl.passes.analysis.values.representable import is_representable
from ocannl.passes.loops.expand_math import way_without

Ops: TypeAlias = dict[type[Operation], str]

BINARY: Ops = {
    arith.AddfOp: "fadd",
    arith.SubfOp: "fsub",
    arith.MulfOp: "fmul",
    arith.DivfOp: "fdiv",
    arith.AddiOp: "add",
    arith.SubiOp: "sub",
    arith.MuliOp: "mul",
    arith.AndIOp: "and",
    arith.OrIOp: "or",
    arith.XOrIOp: "xor",
    arith.ShLIOp: "shl",
    arith.ShRUIOp: "lshr",
    arith.ShRSIOp: "ashr",
    arith.DivSIOp: "sdiv",
    arith.DivUIOp: "udiv",
    arith.RemSIOp: "srem",
    arith.RemUIOp: "urem",
}

CASTS: Ops = {
    arith.BitcastOp: "bitcast",
    arith.ExtSIOp: "sext",
    arith.ExtUIOp: "zext",
    arith.TruncIOp: "trunc",
    arith.FPToSIOp: "fptosi",
    arith.FPToUIOp: "fptoui",
    arith.SIToFPOp: "sitofp",
    arith.UIToFPOp: "uitofp",
}

INTRINSICS: Ops = {
    arith.MaxnumfOp: "maxnum",
    arith.MinnumfOp: "minnum",
    arith.MaxSIOp: "smax",
    arith.MinSIOp: "smin",
    arith.MaxUIOp: "umax",
    arith.MinUIOp: "umin",
    math.AbsFOp: "fabs",
    math.CeilOp: "ceil",
    math.CopySignOp: "copysign",
    math.CosOp: "cos",
    math.Exp2Op: "exp2",
    math.ExpOp: "exp",
    math.FloorOp: "floor",
    math.FmaOp: "fma",
    math.Log10Op: "log10",
    math.Log2Op: "log2",
    math.LogOp: "log",
    math.PowFOp: "pow",
    math.RoundEvenOp: "nearbyint",  # of C11, which has no `roundeven`: the same in the usual mode
    math.RoundOp: "round",
    math.SinOp: "sin",
    math.SqrtOp: "sqrt",
    math.TanOp: "tan",
    math.TanhOp: "tanh",
    math.TruncOp: "trunc",
}

# Functions of the C library without an intrinsic.
LIBRARY: Ops = {
    math.AcosOp: "acos",
    math.AcoshOp: "acosh",
    math.AsinOp: "asin",
    math.AsinhOp: "asinh",
    math.Atan2Op: "atan2",
    math.AtanOp: "atan",
    math.AtanhOp: "atanh",
    math.CbrtOp: "cbrt",
    math.CoshOp: "cosh",
    math.ErfOp: "erf",
    math.ExpM1Op: "expm1",
    math.Log1pOp: "log1p",
    math.SinhOp: "sinh",
}

MAXIMUM, MINIMUM = "ogt", "olt"
EXTREMA = {MAXIMUM: "maximum", MINIMUM: "minimum"}


def emit_formula(
    b: FunctionBuilder, ops: Iterable[Operation], values: dict[SSAValue, str], width: int = 0
) -> None:
    """Adds the values of constants and operations, on vectors if `width` is not zero, to `values`."""
    for op in ops:
        if isinstance(op, arith.ConstantOp):
            text, type = literal(op.value), value_type(op.result.type)
            values[op.result] = b.splat(text, type, width, 0) if width else text
        else:
            type, result = (vector(value_type(v.type), width) for v in (op.operands[0], op.results[0]))
            values[op.results[0]] = emit_scalar(b, op, [values[v] for v in op.operands], type, result)


def emit_scalar(
    b: FunctionBuilder, op: Operation, operands: Sequence[str], type: ValueType, result: ValueType
) -> str:
    """The value of an operation on operands that are all scalars or all vectors of the same width."""
    kind = op.__class__
    if mnemonic := BINARY.get(kind):
        return b.emit(f"{mnemonic} {type.text} {operands[0]}, {operands[1]}")
    if mnemonic := CASTS.get(kind):
        return b.emit(f"{mnemonic} {type.text} {operands[0]} to {result.text}")
    if kind is math.FmaOp and type.code == "f32" and not b.machine.fuses:
        return fma_in_f64(b, operands, result)
    if mnemonic := INTRINSICS.get(kind):
        return call(b, mnemonic, operands, result)
    if mnemonic := LIBRARY.get(kind):
        return call_library(b, mnemonic, operands, result)
    return emit_other(b, op, operands, type, result)


def emit_other(
    b: FunctionBuilder, op: Operation, operands: Sequence[str], type: ValueType, result: ValueType
) -> str:
    """The operations that are neither one plain instruction nor a call."""
    match op:
        case arith.NegfOp():
            return b.emit(f"fneg {type.text} {operands[0]}")
        case arith.ExtFOp():
            return extend(b, operands[0], op.operands[0].type, type, result)
        case arith.TruncFOp():
            exact = is_representable(op.operands[0], op.results[0].type)
            return truncate(b, operands[0], op.results[0].type, type, result, exact=exact)
        case arith.MaximumfOp():
            return extremum(b, MAXIMUM, operands[0], operands[1], type)
        case arith.MinimumfOp():
            return extremum(b, MINIMUM, operands[0], operands[1], type)
        case arith.CmpfOp():
            predicate = CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
            return b.emit(f"fcmp {predicate} {type.text} {operands[0]}, {operands[1]}")
        case arith.CmpiOp():
            predicate = CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
            return b.emit(f"icmp {predicate} {type.text} {operands[0]}, {operands[1]}")
        case arith.SelectOp():
            return select(b, operands[0], operands[1], operands[2], result)
        case _:
            raise DiagnosticException(at_line(op, f"no LLVM instruction for `{op.name}`{way_without(op)}"))


def call(b: FunctionBuilder, intrinsic: str, operands: Sequence[str], type: ValueType) -> str:
    """An intrinsic whose operands and result have one type."""
    arguments = ", ".join([f"{type.text} {operand}" for operand in operands])
    return b.emit(f"call {type.text} @llvm.{intrinsic}.{type.mangled}({arguments})")


def fma_in_f64(b: FunctionBuilder, operands: Sequence[str], type: ValueType) -> str:
    """`math.fma` of f32 without an instruction for it: the product is exact in f64, and so is the sum where
    it has no more than 53 bits, as those of error-free transformations do.
    """
    wide = vector(ValueType("double", "f64", 8), type.width).text
    x, y, z = (b.emit(f"fpext {type.text} {operand} to {wide}") for operand in operands)
    product = b.emit(f"fmul {wide} {x}, {y}")
    return b.emit(f"fptrunc {wide} {b.emit(f'fadd {wide} {product}, {z}')} to {type.text}")


def select(
    b: FunctionBuilder, condition: str, yes: str, no: str, type: ValueType, *, one: bool = False
) -> str:
    """One of two values; with `one` condition for all lanes, which becomes a branch around vectors."""
    condition_type = f"<{type.width} x i1>" if type.width and not one else "i1"
    return b.emit(f"select {condition_type} {condition}, {type.text} {yes}, {type.text} {no}")


def extremum(b: FunctionBuilder, predicate: str, x: str, y: str, type: ValueType) -> str:
    """The maximum or minimum, NaN if either operand is; of zeros of both signs, either."""
    if is_literal(x):
        x, y = y, x
    if type.element in b.machine.compared:
        return call(b, EXTREMA[predicate], [x, y], type)
    # One instruction on x86, which gives its last operand where one is NaN.
    result = select(b, b.emit(f"fcmp {predicate} {type.text} {y}, {x}"), y, x, type)
    if is_literal(y) and not is_nan_literal(y):
        return result
    return select(b, b.emit(f"fcmp uno {type.text} {y}, {y}"), y, result, type)


def emit_position(
    b: FunctionBuilder, number: str, type: ValueType, wide: ValueType, size: int
) -> tuple[str, str]:
    """A number as an index, in `wide` integers of 64 bits, and whether it is in 0..size-1: where it is not,
    the index is 0.
    """
    if type.is_float:
        whole = call(b, "trunc", [number], type)
        parts = [
            b.emit(f"fcmp oeq {type.text} {number}, {whole}"),
            b.emit(f"fcmp oge {type.text} {number}, zeroinitializer"),
            b.emit(f"fcmp olt {type.text} {number}, {scalar_literal(float(size), type)}"),
        ]
        truth = f"<{type.width} x i1>" if type.width else "i1"
        inside = b.emit(f"and {truth} {b.emit(f'and {truth} {parts[0]}, {parts[1]}')}, {parts[2]}")
        bounded = select(b, inside, number, "zeroinitializer", type)
        return b.emit(f"fptosi {type.text} {bounded} to {wide.text}"), inside
    if type.bytes < wide.bytes:
        number = b.emit(f"sext {type.text} {number} to {wide.text}")
    inside = b.emit(f"icmp ult {wide.text} {number}, {scalar_literal(size, wide)}")
    return select(b, inside, number, "zeroinitializer", wide), inside


def scalar_literal(value: float, type: ValueType) -> str:
    """A number in each lane."""
    text = float_literal(value, type) if type.is_float else str(value)
    return f"splat ({type.element} {text})" if type.width else text


def is_literal(value: str) -> bool:
    return value[0] != "%"


def call_library(b: FunctionBuilder, function: str, operands: Sequence[str], type: ValueType) -> str:
    """A function of the C library, element by element."""
    scalar = vector(type, 0).text
    name = f"@{function}" if type.code == "f64" else f"@{function}f"
    b.declarations.add(f"declare {scalar} {name}({', '.join([scalar] * len(operands))})")
    if not type.width:
        arguments = ", ".join([f"{scalar} {operand}" for operand in operands])
        return b.emit(f"call {scalar} {name}({arguments})")
    result = "poison"
    for lane in range(type.width):
        elements = [b.emit(f"extractelement {type.text} {operand}, i64 {lane}") for operand in operands]
        arguments = ", ".join([f"{scalar} {element}" for element in elements])
        value = b.emit(f"call {scalar} {name}({arguments})")
        result = b.emit(f"insertelement {type.text} {result}, {scalar} {value}, i64 {lane}")
    return result


def reversed_lanes(b: FunctionBuilder, value: str, type: ValueType, count: int, width: int) -> str:
    """The first `count` lanes of a vector of so many or more in reverse, and zeros up to `width` lanes."""
    order = [*range(count - 1, -1, -1), *[type.width] * (width - count)]
    lanes = ", ".join([f"i32 {lane}" for lane in order])
    shuffled = f"shufflevector {type.text} {value}, {type.text} zeroinitializer"
    return b.emit(f"{shuffled}, <{width} x i32> <{lanes}>")


def first_lanes(b: FunctionBuilder, value: str, type: ValueType, width: int) -> str:
    """The lanes of a vector, and zeros behind them up to `width` lanes."""
    lanes = ", ".join([f"i32 {min(lane, type.width)}" for lane in range(width)])
    shuffled = f"shufflevector {type.text} {value}, {type.text} zeroinitializer"
    return b.emit(f"{shuffled}, <{width} x i32> <{lanes}>")


def neighbours(b: FunctionBuilder, value: str, type: ValueType, start: int, count: int) -> str:
    """Some lanes of a vector side by side, as a vector."""
    lanes = ", ".join([f"i32 {lane}" for lane in range(start, start + count)])
    return b.emit(f"shufflevector {type.text} {value}, {type.text} poison, <{count} x i32> <{lanes}>")
