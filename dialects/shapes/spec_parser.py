"""Reads the einsum notation."""

from __future__ import annotations

import re
from functools import lru_cache

from ocannl.dialects.records import dataclass
from ocannl.dialects.shapes.spec import (
    Affine,
    Anything,
    Axis,
    Concat,
    Fixed,
    Name,
    Padding,
    Product,
    RowName,
    RowPart,
    RowSpec,
    Slot,
    Spec,
    Term,
)

_DIGITS = "0123456789"
_MOST_DIGITS = 9
_SYMBOLS = ("=>", "=+", "<+", "->", "|", ";", ",", "+", "-", "*", "^", "&")
_PADDINGS = {padding.value: padding for padding in Padding}
_ENDS_OF_SLOT = (";", "=>", "")
_ENDS_OF_ROW = ("|", "->", *_ENDS_OF_SLOT)
_BEFORE_AXES = ("|", "->", "=>", ";", ",")
_REVERSED = "`-` stands before a reversed dimension, as in `o + -k`"
_NO_OFFSET = (
    f"{_REVERSED}; an offset is added: `1^a => a` leaves the first cell out, `a => 1^a` puts one before"
)
_HINTS = {
    "=": "`=` alone means nothing; did you mean `=>`?",
    ".": "a row variable is written `...` or `..name..`",
    ":": "`:` means nothing here; slots are separated by `;`",
    "(": "parentheses mean nothing here; `(h d)` of einops is `h&d`, and a size is given by name: h=8",
}


