"""`texpr.slice`: the part of a tensor at positions of its axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from xdsl.ir import Data, SSAValue
from xdsl.irdl import irdl_attr_definition, operand_def, prop_def
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import check_names
from ocannl.dialects.index.linear import POSITION, Linear, parse_linear
from ocannl.dialects.ir.op_helpers import fill, operation_definition, parse_defined_operand, print_parts
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import static_ranges
from ocannl.dialects.shapes.shape import Dim, DimTerm, Row, Shape, closed_row
from ocannl.dialects.texpr.tensor_op import TensorOp, parse_result_type
from ocannl.dialects.texpr.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class Range:
    """`size` positions from `start` on, `step` apart: `0 to 6 by 2`, or `5 to -1 by -1`."""

    start: int
    size: int
    step: int = 1

    @property
    def last(self) -> int:
        return self.start + (self.size - 1) * self.step

    @property
    def minimum(self) -> int:
        """The least size of an axis that has the positions."""
        return max(self.start, self.last) + 1 if self.size else 0

    def at(self, index: Linear) -> Linear:
        """The position of an element of the part."""
        return index * self.step + Linear((), self.start)

    def __str__(self) -> str:
        stop = self.start if not self.size else self.last + (1 if self.step > 0 else -1)
        return f"{self.start} to {stop}" + (f" by {self.step}" if self.step != 1 else "")


@dataclass(frozen=True, slots=True)
class Ids:
    """The values of an operand as positions, `<0>`; in the part, `axes` axes stand in place of the axis:
    `<0 as 1>`.
    """

    operand: int
    axes: int = 0

    @property
    def index(self) -> Linear:
        """The name of the position in an index map."""
        return Linear.var(f"{POSITION}{self.operand}")

    def __str__(self) -> str:
        return f"<{self.operand} as {self.axes}>" if self.axes else f"<{self.operand}>"


Position: TypeAlias = Linear | Range | Ids | None
"""Of one axis: an index, which drops it, a range, values of an operand, or all positions: `_`."""


@dataclass(frozen=True, slots=True)
class RowPositions:
    """Positions of the leading and the trailing axes of a row; axes between them are whole."""

    leading: tuple[Position, ...] = ()
    trailing: tuple[Position, ...] = ()

    @property
    def all(self) -> tuple[Position, ...]:
        return self.leading + self.trailing

    def __str__(self) -> str:
        return ", ".join([*map(_text, self.leading), "...", *map(_text, self.trailing)])


def _text(position: Position) -> str:
    return "_" if position is None else str(position)


WHOLE = RowPositions()
Positions: TypeAlias = tuple[RowPositions, RowPositions, RowPositions]
"""Those of the batch, input and output row."""


@irdl_attr_definition
class PositionsAttr(Data[Positions]):
    """Positions of the axes of a tensor: `[i, ... | ... -> ..., 0 to 4]`."""

    name = "texpr.positions"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Positions:
        with parser.in_angle_brackets():
            return parse_positions(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(positions_text(self.data))


def positions_text(positions: Positions) -> str:
    """The positions as text: an index of the leftmost batch axis alone stands for itself."""
    batch, input, output = positions
    if input == output == WHOLE and not batch.trailing and len(batch.leading) == 1:
        (position,) = batch.leading
        if isinstance(position, Linear):
            return str(position)
    return f"[{batch} | {input} -> {output}]"


def users_positions(positions: Positions) -> str:
    """The positions as a user writes them: `0, 1` for the first batch axes, else all rows."""
    batch, input, output = positions
    if input == output == WHOLE and batch.leading and not batch.trailing:
        return ", ".join(map(_text, batch.leading))
    return positions_text(positions).strip("[]")


def ids_of(positions: Positions) -> Iterator[Ids]:
    """The ids among positions."""
    return (p for row in positions for p in row.all if isinstance(p, Ids))


def indices_of(positions: Positions) -> Iterator[Linear]:
    """The indices among positions."""
    return (p for row in positions for p in row.all if isinstance(p, Linear))


def parse_positions(parser: AttrParser) -> Positions:
    """Reads `positions_text`."""
    if parser.parse_optional_punctuation("[") is None:
        return RowPositions((parse_linear(parser),)), WHOLE, WHOLE
    batch = _parse_row(parser)
    parser.parse_punctuation("|")
    input = _parse_row(parser)
    parser.parse_punctuation("->")
    output = _parse_row(parser)
    parser.parse_punctuation("]")
    return batch, input, output


def _parse_row(parser: AttrParser) -> RowPositions:
    leading, trailing = list[Position](), list[Position]()
    while parser.parse_optional_punctuation("...") is None:
        pos = parser.pos
        leading.append(_parse_position(parser))
        if parser.parse_optional_punctuation(",") is None:
            parser.raise_error(
                "each row has `...`, for its other axes, as in `[2, ... | ... -> ..., 0 to 5]`",
                pos,
                parser.pos,
            )
    while parser.parse_optional_punctuation(",") is not None:
        trailing.append(_parse_position(parser))
    return RowPositions(tuple(leading), tuple(trailing))


def _parse_position(parser: AttrParser) -> Position:
    if parser.parse_optional_characters("_"):
        return None
    if parser.parse_optional_punctuation("<"):
        return _parse_ids(parser)
    pos = parser.pos
    first = parse_linear(parser)
    if not parser.parse_optional_keyword("to"):
        return first
    stop = parse_linear(parser)
    step = parse_linear(parser) if parser.parse_optional_keyword("by") else Linear((), 1)
    if first.terms or stop.terms or step.terms or not step.constant:
        parser.raise_error("a range is of integers, and its step is not 0", pos, parser.pos)
    size = len(range(first.constant, stop.constant, step.constant))
    return Range(first.constant, size, step.constant)


def _parse_ids(parser: AttrParser) -> Ids:
    operand = parser.parse_integer(allow_boolean=False, allow_negative=False)
    axes = 0
    if parser.parse_optional_keyword("as"):
        axes = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_punctuation(">")
    return Ids(operand, axes)


@operation_definition
class SliceOp(TensorOp):
    """`texpr.slice %x at batch_n`: the leftmost batch axis at a static index;
    `texpr.slice %x at [... | ... -> ..., 0 to 4]`: a part of any axes.
    """

    name = "texpr.slice"
    source = operand_def(TensorType)
    positions = prop_def(PositionsAttr)

    def __init__(self, source: SSAValue, positions: Positions, type: TensorType) -> None:
        fill(self, [source], {"positions": PositionsAttr(positions)}, [type])

    @staticmethod
    def of_batch(source: SSAValue, index: Linear, type: TensorType) -> SliceOp:
        """The leftmost batch axis at an index."""
        return SliceOp(source, (RowPositions((index,)), WHOLE, WHOLE), type)

    def print(self, printer: Printer) -> None:
        at = positions_text(self.positions.data)
        print_parts(printer, " ", self.source, f" at {at} : ", self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> SliceOp:
        source = parse_defined_operand(parser)
        parser.parse_keyword("at")
        return cls(source, parse_positions(parser), parse_result_type(parser))

    def verify_(self) -> None:
        if any(ids_of(self.positions.data)):
            raise VerifyException("what is read at the values of operands is a gather, no slice")
        if static_ranges(self) is not None:
            for index in indices_of(self.positions.data):
                check_names(self, index.names, {})


def part_shape(shape: Shape, positions: Positions, ids: Sequence[Shape] = ()) -> Shape:
    """The shape of the part of a tensor whose shape is final, and so are those of the ids."""
    batch, input, output = (_part_row(row, at, ids) for row, at in zip(shape, positions, strict=True))
    return Shape(batch, input, output)


def _part_row(row: Row, positions: RowPositions, ids: Sequence[Shape]) -> Row:
    end = len(row.axes) - len(positions.trailing)
    leading = zip(row.axes, positions.leading, strict=False)
    trailing = zip(row.axes[end:], positions.trailing, strict=True)
    middle = row.axes[len(positions.leading) : end]
    return closed_row(*_kept(leading, ids), *middle, *_kept(trailing, ids))


def _kept(axes: Iterable[tuple[DimTerm, Position]], ids: Sequence[Shape]) -> list[DimTerm]:
    """The sizes of the axes that a part has at positions."""
    found: list[DimTerm] = []
    for axis, position in axes:
        if isinstance(position, Ids):
            found += ids[position.operand].memory_axes if position.axes else []
        elif not isinstance(position, Linear):
            found.append(Dim(position.size) if isinstance(position, Range) else axis)
    return found


def _axes_in_part(position: Position) -> int:
    """How many axes of a part stand at a position."""
    if isinstance(position, Ids):
        return position.axes
    return int(not isinstance(position, Linear))


def id_indices(positions: RowPositions, part: Sequence[Linear]) -> list[Linear]:
    """The indices of the axes of ids among those of a part's row."""
    found: list[Linear] = []
    behind = len(part) - sum(map(_axes_in_part, positions.trailing))
    for start, own in ((0, positions.leading), (behind, positions.trailing)):
        for position in own:
            end = start + _axes_in_part(position)
            found += part[start:end] if isinstance(position, Ids) else []
            start = end
    return found


def source_row(positions: RowPositions, part: Sequence[Linear]) -> list[Linear]:
    """The indices of a row's axes, given those of the part's."""
    rest = list(part)
    leading = [_index(position, rest) for position in positions.leading]
    kept = sum(map(_axes_in_part, positions.trailing))
    middle = [rest.pop(0) for _ in range(len(rest) - kept)]
    return leading + middle + [_index(position, rest) for position in positions.trailing]


def _index(position: Position, rest: list[Linear]) -> Linear:
    """An axis's index; a range and a whole axis take the next index of the part, ids those of their axes."""
    if isinstance(position, Linear):
        return position
    if isinstance(position, Ids):
        del rest[: position.axes]
        return position.index
    return rest.pop(0) if position is None else position.at(rest.pop(0))
