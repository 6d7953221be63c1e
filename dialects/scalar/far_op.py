"""A function of operands that are rare, which needs too many operations for all, as an operation."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import Float32Type, Float64Type, StringAttr, i1
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def, traits_def, var_operand_def
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

# The functions, with the number of their operands.
FAR_FUNCTIONS = {"sine": 1, "cosine": 1, "remainder": 2}


@operation_definition
class FarOp(OwnOperation):
    """`loops.far %is_far remainder(%x, %y) else %near : f32`: the function where the truth value holds, which
    is rare, and else `%near`.

    `sine(x)` is an angle in -pi/2..pi/2 that has the sine of x, `cosine(x)` one whose sine is the cosine of
    x, both NaN where x is infinite; `remainder(x, y)` is that of the truncated quotient of numbers that are
    not negative.
    """

    name = "loops.far"
    is_far = operand_def(i1)
    arguments = var_operand_def()
    near = operand_def()
    function = prop_def(StringAttr)
    result = result_def()
    traits = traits_def(Pure())

    def __init__(
        self, is_far: SSAValue, function: str, arguments: Sequence[SSAValue], near: SSAValue
    ) -> None:
        Operation.__init__(
            self,
            operands=[is_far, *arguments, near],
            result_types=[near.type],
            properties={"function": StringAttr(function)},
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.is_far)
        printer.print_string(f" {self.function.data}(")
        printer.print_list(self.arguments, printer.print_ssa_value)
        printer.print_string(") else ")
        printer.print_ssa_value(self.near)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> FarOp:
        is_far = parse_defined_operand(parser)
        function = parser.parse_identifier()
        arguments = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_defined_operand(parser)
        )
        parser.parse_keyword("else")
        op = cls(is_far, function, arguments, parse_defined_operand(parser))
        check_operand_type(parser, op.result.type)
        return op

    def verify_(self) -> None:
        name = self.function.data
        if FAR_FUNCTIONS.get(name) != len(self.arguments):
            known = ", ".join([f"{function} of {count}" for function, count in FAR_FUNCTIONS.items()])
            raise VerifyException(f"the functions are {known}; found {name} of {len(self.arguments)}")
        types = {self.result.type, self.near.type, *(argument.type for argument in self.arguments)}
        if len(types) > 1 or not isinstance(self.result.type, Float32Type | Float64Type):
            raise VerifyException("the numbers are all of f32, or all of f64")
