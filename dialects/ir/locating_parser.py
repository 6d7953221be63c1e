"""A parser that gives every operation the line and column where it stands, unless the text says otherwise."""

from __future__ import annotations

import re

from xdsl.context import Context
from xdsl.dialects.builtin import Float80Type, Float128Type, ModuleOp, StringAttr
from xdsl.ir import Operation, TypeAttribute
from xdsl.parser import Parser
from xdsl.parser.generic_parser import ParserState
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.lexer import Input, Position
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind, StringLiteral

from ocannl.dialects.ir.origins import interned, is_known, place


class LinearTimeLexer(MLIRLexer):
    """xDSL's lexer, which takes time in proportion to the text also for a string without an end.

    Possessive quantifiers in the pattern of strings leave nothing to try again.
    """

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


def is_empty(text: str) -> bool:
    """Whether a text has blanks and comments only, as what follows the last `// -----` of a file."""
    return all(not line.strip() or line.lstrip().startswith("//") for line in text.splitlines())


class LocatingParser(Parser):
    """Reads IR text as `Parser` does. `first_line` is the line at which the text begins in its file."""

    def __init__(self, ctx: Context, text: str, name: str, first_line: int = 1) -> None:
        super().__init__(ctx, "", name)
        self._parser_state = ParserState(LinearTimeLexer(Input(text, name)))
        self._name = name
        self._text = text
        self._first_line = first_line

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Raises `ParseError` also for what Python cannot read: numbers too long, values that do not fit into
        memory, nesting too deep; and for a text without operations.
        """
        if is_empty(self._text):
            self.raise_error("the text is empty: it has no operation")
        try:
            return super().parse_module(allow_implicit_module)
        except ValueError as error:
            self.raise_error(str(error))
        except OverflowError:
            self.raise_error("a number is too large")
        except MemoryError:
            self.raise_error("there is not enough memory to read this")
        except RecursionError:
            self.raise_error("the text is nested too deeply")

    def parse_operation(self) -> Operation:
        """Raises `ParseError` for types that an operation does not have, too."""
        start = self.pos
        try:
            op = super().parse_operation()
        except VerifyException as error:
            self.raise_error(str(error), start, len(self._text[: self.pos].rstrip()))
        if is_known(op.location):
            op.location = interned(op.location)
        else:
            op.location = place(self._name, *self._line_and_column(start))
        return op

    def parse_optional_type(self) -> TypeAttribute | None:
        """Raises `ParseError` for floats that xDSL reads, and neither packs nor prints."""
        start = self.pos
        type = super().parse_optional_type()
        if isinstance(type, Float80Type | Float128Type):
            self.raise_error(f"floats have at most 64 bits, found {type}", start, start + len(str(type)))
        return type

    def parse_optional_str_literal(self) -> str | None:
        """Text beyond ASCII is printed as the bytes of its UTF-8."""
        if self._current_token.kind is not MLIRTokenKind.BYTES_LIT:
            return super().parse_optional_str_literal()
        try:
            text = StringLiteral.from_span(self._current_token.span).bytes_contents.decode()
        except UnicodeDecodeError:
            return None
        self._consume_token()
        return text

    def _parse_optional_string_attr(self) -> StringAttr | None:
        text = self.parse_optional_str_literal()
        return None if text is None else StringAttr(text)

    def _line_and_column(self, pos: Position) -> tuple[int, int]:
        line_start = self._text.rfind("\n", 0, pos) + 1
        return self._first_line + self._text.count("\n", 0, pos), pos - line_start + 1
