"""Points of a space by their numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from xdsl.ir import Operation, Region
from xdsl.irdl import IRDLOperation, prop_def, region_def, traits_def
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
from ocannl.dialects.kernel.launch import POINT, check_values
from ocannl.dialects.loops import check_fresh
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import check_no_arguments, parse_body


@dataclass(frozen=True)
class Numbered:
    """The point of a space that has a number, if there is one."""

    space: Space
    number: Linear

    @property
    def count(self) -> int:
        """The points of the space."""
        return math.prod(size for _, size in self.space)

    def __str__(self) -> str:
        return f"{space_text(self.space)} number {self.number}"

    def check(self, op: IRDLOperation, sizes: Mapping[str, int]) -> None:
        """Raises `VerifyException` where variables are not fresh, or the number may be negative."""
        names = tuple(name for name, _ in self.space)
        check_space(op, names)
        check_values(self.space)
        check_fresh(op, names)
        check_names(op, self.number.names, sizes)
        extremes = self.number.extremes(sizes)
        if extremes is not None and extremes[0] < 0:
            raise VerifyException(f"points are counted from 0 on, but `{self.number}` may be negative")


def numbered(space: Space) -> Linear:
    """The number of a point of a space, of which the last variable varies fastest."""
    total = Linear()
    for name, size in space:
        total = total * size + Linear.var(name)
    return total


def points_of(sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The points of a space; the last variable varies fastest."""
    for values in itertools.product(*map(range, sizes.values())):
        yield dict(zip(sizes, values, strict=True))


def parse_numbered(parser: Parser) -> Numbered:
    space = parse_space(parser)
    parser.parse_characters("number")
    return Numbered(space, parse_linear(parser))


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

    def __init__(self, at: Numbered, body: Region) -> None:
        properties = {"space": SpaceAttr(at.space), "numbers": MapAttr((at.number,))}
        Operation.__init__(self, properties=properties, regions=[body])

    @property
    def at(self) -> Numbered:
        (number,) = self.numbers.data
        return Numbered(self.space.data, number)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.at} ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> PointOp:
        return cls(parse_numbered(parser), parse_body(parser))

    def verify_(self) -> None:
        check_no_arguments(self.body)
        self.at.check(self, scope_sizes(self))
