"""Points of a space by their numbers."""

from __future__ import annotations

import math

from xdsl.ir import Operation, Region
from xdsl.irdl import prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import check_names, check_space
from ocannl.dialects.index.linear import (
    Linear,
    MapAttr,
    Space,
    SpaceAttr,
    parse_linear,
    parse_space,
    space_text,
)
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.ir.op_helpers import OwnOperation, operation_definition
from ocannl.dialects.kernel.launch import POINT
from ocannl.dialects.loops import check_fresh
from ocannl.dialects.routine import check_no_arguments, parse_body


@operation_definition
class PointOp(OwnOperation):
    """`kernel.point (i = 3, j = 3, c = 2) number step + 2 { ... }`: the body at the point that has a number.

    The points of a space are counted from 0 on, the last variable varies fastest. The body does not run where
    the space has fewer points. So indices are linear in variables that stand for the digits of a number.
    """

    name = POINT
    space = prop_def(SpaceAttr)
    numbers = prop_def(MapAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, space: Space, number: Linear, body: Region) -> None:
        properties = {"space": SpaceAttr(space), "numbers": MapAttr((number,))}
        Operation.__init__(self, properties=properties, regions=[body])

    @property
    def number(self) -> Linear:
        (number,) = self.numbers.data
        return number

    @property
    def count(self) -> int:
        """The points of the space."""
        return math.prod(size for _, size in self.space.data)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {space_text(self.space.data)} number {self.number} ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> PointOp:
        space = parse_space(parser)
        parser.parse_characters("number")
        return cls(space, parse_linear(parser), parse_body(parser))

    def verify_(self) -> None:
        check_no_arguments(self.body)
        check_space(self, self.space.names)
        check_fresh(self, self.space.names)
        sizes = scope_sizes(self)
        check_names(self, self.number.names, sizes)
        extremes = self.number.extremes(sizes)
        if extremes is not None and extremes[0] < 0:
            raise VerifyException(f"points are counted from 0 on, but `{self.number}` may be negative")