class SpecSyntaxError(ValueError):
    """Text that is not a spec. `offset` is the index of the offending character in `text`."""

    def __init__(self, message: str, text: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.offset = offset

    def __str__(self) -> str:
        shown = "".join(" " if char.isspace() or not char.isprintable() else char for char in self.text)
        return f"{self.message}\n  {shown}\n  {' ' * self.offset}^"


@lru_cache(maxsize=2**10)
def parse_spec(text: str, num_operands: int | None = None) -> Spec:
    """Reads a spec, for `num_operands` operands if that is given. Raises `SpecSyntaxError`."""
    return _Parser(text, num_operands).spec()


# Specs with one of these name axes by words.
_SYMBOLS_OF_WORDS = ",+*^&"


@dataclass(frozen=True, slots=True)
class _Token:
    """`kind` is `name`, `int`, `any`, `row`, a symbol, or empty at the end."""

    kind: str
    text: str
    offset: int


class _Lexer:
    """Cuts a spec into tokens."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.has_commas = "," in text
        self.has_words = any(symbol in text for symbol in _SYMBOLS_OF_WORDS)
        """Whether names have many letters."""

    def tokens(self) -> list[_Token]:
        """All tokens, and one more for the end. Raises `SpecSyntaxError`."""
        tokens: list[_Token] = []
        offset = 0
        while offset < len(self.text):
            if self.text[offset].isspace():
                offset += 1
                continue
            tokens.append(self._token(offset))
            offset += len(tokens[-1].text)
        return [*tokens, _Token("", "", len(self.text))]

    def _token(self, offset: int) -> _Token:
        text, char = self.text, self.text[offset]
        if text.startswith("..", offset):
            return self._row_variable(offset)
        for symbol in _SYMBOLS:
            if text.startswith(symbol, offset):
                return _Token(symbol, symbol, offset)
        if char in _DIGITS:
            return self._number(offset)
        if char.isalpha() or char == "_":
            word = self._word(offset) if self.has_words else char
            return _Token("any" if word == "_" else "name", word, offset)
        message = _HINTS.get(char, f"{char!r} means nothing in a spec")
        raise SpecSyntaxError(message, text, offset)

    def _row_variable(self, offset: int) -> _Token:
        text = self.text
        if text.startswith("...", offset):
            return _Token("row", "...", offset)
        name = self._word(offset + 2)
        if not name:
            raise SpecSyntaxError(_HINTS["."], text, offset)
        if not text.startswith("..", offset + 2 + len(name)):
            raise SpecSyntaxError(f"the row variable is not closed; write `..{name}..`", text, offset)
        return _Token("row", f"..{name}..", offset)

    def _number(self, offset: int) -> _Token:
        end = offset
        while end < len(self.text) and self.text[end] in _DIGITS:
            end += 1
        number = self.text[offset:end]
        if len(number) > 1 and not self.has_words:
            axes = " ".join(number[:_MOST_DIGITS])
            message = (
                f"numbers of several digits need commas between the axes (for single digits write `{axes}`)"
            )
            raise SpecSyntaxError(message, self.text, offset)
        if len(number) > _MOST_DIGITS:
            raise SpecSyntaxError("the number is too large", self.text, offset)
        return _Token("int", number, offset)

    def _word(self, offset: int) -> str:
        end = offset
        while end < len(self.text) and (self.text[end].isalnum() or self.text[end] == "_"):
            end += 1
        return self.text[offset:end]


class _Parser:
    """Recursive descent over the tokens of one spec. Every method raises `SpecSyntaxError`."""

    def __init__(self, text: str, num_operands: int | None) -> None:
        lexer = _Lexer(text)
        self.text = text
        self.num_operands = num_operands
        self.has_commas = lexer.has_commas
        self.tokens = lexer.tokens()
        self.at = 0

    def _comma_missing(self) -> str:
        """Of a row in which some axes have commas; of a spec of einops, how it is written here."""
        if re.fullmatch(r"[\w\s,]+->[\w\s]*", self.text) or self._has_commas_between_slots():
            own = self.text.replace(",", ";")
            own = own if "=>" in own else own.replace("->", "=>")
            return f"operands are separated by `;`, and the result comes after `=>`: here `{own}`"
        return "a comma is missing between two axes"

    def _has_commas_between_slots(self) -> bool:
        """Whether it is of several operands, between which may be its commas."""
        of_several = self.num_operands is not None and self.num_operands > 1
        return of_several and ";" not in self.text and "," in self.text

    def _arrow_missing(self) -> str:
        """Of a slot that goes on with `|`: it has two, or is of several operands with commas between them."""
        if "=>" not in self.text:
            return "operands are separated by `;`, and the result comes after `=>`"
        return "`|` stands once, after the batch row and before `->`"

    def _right_form(self) -> str:
        """The form of a spec; for one of NumPy's, that spec as it is written here."""
        foreign = re.fullmatch(r"\s*([a-zA-Z,\s]+)->([a-zA-Z\s]*)", self.text)
        if foreign is None or ("," in self.text and " " in foreign[1].strip().replace(", ", ",")):
            return "`operand; operand => result`"
        operands, result = foreign[1].split(","), foreign[2].replace(" ", "")
        own = "; ".join([" ".join(operand.replace(" ", "")) for operand in operands])
        return f"`operand; operand => result`, here `{own} => {' '.join(result) or 0}`"

    def spec(self) -> Spec:
        num_operands = self.num_operands
        starts = [self._next.offset]
        operands = [self._slot()]
        while self._accept(";"):
            starts.append(self._next.offset)
            operands.append(self._slot())
        arrow = self._next
        if not self._accept("=>"):
            raise self._error(f"the result is missing: a spec is {self._right_form()}", arrow)
        result = self._slot()
        if self._next.kind:
            raise self._error("nothing may follow the one result", self._next)
        if num_operands is not None and num_operands != len(operands):
            offset = starts[num_operands] if num_operands < len(operands) else arrow.offset
            slots = "1 operand" if len(operands) == 1 else f"{len(operands)} operands"
            message = f"the spec is for {slots}, and is used with {num_operands}: `;` separates their slots"
            raise SpecSyntaxError(message, self.text, offset)
        return Spec(tuple(operands), result)

    def _slot(self) -> Slot:
        kinds = self._kinds_in_slot()
        batch = input = RowSpec()
        if "|" in kinds:
            batch = self._row("batch")
            self._expect("|", "`|` stands once, after the batch row and before `->`")
        if "->" in kinds:
            input = self._row("input")
            self._expect("->", self._arrow_missing())
        output = self._row("output")
        if self._next.kind not in _ENDS_OF_SLOT:
            form = "a slot is `batch | input -> output`, and the result comes after `=>`"
            if self._has_commas_between_slots():
                form = f"operands are separated by `;`, {form}"
            raise self._error(f"a second `{self._next.kind}` in this slot: {form}", self._next)
        return Slot(batch, input, output)

    def _kinds_in_slot(self) -> set[str]:
        kinds: set[str] = set()
        for token in self.tokens[self.at :]:
            if token.kind in _ENDS_OF_SLOT:
                break
            kinds.add(token.kind)
        return kinds

    def _row(self, place: RowName) -> RowSpec:
        before: list[Axis] = []
        after: list[Axis] = []
        var: str | None = None
        needs_comma = False
        while self._next.kind not in _ENDS_OF_ROW:
            token = self._next
            if token.kind == ",":
                raise self._error("an axis is missing before this comma", token)
            if token.kind == "row" and self._after_next.kind != "&":
                if var is not None:
                    raise self._error("a row has one row variable at most", token)
                var = self._row_name(place)
                needs_comma = False
            else:
                if needs_comma:
                    raise self._error(self._comma_missing(), token)
                (before if var is None else after).append(self._axis(place))
                needs_comma = self.has_commas
            if self._accept(","):
                needs_comma = False
        return RowSpec(tuple(before), var, tuple(after))

    def _row_name(self, place: RowName) -> str:
        text = self._take().text
        return place if text == "..." else text.strip(".")

    # Axes.

    def _axis(self, place: RowName) -> Axis:
        first = self._next
        if first.kind == "any":
            self._take()
            axis: Axis = Anything()
        elif first.kind == "-":
            if self.at and self.tokens[self.at - 1].kind not in _BEFORE_AXES:
                is_offset = self._after_next.kind == "int" and self._ahead(2).kind != "*"
                raise self._error(_NO_OFFSET if is_offset else f"{_REVERSED}; did you mean `->`?", first)
            axis = self._affine()
        elif first.kind not in ("name", "int", "row"):
            raise self._error(f"`{first.kind}` needs an axis before it", first)
        elif self._after_next.kind == "^":
            axis = self._concat()
        elif self._after_next.kind == "&":
            axis = self._product(place)
        elif self._after_next.kind in ("*", *_PADDINGS):
            axis = self._affine()
        elif first.kind == "int":
            axis = Fixed(int(self._take().text))
        else:
            axis = Name(self._take().text)
        if self._next.kind in ("^", "&", "*", *_PADDINGS):
            raise self._error(f"`{self._next.kind}` cannot follow this axis", self._next)
        return axis

    def _concat(self) -> Concat:
        parts = [self._part()]
        while self._accept("^"):
            parts.append(self._part())
        return Concat(tuple(parts))

    def _part(self) -> Name | Fixed:
        token = self._take_one_of(("name", "int"), "`^` joins names and sizes")
        return Name(token.text) if token.kind == "name" else Fixed(int(token.text))

    def _product(self, place: RowName) -> Product:
        factors = [self._factor(place)]
        while self._accept("&"):
            factors.append(self._factor(place))
        return Product(tuple(factors))

    def _factor(self, place: RowName) -> Name | RowPart:
        if self._next.kind == "row":
            return RowPart(self._row_name(place))
        return Name(
            self._take_one_of(
                ("name",), "`&` multiplies names and row variables: a size is given by name, as n=2"
            ).text
        )

    def _affine(self) -> Affine | Name:
        start = self._next
        terms: list[Term] = []
        padding, offset = Padding.BY_OPERATION, 0
        operator: _Token | None = None
        while True:
            summand = self._next
            if summand.kind == "int" and self._after_next.kind != "*":
                offset += int(self._take().text)
                if operator is not None and operator.kind != "+":
                    raise self._error(f"`{operator.kind}` joins two dimensions", operator)
            else:
                terms.append(self._term())
                if operator is not None and operator.kind != "+":
                    if len(terms) != 2:
                        message = f"`{operator.kind}` stands once, after the first dimension"
                        raise self._error(message, operator)
                    padding = _PADDINGS[operator.kind]
            if self._next.kind not in _PADDINGS:
                break
            operator = self._take()
        return self._affine_of(terms, offset, padding, start)

    def _affine_of(self, terms: list[Term], offset: int, padding: Padding, start: _Token) -> Affine | Name:
        if not terms:
            raise self._error("an affine axis needs a dimension", start)
        if len(terms) == 1 and padding is not Padding.BY_OPERATION:
            raise self._error(f"`{padding.value}` joins two dimensions", start)
        if len(terms) == 1 and not offset and terms[0] == Term(1, terms[0].name):
            return Name(terms[0].name)
        return Affine(tuple(terms), offset, padding)

    def _term(self) -> Term:
        is_reversed = self._accept("-")
        first = self._take_one_of(
            ("name", "int"), "an affine axis adds dimensions, `coefficient*name`, and numbers"
        )
        if not self._accept("*"):
            if first.kind == "int":
                raise self._error(_NO_OFFSET, first)
            return Term(1, first.text, is_reversed)
        name = self._take_one_of(("name",), "the coefficient comes first: `2*o`")
        if first.kind == "name":
            return Term(first.text, name.text, is_reversed)
        if int(first.text) == 0:
            raise self._error("a coefficient is 1 or more", first)
        return Term(int(first.text), name.text, is_reversed)

    # Tokens.

    @property
    def _next(self) -> _Token:
        return self._ahead(0)

    @property
    def _after_next(self) -> _Token:
        return self._ahead(1)

    def _ahead(self, count: int) -> _Token:
        return self.tokens[min(self.at + count, len(self.tokens) - 1)]

    def _take(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def _take_one_of(self, kinds: tuple[str, ...], message: str) -> _Token:
        if self._next.kind not in kinds:
            raise self._error(message, self._next)
        return self._take()

    def _accept(self, kind: str) -> bool:
        if self._next.kind != kind:
            return False
        self.at += 1
        return True

    def _expect(self, kind: str, message: str) -> None:
        if not self._accept(kind):
            raise self._error(message, self._next)

    def _error(self, message: str, token: _Token) -> SpecSyntaxError:
        return SpecSyntaxError(message, self.text, token.offset)
