"""The blocks of a sum: in how many steps, and how, its accumulators add up. Its text, and its attribute."""

from __future__ import annotations

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ocannl.dialects.records import dataclass


@dataclass(frozen=True, slots=True)
class SumBlocks:
    """An accumulator adds up `size` numbers at most, which are then added to a total. If it is `compensated`,
    what these additions round off is added up beside, and to the result.
    """

    size: int
    compensated: bool = False


@irdl_attr_definition
class SumBlocksAttr(Data[SumBlocks]):
    """`<blocks 16 compensated>`."""

    name = "loops.sum_blocks"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> SumBlocks:
        with parser.in_angle_brackets():
            parser.parse_keyword("blocks")
            return parse_blocks(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{blocks_text(self.data)}>")


def blocks_text(blocks: SumBlocks) -> str:
    return f"blocks {blocks.size}{' compensated' if blocks.compensated else ''}"


def parse_blocks(parser: AttrParser) -> SumBlocks:
    """Parses the size and the kind of blocks, behind the word `blocks`."""
    size = parser.parse_integer(allow_boolean=False, allow_negative=False)
    return SumBlocks(size, parser.parse_optional_keyword("compensated") is not None)
