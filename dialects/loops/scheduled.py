"""The base of operations with a schedule: nests and groups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import opt_prop_def, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator

from ocannl.dialects.index.linear import SpaceAttr, parse_space, space_text
from ocannl.dialects.ir.op_helpers import given, print_parts
from ocannl.dialects.loops.late_bodies import LATE_REGIONS
from ocannl.dialects.loops.schedule import Schedule, ScheduleAttr, parse_optional_schedule, print_schedule
from ocannl.dialects.loops.steps import StepOp
from ocannl.dialects.routine import parse_body


class ScheduledOp(StepOp):
    """Base of nests and groups: a labelled body over a space, with a schedule or without."""

    label = prop_def(StringAttr)
    space = prop_def(SpaceAttr)
    schedule = opt_prop_def(ScheduleAttr)
    body = region_def("single_block")
    regions: tuple[Region, ...] = LATE_REGIONS
    traits = traits_def(NoTerminator())

    def __init__(
        self, label: str, space: Sequence[tuple[str, int]], body: Region, schedule: Schedule | None = None
    ) -> None:
        Operation.__init__(
            self,
            properties=given(
                label=StringAttr(label),
                space=SpaceAttr(tuple(space)),
                schedule=None if schedule is None else ScheduleAttr(schedule),
            ),
            regions=[body],
        )

    @property
    @abstractmethod
    def clashing(self) -> set[str]:
        """The variables in which points may differ that store to the same element: such points run
        in turn.
        """

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.label, f" {space_text(self.space.data)}")
        self.print_bounds(printer)
        print_schedule(printer, self.schedule)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)

    def print_bounds(self, printer: Printer) -> None:
        """Prints what leaves points of the space out, if something does."""

    @classmethod
    def parse(cls, parser: Parser):
        label = parser.parse_str_literal(f" naming the {cls.name.partition('.')[2]}")
        space = parse_space(parser)
        bounds = cls.parse_bounds(parser)
        schedule = parse_optional_schedule(parser)
        made = cls(label, space, parse_body(parser), schedule)
        made.properties |= bounds
        return made

    @classmethod
    def parse_bounds(cls, parser: Parser) -> dict[str, Attribute]:
        """The properties of what `print_bounds` prints."""
        return {}
