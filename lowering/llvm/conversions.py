"""Conversions between floats: one instruction where the target has it, else arithmetic on bits."""

from __future__ import annotations

from xdsl.ir import Attribute

from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.small_floats import BF16, F16, Format, WordOp, narrow, small_format, widen
from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.types import ValueType, vector

LLVM_NAMES = {"f16": "half", "bf16": "bfloat"}
WORD, HALF, F32 = ValueType("i32", "i32", 4), ValueType("i16", "i16", 2), ValueType("float", "f32", 4)


def extend(b: FunctionBuilder, value: str, source: Attribute, type: ValueType, result: ValueType) -> str:
    """A float, or a vector of them, as a wider one."""
    format = small_format(source)
    if format is not None:
        value, type = _widen(b, value, format, type), vector(F32, type.width)
    return value if type == result else b.emit(f"fpext {type.text} {value} to {result.text}")


def truncate(
    b: FunctionBuilder,
    value: str,
    target: Attribute,
    type: ValueType,
    result: ValueType,
    *,
    exact: bool = False,
) -> str:
    """A float, or a vector of them, rounded once to a narrower one: to nearest, ties to even. An `exact` one
    is such a float already.
    """
    format = small_format(target)
    if format is None:
        return b.emit(f"fptrunc {type.text} {value} to {result.text}")
    if exact and type.code == "f32" and format is BF16 and format.name not in b.machine.converted:
        return _upper_half(b, value, type, result)
    if type.code == "f64":
        value = _round_to_odd(b, value, type)
    return _narrow(b, value, format, result)


def _widen(b: FunctionBuilder, value: str, format: Format, type: ValueType) -> str:
    words, floats = LLVMWords(b, type.width), vector(F32, type.width)
    if format.exponent == F16.exponent and F16.name in b.machine.converted:
        value, format, type = _as_f16(b, value, format, type), F16, vector(HALF, type.width)
    if format.name in b.machine.converted:
        return b.emit(f"fpext {_as_native(b, value, format, type)} to {floats.text}")
    wide = b.emit(f"zext {type.text} {value} to {words.type.text}")
    return b.emit(f"bitcast {words.type.text} {widen(wide, format, words)} to {floats.text}")


def _as_f16(b: FunctionBuilder, value: str, format: Format, type: ValueType) -> str:
    """The bits of an f16 of the same value: those of a smaller float, such as f8E5M2, are its upper ones."""
    if format is F16:
        return value
    halves = LLVMWords(b, type.width, HALF)
    wide = b.emit(f"zext {type.text} {value} to {halves.type.text}")
    return halves.op("shl", wide, halves.word(F16.bits - format.bits))


def _narrow(b: FunctionBuilder, value: str, format: Format, result: ValueType) -> str:
    words, floats = LLVMWords(b, result.width), vector(F32, result.width)
    if format.name in b.machine.converted:
        native = _native(format, result.width)
        rounded = b.emit(f"fptrunc {floats.text} {value} to {native}")
        return b.emit(f"bitcast {native} {rounded} to {result.text}")
    bits = b.emit(f"bitcast {floats.text} {value} to {words.type.text}")
    return b.emit(f"trunc {words.type.text} {narrow(bits, format, words)} to {result.text}")


def _upper_half(b: FunctionBuilder, value: str, type: ValueType, result: ValueType) -> str:
    """The upper halves of f32 numbers."""
    words = LLVMWords(b, type.width)
    bits = b.emit(f"bitcast {type.text} {value} to {words.type.text}")
    return b.emit(f"trunc {words.type.text} {words.op('lshr', bits, words.word(16))} to {result.text}")


def _native(format: Format, width: int) -> str:
    name = LLVM_NAMES[format.name]
    return f"<{width} x {name}>" if width else name


def _as_native(b: FunctionBuilder, value: str, format: Format, type: ValueType) -> str:
    native = _native(format, type.width)
    return f"{native} {b.emit(f'bitcast {type.text} {value} to {native}')}"


def _round_to_odd(b: FunctionBuilder, value: str, type: ValueType) -> str:
    """An f64 as the f32 from which rounding again gives what rounding once would: towards zero, and with the
    last bit set if that is not exact (Boldo and Melquiond 2008).
    """
    words, floats, wide = LLVMWords(b, type.width), vector(F32, type.width), type.text
    near = b.emit(f"fptrunc {wide} {value} to {floats.text}")
    back = b.emit(f"fpext {floats.text} {near} to {wide}")
    sizes = [b.emit(f"call {wide} @llvm.fabs.{type.mangled}({wide} {x})") for x in (back, value)]
    away = words.truth("fcmp ogt", wide, sizes[0], sizes[1])
    inexact = words.truth("fcmp one", wide, back, value)
    bits = b.emit(f"bitcast {floats.text} {near} to {words.type.text}")
    odd = words.op("or", words.op("sub", bits, away), inexact)
    return b.emit(f"bitcast {words.type.text} {odd} to {floats.text}")


@dataclass(frozen=True, slots=True)
class LLVMWords:
    """The arithmetic of `small_floats` as instructions, on words or vectors of them."""

    b: FunctionBuilder
    width: int
    scalar: ValueType = WORD

    @property
    def type(self) -> ValueType:
        return vector(self.scalar, self.width)

    def word(self, value: int) -> str:
        return f"splat ({self.scalar.text} {value})" if self.width else str(value)

    def op(self, name: WordOp, a: str, b: str) -> str:
        emit, text = self.b.emit, self.type.text
        if name == "umin":
            return emit(f"call {text} @llvm.umin.{self.type.mangled}({text} {a}, {text} {b})")
        if name in ("fadd", "fsub"):
            floats = vector(F32, self.width).text
            x, y = (emit(f"bitcast {text} {operand} to {floats}") for operand in (a, b))
            return emit(f"bitcast {floats} {emit(f'{name} {floats} {x}, {y}')} to {text}")
        return emit(f"{name} {text} {a}, {b}")

    def below(self, a: str, bound: int, yes: str, no: str) -> str:
        emit, text = self.b.emit, self.type.text
        condition = emit(f"icmp ult {text} {a}, {self.word(bound)}")
        truth = f"<{self.width} x i1>" if self.width else "i1"
        return emit(f"select {truth} {condition}, {text} {yes}, {text} {no}")

    def truth(self, comparison: str, type: str, x: str, y: str) -> str:
        """1 where a comparison holds, else 0."""
        truth = f"<{self.width} x i1>" if self.width else "i1"
        return self.b.emit(f"zext {truth} {self.b.emit(f'{comparison} {type} {x}, {y}')} to {self.type.text}")
