"""The schedule of a nest: the attribute `loops.schedule`, and its text."""

from __future__ import annotations

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ocannl.dialects.index.linear import Space
from ocannl.dialects.loops.dot_instructions import DOT_NAMES
from ocannl.dialects.records import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a nest runs: `order` of its own loops, outermost first; a register tile of `rows` x `lanes`.

    `lanes` names the variable that becomes the vector dimension, with the vector width; `rows` the variable
    that is unrolled in registers beside it, with the tile's height. `lanes` may be a reduction's variable.
    `parallel` cuts the space into tasks that threads share: blocks of so many points of its variables.
    `merged` are groups of variables of one space, outermost first, over which one loop runs: all accesses
    move by equal steps over the points of a group. The other parts call it by its names with `*` between.
    Reductions whose lanes are the nest's have `chains` accumulator chains, each for steps of its own.
    `dot` names the instruction that adds up the products of a nest on its tile.
    `strips` cuts a loop into strips of so many points (strip mining): around all loops of the order runs one
    over strips, so that what the others read again and again for one strip stays in a cache.
    A `tuned` schedule was chosen by running the nest.
    """

    order: tuple[str, ...] = ()
    rows: tuple[str, int] | None = None
    lanes: tuple[str, int] | None = None
    parallel: tuple[tuple[str, int], ...] = ()
    merged: tuple[tuple[str, ...], ...] = ()
    chains: int = 1
    tuned: bool = False
    dot: str = ""
    strips: tuple[str, int] | None = None

    def loops(self, space: Space) -> dict[str, int]:
        """The loops over a space and their lengths, one a variable or a group."""
        loop_of = {name: "*".join(names) for names in self.merged for name in names}
        loops: dict[str, int] = {}
        for name, size in space:
            loop = loop_of.get(name, name)
            loops[loop] = loops.get(loop, 1) * size
        return loops

    @property
    def tiles(self) -> list[tuple[str, int]]:
        """The variables of the register tile, with its extents along them."""
        return [tile for tile in (self.rows, self.lanes) if tile is not None]

    @property
    def tile_loops(self) -> list[str]:
        """The variables of the register tile."""
        return [name for name, _ in self.tiles]

    def tile(self, variable: str) -> int:
        """How many points of a variable are in a register tile."""
        return dict(self.tiles).get(variable, 1)


@irdl_attr_definition
class ScheduleAttr(Data[Schedule]):
    """`<order = (o, b), parallel = (o : 64), rows = b : 8, lanes = o : 32>`."""

    name = "loops.schedule"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Schedule:
        return parse_schedule(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(schedule_text(self.data))


def schedule_text(schedule: Schedule) -> str:
    parts: list[str] = ["tuned"] if schedule.tuned else []
    if schedule.merged:
        parts.append(f"merged = ({', '.join(map('*'.join, schedule.merged))})")
    if schedule.order:
        parts.append(f"order = ({', '.join(schedule.order)})")
    if schedule.parallel:
        parts.append(f"parallel = ({', '.join(f'{name} : {size}' for name, size in schedule.parallel)})")
    if schedule.rows:
        parts.append(f"rows = {schedule.rows[0]} : {schedule.rows[1]}")
    if schedule.lanes:
        parts.append(f"lanes = {schedule.lanes[0]} : {schedule.lanes[1]}")
    if schedule.chains != 1:
        parts.append(f"chains = {schedule.chains}")
    if schedule.dot:
        parts.append(f"dot = {schedule.dot}")
    if schedule.strips:
        parts.append(f"strips = {schedule.strips[0]} : {schedule.strips[1]}")
    return f"<{', '.join(parts)}>"


SCHEDULE_PARTS = ("tuned", "merged", "order", "parallel", "rows", "lanes", "chains", "dot", "strips")


def parse_schedule(parser: AttrParser) -> Schedule:
    order: tuple[str, ...] = ()
    parallel: tuple[tuple[str, int], ...] = ()
    merged: tuple[tuple[str, ...], ...] = ()
    chains, dot = 1, ""
    extents: dict[str, tuple[str, int]] = {}
    seen: set[str] = set()

    def group() -> tuple[str, ...]:
        names = [parser.parse_identifier(" naming an iteration variable")]
        while parser.parse_optional_punctuation("*"):
            names.append(parser.parse_identifier(" after `*`"))
        return tuple(names)

    def loop() -> str:
        return "*".join(group())

    def extent() -> tuple[str, int]:
        name = loop()
        parser.parse_punctuation(":")
        return name, parser.parse_integer(allow_boolean=False, allow_negative=False)

    def entry() -> None:
        nonlocal order, parallel, merged, chains, dot
        pos = parser.pos
        key = parser.parse_keyword_in(SCHEDULE_PARTS, " in a schedule")
        if key in seen:
            parser.raise_error(f"`{key}` stands twice in the schedule", pos, parser.pos)
        seen.add(key)
        if key == "tuned":
            return
        parser.parse_punctuation("=")
        if key == "order":
            order = tuple(parser.parse_comma_separated_list(parser.Delimiter.PAREN, loop))
        elif key == "merged":
            merged = tuple(parser.parse_comma_separated_list(parser.Delimiter.PAREN, group))
        elif key == "parallel":
            parallel = tuple(parser.parse_comma_separated_list(parser.Delimiter.PAREN, extent))
        elif key == "chains":
            chains = parser.parse_integer(allow_boolean=False, allow_negative=False)
        elif key == "dot":
            dot = parser.parse_keyword_in(DOT_NAMES, " naming an instruction")
        else:
            extents[key] = extent()

    parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry)
    rows, lanes, strips = (extents.get(key) for key in ("rows", "lanes", "strips"))
    return Schedule(order, rows, lanes, parallel, merged, chains, "tuned" in seen, dot, strips)


def print_schedule(printer: Printer, schedule: ScheduleAttr | None) -> None:
    if schedule is not None:
        printer.print_string(" schedule " + schedule_text(schedule.data))


def parse_optional_schedule(parser: AttrParser) -> Schedule | None:
    return parse_schedule(parser) if parser.parse_optional_keyword("schedule") else None
