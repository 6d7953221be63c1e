"""The reduction of angles that are too large for a few multiplications, as an operation."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, Float64Type, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.op_helpers import OwnOperation, given, operation_definition, parse_defined_operand

# Angles are far beyond these, by the width of the type.
NEAR = {32: 2.0**18, 64: 2.0**45}


@operation_definition
class FarAngleOp(OwnOperation):
    """`loops.far_angle %x else %r : f32`: `%r` where the angle x is near, and else one in -pi/2..pi/2 that
    has its sine; with `cosine` its cosine for sine. NaN where x is infinite.
    """

    name = "loops.far_angle"
    angle = operand_def()
    near = operand_def()
    cosine = opt_prop_def(UnitAttr)
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, angle: SSAValue, near: SSAValue, cosine: bool = False) -> None:
        Operation.__init__(
            self,
            operands=[angle, near],
            result_types=[near.type],
            properties=given(cosine=UnitAttr() if cosine else None),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" cosine " if self.cosine is not None else " ")
        printer.print_ssa_value(self.angle)
        printer.print_string(" else ")
        printer.print_ssa_value(self.near)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> FarAngleOp:
        cosine = parser.parse_optional_keyword("cosine") is not None
        angle = parse_defined_operand(parser)
        parser.parse_keyword("else")
        op = cls(angle, parse_defined_operand(parser), cosine)
        parser.parse_punctuation(":")
        pos = parser.pos
        if parser.parse_type() != op.result.type:
            parser.raise_error(f"the operands are of type {op.result.type}", pos, parser.pos)
        return op

    def verify_(self) -> None:
        types = {self.angle.type, self.near.type, self.result.type}
        if len(types) > 1 or not isinstance(self.result.type, Float32Type | Float64Type):
            raise VerifyException("an angle is of f32 or f64")
