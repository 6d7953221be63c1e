"""Splits of arrays: which axes the ranks of a mesh share, each with its part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.records import dataclass


@dataclass(frozen=True, slots=True)
class SplitAxis:
    """An axis of memory, of `size` cells in all, which the ranks of a mesh axis share evenly, the last ones
    with less.
    """

    axis: int
    size: int
    mesh: str

    def __str__(self) -> str:
        return f'split {self.axis} of {self.size} over "{self.mesh}"'


@irdl_attr_definition
class SplitsAttr(Data[tuple[SplitAxis, ...]]):
    """The splits of an array, one mesh axis after another: `split 0 of 10 over "data"`."""

    name = "assign.splits"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[SplitAxis, ...]:
        with parser.in_angle_brackets():
            return parse_splits(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(splits_text(self.data))


def splits_text(splits: Sequence[SplitAxis]) -> str:
    """As in ` split 0 of 10 over "data"`."""
    return "".join(f" {split}" for split in splits)


def parse_splits(parser: AttrParser) -> tuple[SplitAxis, ...]:
    """Reads what `splits_text` gives."""
    found: list[SplitAxis] = []
    while parser.parse_optional_keyword("split"):
        axis = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_keyword("of")
        size = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_keyword("over")
        found.append(SplitAxis(axis, size, parser.parse_str_literal(" naming a mesh axis")))
    return tuple(found)


def whole_sizes(sizes: Sequence[int], splits: Sequence[SplitAxis]) -> tuple[int, ...]:
    """The sizes of the whole, for those of a part."""
    found = [*sizes]
    for split in reversed(splits):
        found[split.axis] = split.size
    return tuple(found)


def check_splits(sizes: Sequence[int], splits: Sequence[SplitAxis], mesh: Mapping[str, int]) -> None:
    """Raises `VerifyException` for splits that do not give a part of these sizes, from the last split to the
    first: what one leaves of an axis is the whole of the next.
    """
    parts = [*sizes]
    for split in reversed(splits):
        if split.axis >= len(parts):
            raise VerifyException(f"there are {len(parts)} axes, and none is number {split.axis} to split")
        if split.mesh not in mesh:
            raise VerifyException(f'the routine\'s mesh has no axis "{split.mesh}"')
        ranks, found = mesh[split.mesh], parts[split.axis]
        part = -(-split.size // ranks)
        if part != found:
            wanted = f"{ranks} ranks have parts of {part} of {split.size}"
            raise VerifyException(f"{wanted} along axis {split.axis}, found {found}")
        parts[split.axis] = split.size
