"""Branches of threads by values that are found at run time."""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import operand_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.op_helpers import (
    OwnOperation,
    operation_definition,
    parse_defined_operand,
    print_parts,
)
from ocannl.dialects.kernel.launch import IF
from ocannl.dialects.routine import check_no_arguments, parse_body


@operation_definition
class IfOp(OwnOperation):
    """`kernel.if %own { ... }`: the body in the threads in which a truth value holds.

    A store at a position found at run time may stand in it: the value then tells apart the threads that would
    store to one cell.
    """

    name = IF
    condition = operand_def()
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, condition: SSAValue, body: Region) -> None:
        Operation.__init__(self, operands=[condition], regions=[body])

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.condition, " ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> IfOp:
        return cls(parse_defined_operand(parser), parse_body(parser))

    def verify_(self) -> None:
        check_no_arguments(self.body)
        if self.condition.type != i1:
            raise VerifyException(f"the condition is an i1, found {self.condition.type}")
