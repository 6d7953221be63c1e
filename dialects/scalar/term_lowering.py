"""Scalar terms as `arith` and `math` operations, with the conversions between the types of their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from xdsl.dialects import arith
from xdsl.dialects.builtin import FixedBitwidthType, IntegerType, i32
from xdsl.ir import Attribute, SSAValue

from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.dialects.scalar.kinds import Kind
from ocannl.dialects.scalar.precisions import (
    BOOL,
    integer_range,
    is_float,
    is_integer,
    is_unsigned,
    work_type,
)
from ocannl.dialects.scalar.term_type import App, Arg, Const, Term
from ocannl.dialects.scalar.types_of_terms import common_type, promoted, term_type


@dataclass
class TermLowering:
    """Appends the operations of terms to a builder, equal subterms once.

    `operand` gives the value of an operand in a type of the arithmetic; floats are all of the builder's type.
    """

    builder: ArithBuilder
    elements: Sequence[Attribute]
    operand: Callable[[int, Attribute], SSAValue]
    known: dict[tuple[Term, Attribute], SSAValue] = field(
        default_factory=dict[tuple[Term, Attribute], SSAValue]
    )

    def value(self, term: Term, wanted: Attribute) -> SSAValue:
        """The value of a term in a type of the arithmetic: a float, i32, ui32, i64 or a truth value."""
        key = term, wanted
        if key not in self.known:
            self.known[key] = self._emit(term, wanted)
        return self.known[key]

    def work(self, element: Attribute | None) -> Attribute:
        """The type of the arithmetic on an element type; of numbers without one, i32."""
        if element is None:
            return i32
        return self.builder.type if is_float(element) else work_type(element)

    def _emit(self, term: Term, wanted: Attribute) -> SSAValue:
        match term:
            case Arg(index):
                return self.operand(index, wanted)
            case Const(value):
                return constant(self.builder, value, wanted)
            case App():
                return self._apply(term, wanted)

    def _apply(self, term: App, wanted: Attribute) -> SSAValue:
        op = SCALAR_OPS[term.op]
        if op.kind in (Kind.FLOAT, Kind.TEST):
            common: Attribute = self.builder.type
            result = BOOL if op.kind is Kind.TEST else common
        elif op.kind is Kind.LOGIC:
            common, result = BOOL, BOOL
        elif op.kind is Kind.COMPARISON:
            common, result = self.work(common_type(term, self.elements)), BOOL
            common = i32 if common == BOOL else common
        else:
            # In the type that is wanted, where that is the wider: nothing wraps around before its time.
            common = self.work(promoted((term_type(term, self.elements), wanted)))
            result = common
        conditions = [self.value(a, BOOL) for a in term.args[: op.conditions]]
        values = [self.value(a, common) for a in term.args[op.conditions :]]
        if is_float(common) or op.emit_integer is None:
            value = op.emit(self.builder, *conditions, *values)
        else:
            value = op.emit_integer(self.builder, is_unsigned(common), *conditions, *values)
        return converted(self.builder, value, result, wanted)


def constant(b: ArithBuilder, value: float, type: Attribute) -> SSAValue:
    """A number in a type of the arithmetic, where an infinity is the largest or least integer."""
    if is_float(type):
        return b.const(float(value))
    if type == BOOL:
        return b.truth_const(bool(value))
    assert is_integer(type)
    least, most = integer_range(type)
    number = least if value < least else most if value > most else int(value)
    return b.int_const(number, IntegerType(type.bitwidth))


def converted(b: ArithBuilder, value: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
    """A value of a type of the arithmetic in another: floats to integers towards 0, NaN as 0, and what is out
    of range as the nearest; integers modulo 2**n; numbers to truth values by whether they are not 0.
    """
    if source == target:
        return value
    if target == BOOL:
        if is_float(source):
            return b.cmp("une", value, b.const(0.0))
        assert is_integer(value.type)
        return b.int_cmp("ne", value, b.int_const(0, value.type))
    if is_float(target):
        has_no_sign = source == BOOL or is_unsigned(source)
        return b.convert(arith.UIToFPOp if has_no_sign else arith.SIToFPOp, value, target)
    return saturated(b, value, target) if is_float(source) else resized(b, value, source, target)


def resized(b: ArithBuilder, value: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
    """An integer in another integer type, by its lower bits."""
    assert is_integer(source)
    assert is_integer(target)
    if source.bitwidth == target.bitwidth:
        return value
    if source.bitwidth > target.bitwidth:
        return b.convert(arith.TruncIOp, value, IntegerType(target.bitwidth))
    has_no_sign = source == BOOL or is_unsigned(source)
    return b.convert(arith.ExtUIOp if has_no_sign else arith.ExtSIOp, value, IntegerType(target.bitwidth))


def saturated(b: ArithBuilder, value: SSAValue, target: Attribute) -> SSAValue:
    """A float as the nearest integer towards 0 that the type has; NaN as 0."""
    assert is_integer(target)
    least, most = integer_range(target)
    type, zero = IntegerType(target.bitwidth), b.const(0.0)
    fits = b.bit_op(
        arith.AndIOp,
        b.cmp("ogt" if least == 0 else "oge", value, b.const(float(least - (least == 0)))),
        b.cmp("olt", value, b.const(float(most + 1))),
    )
    inside = b.select(fits, value, zero)
    number = b.convert(arith.FPToUIOp if least == 0 else arith.FPToSIOp, inside, type)
    low = b.select(b.cmp("olt", value, zero), b.int_const(least, type), b.int_const(0, type))
    beyond = b.select(b.cmp("ogt", value, zero), b.int_const(most, type), low)
    return b.select(fits, number, beyond)


def resized_float(b: ArithBuilder, value: SSAValue, type: Attribute) -> SSAValue:
    """A float in another float type."""
    source = value.type
    if source == type:
        return value
    assert isinstance(source, FixedBitwidthType)
    assert isinstance(type, FixedBitwidthType)
    return b.convert(arith.ExtFOp if source.bitwidth < type.bitwidth else arith.TruncFOp, value, type)
