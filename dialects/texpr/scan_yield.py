"""`texpr.yield`: the end of the body of a scan."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.irdl import prop_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.op_helpers import (
    OwnOperation,
    operation_definition,
    parse_defined_operand,
    print_parts,
)
from ocannl.dialects.texpr.axes import AxesAttr, Axis, parse_axis
from ocannl.dialects.texpr.tensor_type import TensorType


@operation_definition
class YieldOp(OwnOperation):
    """Ends the body of a scan: `texpr.yield carry (%h2) each (%y at batch -1)`.

    The values that are carried to the next iteration, and those of which all iterations' are stacked along a
    new axis.
    """

    name = "texpr.yield"
    values = var_operand_def(TensorType)
    axes = prop_def(AxesAttr)

    def __init__(self, carries: Sequence[SSAValue], stacked: Sequence[tuple[SSAValue, Axis]]) -> None:
        Operation.__init__(
            self,
            operands=[*carries, *(value for value, _ in stacked)],
            properties={"axes": AxesAttr(tuple(axis for _, axis in stacked))},
        )

    @property
    def carries(self) -> tuple[SSAValue, ...]:
        """The values that the next iteration begins with."""
        return tuple(self.operands[: len(self.operands) - len(self.axes.data)])

    @property
    def stacked(self) -> tuple[tuple[SSAValue, Axis], ...]:
        """The stacked values, each with the axis of its stack that the iterations are along."""
        axes = self.axes.data
        return tuple(zip(self.operands[len(self.operands) - len(axes) :], axes, strict=True))

    def print(self, printer: Printer) -> None:
        if self.carries:
            printer.print_string(" carry ")
            with printer.in_parens():
                printer.print_list(self.carries, printer.print_ssa_value)
        if self.stacked:
            printer.print_string(" each ")
            with printer.in_parens():
                printer.print_list(self.stacked, lambda one: print_parts(printer, one[0], f" at {one[1]}"))

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        def stacked() -> tuple[SSAValue, Axis]:
            value = parse_defined_operand(parser)
            parser.parse_keyword("at")
            return value, parse_axis(parser)

        in_parens = parser.Delimiter.PAREN
        carries: list[SSAValue] = []
        each: list[tuple[SSAValue, Axis]] = []
        if parser.parse_optional_keyword("carry"):
            carries = parser.parse_comma_separated_list(in_parens, lambda: parse_defined_operand(parser))
        if parser.parse_optional_keyword("each"):
            each = parser.parse_comma_separated_list(in_parens, stacked)
        return cls(carries, each)

    def verify_(self) -> None:
        scan = self.parent_op()
        if scan is None or scan.name != "texpr.scan":
            raise VerifyException("`texpr.yield` ends the body of a scan")
