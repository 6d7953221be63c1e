"""A parser that gives every operation the line and column where it stands, unless the text says otherwise."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, UnknownLoc
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.lexer import Position


class LocatingParser(Parser):
    """Reads IR text as `Parser` does. `first_line` is the line at which the text begins in its file."""

    def __init__(self, ctx: Context, text: str, name: str, first_line: int = 1) -> None:
        super().__init__(ctx, text, name)
        self._file = StringAttr(name)
        self._text = text
        self._first_line = first_line

    def parse_operation(self) -> Operation:
        start = self.pos
        op = super().parse_operation()
        if isinstance(op.location, UnknownLoc):
            line, column = self._line_and_column(start)
            op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        return op

    def _line_and_column(self, pos: Position) -> tuple[int, int]:
        line_start = self._text.rfind("\n", 0, pos) + 1
        return self._first_line + self._text.count("\n", 0, pos), pos - line_start + 1
