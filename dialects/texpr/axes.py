"""Axes of tensors by their row."""

from __future__ import annotations

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ocannl.dialects.records import dataclass
from ocannl.dialects.shapes.shape import ROW_KINDS, RowKind, Shape

MOST_AXES = 1000
"""How many axes a row may have, where one is named by its number."""

MEMORY_ORDER: tuple[RowKind, ...] = ("batch", "output", "input")


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a row, counted from its front, or by a negative number from its end."""

    row: RowKind
    number: int

    def in_memory(self, shape: Shape) -> int:
        """Its number in the order of memory, in a shape that has it."""
        ahead = MEMORY_ORDER[: MEMORY_ORDER.index(self.row)]
        own = len(shape.row(self.row).axes)
        return sum(len(shape.row(kind).axes) for kind in ahead) + self.number % own

    def __str__(self) -> str:
        return f"{self.row} {self.number}"


LAST_BATCH_AXIS = Axis("batch", -1)


@irdl_attr_definition
class AxesAttr(Data[tuple[Axis, ...]]):
    """Axes of several tensors, one of each: `<batch -1, output 0>`."""

    name = "texpr.axes"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Axis, ...]:
        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, lambda: parse_axis(parser)))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(", ".join(map(str, self.data)))


def parse_axis(parser: AttrParser) -> Axis:
    pos = parser.pos
    row = parser.parse_identifier(" naming a row")
    if row not in ROW_KINDS:
        parser.raise_error(f"a row is batch, input or output, found `{row}`", pos, parser.pos)
    pos = parser.pos
    number = parser.parse_integer(allow_boolean=False)
    if not -MOST_AXES <= number < MOST_AXES:
        parser.raise_error(f"a row has at most {MOST_AXES} axes", pos, parser.pos)
    return Axis(row, number)
