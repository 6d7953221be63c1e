"""Cheap construction of scalar `arith` and `math` operations of one float type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from math import copysign, inf
from typing import TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, Float64Type, FloatAttr, IntegerAttr, IntegerType, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.records import dataclass

ScalarType: TypeAlias = Float32Type | Float64Type
ConstantKey: TypeAlias = tuple[str, Attribute]


_FASTMATH: Mapping[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr("none")}
_OVERFLOW: Mapping[str, Attribute] = {"overflowFlags": arith.IntegerOverflowAttr("none")}
_CMPF = {name: IntegerAttr(i, i64) for i, name in enumerate(arith.CMPF_COMPARISON_OPERATIONS)}
_CMPI = {name: IntegerAttr(i, i64) for i, name in enumerate(arith.CMPI_COMPARISON_OPERATIONS)}


@dataclass(slots=True)
class ArithBuilder:
    """Appends operations to `ops`, through `create` (no checks), and makes each constant once.

    Builders that share `constants` share the constant operations: those of the first builder must dominate
    the others, as they do when a block is rewritten in order.
    """

    type: ScalarType
    ops: list[Operation] = field(default_factory=list[Operation])
    constants: dict[ConstantKey, SSAValue] = field(default_factory=dict[ConstantKey, SSAValue])

    @property
    def int_type(self) -> IntegerType:
        """The integer type as wide as the float type."""
        return IntegerType(self.type.bitwidth)

    def _append(
        self,
        op: type[Operation],
        operands: tuple[SSAValue, ...],
        result_type: Attribute,
        properties: Mapping[str, Attribute],
    ) -> SSAValue:
        created = op.create(operands=operands, result_types=(result_type,), properties=properties)
        self.ops.append(created)
        return created.results[0]

    def _new_constant(self, key: ConstantKey, value: FloatAttr | IntegerAttr) -> SSAValue:
        constant = self._append(arith.ConstantOp, (), value.type, {"value": value})
        self.constants[key] = constant
        return constant

    def const(self, value: float) -> SSAValue:
        """A float constant; `hex` tells -0.0 from 0.0, which compare equal."""
        key = (float(value).hex(), self.type)
        if key in self.constants:
            return self.constants[key]
        try:
            attribute = FloatAttr(value, self.type)
        except OverflowError:  # the type has no number as large
            attribute = FloatAttr(copysign(inf, value), self.type)
        return self._new_constant(key, attribute)

    def int_const(self, value: int, type: IntegerType | None = None) -> SSAValue:
        """An integer constant, by default as wide as the float type; an unsigned value is wrapped."""
        type = type or self.int_type
        key = (str(value), type)
        if key in self.constants:
            return self.constants[key]
        return self._new_constant(key, IntegerAttr(value, type, truncate_bits=True))

    def truth_const(self, value: bool) -> SSAValue:
        return self.int_const(-int(value), i1)

    def append(self, op: Operation) -> SSAValue:
        """Any other operation."""
        self.ops.append(op)
        return op.results[0]

    def float_op(self, op: type[Operation], *operands: SSAValue) -> SSAValue:
        """Any `arith` or `math` operation of floats to one float."""
        return self._append(op, operands, self.type, _FASTMATH)

    def bit_op(self, op: type[Operation], *operands: SSAValue) -> SSAValue:
        """Any `arith` operation of integers to an integer of the same type that cannot overflow."""
        return self._append(op, operands, operands[0].type, {})

    def convert(self, op: type[Operation], operand: SSAValue, result_type: Attribute) -> SSAValue:
        """Any `arith` conversion."""
        return self._append(op, (operand,), result_type, {})

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.float_op(arith.AddfOp, a, b)

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.float_op(arith.SubfOp, a, b)

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.float_op(arith.MulfOp, a, b)

    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.float_op(arith.DivfOp, a, b)

    def neg(self, a: SSAValue) -> SSAValue:
        return self.float_op(arith.NegfOp, a)

    def fma(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """`a * b + c`, rounded once."""
        return self.float_op(math.FmaOp, a, b, c)

    def cmp(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """`arith.cmpf`, an `i1`."""
        return self._append(arith.CmpfOp, (a, b), i1, {"predicate": _CMPF[predicate], **_FASTMATH})

    def int_cmp(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """`arith.cmpi`, an `i1`."""
        return self._append(arith.CmpiOp, (a, b), i1, {"predicate": _CMPI[predicate]})

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._append(arith.SelectOp, (condition, a, b), a.type, {})

    def truth(self, condition: SSAValue) -> SSAValue:
        """An `i1` as the float 1 or 0."""
        return self.convert(arith.UIToFPOp, condition, self.type)

    def bits(self, a: SSAValue) -> SSAValue:
        """The bit pattern of a float."""
        return self.convert(arith.BitcastOp, a, self.int_type)

    def from_bits(self, a: SSAValue) -> SSAValue:
        """The float with a bit pattern."""
        return self.convert(arith.BitcastOp, a, self.type)

    def int_to_float(self, a: SSAValue) -> SSAValue:
        """A signed integer as a float."""
        return self.convert(arith.SIToFPOp, a, self.type)

    def int_add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._append(arith.AddiOp, (a, b), a.type, _OVERFLOW)

    def int_sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._append(arith.SubiOp, (a, b), a.type, _OVERFLOW)

    def int_mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._append(arith.MuliOp, (a, b), a.type, _OVERFLOW)

    def shift_left(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._append(arith.ShLIOp, (a, b), a.type, _OVERFLOW)
