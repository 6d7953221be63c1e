"""Accumulation in registers: neutral values, one step, and the sum over the lanes of a vector."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, f64

from ocannl.dialects.scalar.accumulation import neutral_number
from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.instructions import MAXIMUM, MINIMUM, call, extremum, neighbours
from ocannl.lowering.llvm.types import ValueType, float_literal, vector


def neutral(accum: str, type: ValueType) -> str:
    """The literal of the neutral element of an accumulation."""
    # Adding to -0.0 would keep the sign of a zero, but a sum of nothing is 0.0.
    if type.is_float:
        text = float_literal(neutral_number(accum, f64), type)
    else:
        text = str(neutral_number(accum, IntegerType(8 * type.bytes)))
    return f"splat ({type.element} {text})" if type.width else text


def combine(b: FunctionBuilder, accum: str, x: str, y: str, type: ValueType) -> str:
    """One step of an accumulation."""
    if not type.is_float:
        return _combine_integers(b, accum, x, y, type)
    match accum:
        case "add":
            return b.emit(f"fadd {type.text} {x}, {y}")
        case "mul":
            return b.emit(f"fmul {type.text} {x}, {y}")
        case "max":
            return extremum(b, MAXIMUM, x, y, type)
        case "min":
            return extremum(b, MINIMUM, x, y, type)
        case _:
            return _combine_truths(b, accum, x, y, type)


def _combine_integers(b: FunctionBuilder, accum: str, x: str, y: str, type: ValueType) -> str:
    """Truth values are 0 and 1."""
    if accum in ("max", "min"):
        return call(b, f"s{accum}", [x, y], type)
    return b.emit(f"{accum} {type.text} {x}, {y}")


def _combine_truths(b: FunctionBuilder, accum: str, x: str, y: str, type: ValueType) -> str:
    truth = vector(ValueType("i1", "i1", 1), type.width).text
    zero = "zeroinitializer" if type.width else float_literal(0.0, type)
    left, right = (b.emit(f"fcmp une {type.text} {value}, {zero}") for value in (x, y))
    both = b.emit(f"{accum} {truth} {left}, {right}")
    return b.emit(f"uitofp {truth} {both} to {type.text}")


def across_lanes(b: FunctionBuilder, accum: str, value: str, type: ValueType) -> str:
    """All lanes of a vector combined, by halves: the same order on every target."""
    width = type.width
    # The last two integers are taken out first: LLVM 22 takes a whole pyramid of additions to 16 products of
    # bytes for one `vpdpbusd` on x86, and forgets to add up its four lanes.
    last = 1 if type.is_float else 2
    while width > last:
        half = width // 2
        low, high = (neighbours(b, value, type, start, half) for start in (0, half))
        type, width = vector(type, half), half
        value = combine(b, accum, low, high, type)
    lanes = [b.emit(f"extractelement {type.text} {value}, i64 {lane}") for lane in range(width)]
    return lanes[0] if len(lanes) == 1 else combine(b, accum, lanes[0], lanes[1], vector(type, 0))
