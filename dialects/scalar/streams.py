"""Streams of random numbers: how the elements of a tensor are computed from counters.

Element `p` of a tensor, counted in memory order, has a block of four words of its own at a counter `c`:
Threefry-4x32 of (low word of `p`, high word of `p`, low word of `c`, high word of `c`), under the key that
the stream's name gives. A block has two numbers in [0, 1). The first one is the upper 24 bits of word 0 in
f32, the upper 27 bits of word 0 and then the upper 26 bits of word 1 in f64. The second one is of words 2, 3.
"""

from __future__ import annotations

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ocannl.dialects.records import dataclass


@dataclass(frozen=True, slots=True)
class Stream:
    """A key by name, and whether the second number of each block is meant."""

    key: str
    second: bool = False


@irdl_attr_definition
class StreamAttr(Data[Stream]):
    """`<"dropout#1">`, or `<"normal#1" second>`."""

    name = "assign.stream"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Stream:
        with parser.in_angle_brackets():
            return parse_stream(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_stream(printer, self.data)


def parse_stream(parser: AttrParser) -> Stream:
    key = parser.parse_str_literal(" naming the key of random numbers")
    return Stream(key, parser.parse_optional_keyword("second") is not None)


def print_stream(printer: Printer, stream: Stream) -> None:
    printer.print_string_literal(stream.key)
    if stream.second:
        printer.print_string(" second")
