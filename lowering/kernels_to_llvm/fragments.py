"""Products of fragments: an instruction of a GPU, and a function for a CPU that emulates its warps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, f16
from xdsl.ir import Attribute

from ocannl.dialects.kernel.gpu import WARP
from ocannl.dialects.kernel.mma import ACROSS, FRAGMENTS, QUARTERS
from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.conversions import F32, extend
from ocannl.lowering.llvm.machine import Machine
from ocannl.lowering.llvm.types import value_type

# The instruction for each type of operands, and what LLVM has these in.
MODES: dict[type[Attribute], tuple[str, str]] = {
    Float32Type: ("m16n8k8.row.col.tf32", "i32"),
    BFloat16Type: ("m16n8k16.row.col.bf16", "i32"),
    Float16Type: ("m16n8k16.row.col.f32.f32", "<2 x half>"),
}
# Those of 8 bits are f16 there, which has all of their numbers.
FOUR_HALVES = "<4 x half>"
# In f64 an instruction multiplies half the rows.
DOUBLES, PER_HALF = "m8n8k4.row.col.f64", 2
FOUR_FLOATS = "{float, float, float, float}"
# The bits that TF32 has not, half of the last one that it has, and the bits of an infinite exponent.
DROPPED, HALF, INFINITE = 0x1FFF, 0x1000, 0x7F800000


def multiply(b: FunctionBuilder, type: Attribute, operands: Sequence[str], sums: Sequence[str]) -> list[str]:
    """Adds a product to the four sums of a thread; the operands are registers, as `operand` gives them."""
    if isinstance(type, Float64Type):
        return multiply_doubles(b, operands, sums)
    if isinstance(type, QUARTERS):
        return multiply_quarters(b, operands, sums)
    mode, register = MODES[type.__class__]
    arguments = [f"{register} {value}" for value in operands] + [f"float {value}" for value in sums]
    found = b.emit(f"call {FOUR_FLOATS} @llvm.nvvm.mma.{mode}({', '.join(arguments)})")
    return [b.emit(f"extractvalue {FOUR_FLOATS} {found}, {k}") for k in range(len(sums))]


def multiply_quarters(b: FunctionBuilder, operands: Sequence[str], sums: Sequence[str]) -> list[str]:
    """Two instructions, one for each half of the registers of both operands."""
    found = list(sums)
    for first in (0, 2):
        places = f"<2 x i32> <i32 {first}, i32 {first + 1}>"
        halves = [
            b.emit(f"shufflevector {FOUR_HALVES} {value}, {FOUR_HALVES} poison, {places}")
            for value in operands
        ]
        found = multiply(b, f16, halves, found)
    return found


def multiply_doubles(b: FunctionBuilder, operands: Sequence[str], sums: Sequence[str]) -> list[str]:
    """Two instructions, one for each register of the left operand."""
    *lefts, right = operands
    results: list[str] = []
    for half, left in enumerate(lefts):
        arguments = ", ".join(f"double {x}" for x in (left, right, *sums[PER_HALF * half :][:PER_HALF]))
        found = b.emit(f"call {{double, double}} @llvm.nvvm.mma.{DOUBLES}({arguments})")
        results += [b.emit(f"extractvalue {{double, double}} {found}, {k}") for k in range(PER_HALF)]
    return results


def operand(b: FunctionBuilder, type: Attribute, elements: Sequence[str]) -> str:
    """The register of an element of f32 or f64, or of two of 16 bits; four of 8 bits are a vector."""
    if isinstance(type, Float64Type):
        return elements[0]
    if isinstance(type, Float32Type):
        return b.emit(f"call i32 @llvm.nvvm.f2tf32.rna(float {elements[0]})")
    if isinstance(type, QUARTERS):
        return widened(b, type, elements)
    pair = "poison"
    for k, element in enumerate(elements):
        pair = b.emit(f"insertelement <2 x i16> {pair}, i16 {element}, i64 {k}")
    return b.emit(f"bitcast <2 x i16> {pair} to {MODES[type.__class__][1]}")


def widened(b: FunctionBuilder, type: Attribute, elements: Sequence[str]) -> str:
    """Four elements of 8 bits as f16."""
    found, stored = "poison", value_type(type)
    for k, element in enumerate(elements):
        half = b.emit(f"fptrunc float {extend(b, element, type, stored, F32)} to half")
        found = b.emit(f"insertelement {FOUR_HALVES} {found}, half {half}, i64 {k}")
    return found


def register_of(b: FunctionBuilder, type: Attribute, elements: Sequence[str]) -> str:
    """The register of an operand as an `i32`."""
    found, (_, kind) = operand(b, type, elements), MODES[type.__class__]
    return found if kind == "i32" else b.emit(f"bitcast {kind} {found} to i32")


def emulated_name(type: Attribute) -> str:
    return f"@mma_{type}"


def emulated(type: Attribute, converted: frozenset[str]) -> str:
    """A function that multiplies fragments in all warps of a block.

    Its arguments are the arrays, with an element a thread, of the elements of the left operand, of the right
    one and of the result, in the order in which a thread of a GPU has them, and how many threads there are.
    """
    fragments = FRAGMENTS[type.__class__]
    pack, halves, sums = range(fragments.pack), range(fragments.halves), value_type(fragments.sums)
    left = list(itertools.product(halves, range(2), pack))
    right = list(itertools.product(halves, pack))
    b = FunctionBuilder(Machine(converted))
    loop = b.open_loop(0, "%threads", 1)
    lane = b.emit(f"urem i64 {loop.index}, {WARP}")
    first = b.emit(f"sub i64 {loop.index}, {lane}")
    group = b.emit(f"udiv i64 {lane}, {ACROSS}")
    own = b.emit(f"urem i64 {lane}, {ACROSS}")
    row = b.emit(f"mul i64 {group}, {ACROSS}")
    row = b.emit(f"add i64 {row}, {first}")
    column = b.emit(f"mul i64 {own}, {2 * ACROSS}")
    column = b.emit(f"add i64 {column}, {first}")
    for result, (low, odd) in enumerate(itertools.product(range(2), range(2))):
        total = "0.0"
        for half, across, element in itertools.product(halves, range(ACROSS), pack):
            x = load(b, f"%a{left.index((half, low, element))}", row, across, type)
            y = load(b, f"%b{right.index((half, element))}", column, across + ACROSS * odd, type)
            arguments = ", ".join(f"{sums.text} {value}" for value in (x, y, total))
            total = b.emit(f"call {sums.text} @llvm.fmuladd.{sums.mangled}({arguments})")
        at = b.emit(f"getelementptr {sums.text}, ptr %c{result}, i64 {loop.index}")
        b.emit_void(f"store {sums.text} {total}, ptr {at}")
    b.close_loop(loop)
    counts = {"a": len(left), "b": len(right), "c": 4}
    names = [f"%{letter}{k}" for letter, count in counts.items() for k in range(count)]
    arguments = ", ".join([*(f"ptr {name}" for name in names), "i64 %threads"])
    return f"define internal void {emulated_name(type)}({arguments}) {{\n{b.text()}\n  ret void\n}}"


def load(b: FunctionBuilder, array: str, first: str, offset: int, type: Attribute) -> str:
    """An element of an operand, as the f32 or f64 that the emulated product takes."""
    stored = value_type(type)
    thread = b.emit(f"add i64 {first}, {offset}")
    at = b.emit(f"getelementptr {stored.element}, ptr {array}, i64 {thread}")
    value = b.emit(f"load {stored.element}, ptr {at}")
    if type.__class__ is Float64Type:
        return value
    return rounded(b, value) if type.__class__ is Float32Type else extend(b, value, type, stored, F32)


def rounded(b: FunctionBuilder, value: str) -> str:
    """An f32 as the nearest number of TF32, the one away from zero of two; infinities and NaNs stay."""
    bits = b.emit(f"bitcast float {value} to i32")
    moved = b.emit(f"add i32 {bits}, {HALF}")
    moved = b.emit(f"and i32 {moved}, {~DROPPED}")
    exponent = b.emit(f"and i32 {bits}, {INFINITE}")
    is_finite = b.emit(f"icmp ne i32 {exponent}, {INFINITE}")
    chosen = b.emit(f"select i1 {is_finite}, i32 {moved}, i32 {bits}")
    return b.emit(f"bitcast i32 {chosen} to float")
