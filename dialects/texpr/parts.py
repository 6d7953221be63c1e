"""The parts of a projected tensor operation: accumulations into one result that run in turn."""

from __future__ import annotations

from xdsl.ir import ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import Parser
from xdsl.printer import Printer

from ocannl.dialects.index.linear import Map, MapAttr, Space, SpaceAttr, parse_map, parse_space, space_text
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.combination import Combination, TermAttr, parse_combination, print_combination


@dataclass(frozen=True, slots=True)
class Part:
    """One accumulation of a projected operation, with operands and a space of its own."""

    combination: Combination
    result_map: Map
    space: Space

    def print(self, printer: Printer) -> None:
        combination = self.combination
        print_combination(printer, combination.term, combination.operands, combination.maps)
        printer.print_string(f" over {space_text(self.space)}")


@irdl_attr_definition
class PartAttr(ParametrizedAttribute):
    """A further part of a projected operation; its operands follow those of the part before."""

    name = "texpr.part"
    term: TermAttr
    result_map: MapAttr
    space: SpaceAttr


def parse_part(parser: Parser, accum: str | None) -> Part:
    """Reads a part whose accumulation must be `accum`."""
    pos = parser.pos
    result_map = parse_map(parser)
    if parser.parse_optional_identifier() != accum:
        parser.raise_error("all parts of an operation have one accumulation", pos, parser.pos)
    parser.parse_punctuation("=")
    combination = parse_combination(parser)
    parser.parse_keyword("over")
    return Part(combination, result_map, parse_space(parser))
