"""The remainder of floats as an operation, which `arith` of xDSL lacks."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.op_helpers import (
    OwnOperation,
    check_operand_type,
    operation_definition,
    parse_defined_operand,
)


@operation_definition
class RemainderOp(OwnOperation):
    """`loops.remainder %x, %y : f32`: x minus the multiple of y next to it towards 0, exactly, with the sign
    of x, as `fmod` of C and `arith.remf` of MLIR.
    """

    name = "loops.remainder"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, lhs: SSAValue, rhs: SSAValue) -> None:
        Operation.__init__(self, operands=[lhs, rhs], result_types=[lhs.type])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> RemainderOp:
        lhs = parse_defined_operand(parser)
        parser.parse_punctuation(",")
        op = cls(lhs, parse_defined_operand(parser))
        check_operand_type(parser, op.result.type)
        return op

    def verify_(self) -> None:
        types = {self.lhs.type, self.rhs.type, self.result.type}
        if len(types) > 1 or not isinstance(self.result.type, Float32Type | Float64Type):
            raise VerifyException("a remainder is of two f32 or two f64")
