"""Placements of tensors on a mesh: the axes that a program asks to be split, and those that are."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import Data, Operation
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ocannl.dialects.index.splits import SplitAxis, check_splits, parse_splits, splits_text
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import enclosing_routine
from ocannl.dialects.shapes.shape import ROW_KINDS, RowKind
from ocannl.dialects.texpr.tensor_type import shape_of


@dataclass(frozen=True, slots=True)
class AskedAxis:
    """An axis along which a program splits a tensor: of a row by its number, the first one that is not read
    at a fixed position where there is no number; or without a row, by the number in memory order.
    """

    row: RowKind | None
    number: int | None

    def __str__(self) -> str:
        return " ".join(str(part) for part in (self.row, self.number) if part is not None)


@dataclass(frozen=True, slots=True)
class Placement:
    """The axis to split over each mesh axis, if any is asked for; the splits that were made, in order; and
    the stage of memory that only one has.
    """

    asked: tuple[tuple[str, AskedAxis], ...] | None = None
    splits: tuple[SplitAxis, ...] = ()
    stage: int | None = None

    def asked_over(self, mesh: str) -> AskedAxis | None:
        return dict(self.asked or ()).get(mesh)

    def with_split(self, split: SplitAxis) -> Placement:
        return replace(self, splits=(*self.splits, split))

    def __str__(self) -> str:
        """As in ` stage 1 shard <"data" = batch> split 0 of 10 over "data"`."""
        stage = "" if self.stage is None else f" stage {self.stage}"
        asked = ", ".join(f'"{mesh}" = {axis}' for mesh, axis in self.asked or ())
        shard = "" if self.asked is None else f" shard <{asked}>"
        return f"{stage}{shard}{splits_text(self.splits)}"


@irdl_attr_definition
class PlacementAttr(Data[Placement]):
    """The placement of a tensor: ` shard <"data" = batch> split 0 of 10 over "data"`."""

    name = "texpr.placement"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Placement:
        with parser.in_angle_brackets():
            return _parse(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))


def placement_in(op: Operation) -> Placement:
    """The placement among the properties of an operation; nothing is asked where it has none."""
    found = op.properties.get("placement")
    return found.data if isinstance(found, PlacementAttr) else Placement()


def check_placement(op: Operation) -> None:
    """Raises `VerifyException` where the splits of a tensor do not give a part of its sizes."""
    routine, splits = enclosing_routine(op), placement_in(op).splits
    shape = shape_of(op.results[0])
    if routine is not None and splits and shape.is_final:
        check_splits(shape.memory_sizes, splits, routine.mesh_sizes)


def print_placement(printer: Printer, placement: PlacementAttr | None) -> None:
    printer.print_string("" if placement is None else str(placement.data))


def parse_placement(parser: AttrParser) -> PlacementAttr | None:
    """Reads what `print_placement` prints."""
    found = _parse(parser)
    return None if found == Placement() else PlacementAttr(found)


def _parse(parser: AttrParser) -> Placement:
    asked = stage = None
    if parser.parse_optional_keyword("stage"):
        stage = parser.parse_integer(allow_boolean=False, allow_negative=False)
    if parser.parse_optional_keyword("shard"):
        pairs = parser.parse_comma_separated_list(parser.Delimiter.ANGLE, lambda: _parse_asked(parser))
        asked = tuple(pairs)
    return Placement(asked, parse_splits(parser), stage)


def _parse_asked(parser: AttrParser) -> tuple[str, AskedAxis]:
    mesh = parser.parse_str_literal(" naming a mesh axis")
    parser.parse_punctuation("=")
    row: RowKind | None = None
    for kind in ROW_KINDS:
        if row is None and parser.parse_optional_keyword(kind):
            row = kind
    number = parser.parse_optional_integer(allow_boolean=False)
    if row is None and number is None:
        parser.raise_error("expected batch, input, output, or the number of an axis")
    return mesh, AskedAxis(row, number)
