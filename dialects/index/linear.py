"""Linear index expressions over named iteration variables and static indices, and spaces of them.

Every index of the language (axes, slices, strides, offsets, split and flattened axes) is linear, so an
expression is kept in normal form: equality is structural and substitution is one pass. Upstream affine
expressions have neither names nor a normal form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.records import dataclass


@dataclass(frozen=True, slots=True)
class Linear:
    """`sum(coefficient * name) + constant`; terms are sorted by name and have no zero coefficient."""

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0

    @staticmethod
    def var(name: str) -> Linear:
        return Linear(((name, 1),))

    @staticmethod
    def of(coefficients: Mapping[str, int], constant: int = 0) -> Linear:
        return Linear(tuple(sorted((n, c) for n, c in coefficients.items() if c)), constant)

    def __add__(self, other: Linear) -> Linear:
        if not other.terms:
            return Linear(self.terms, self.constant + other.constant)
        total = dict(self.terms)
        for name, coefficient in other.terms:
            total[name] = total.get(name, 0) + coefficient
        return Linear.of(total, self.constant + other.constant)

    def __mul__(self, factor: int) -> Linear:
        if factor == 1:
            return self
        return Linear.of({n: c * factor for n, c in self.terms}, self.constant * factor)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(n for n, _ in self.terms)

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def variable(self) -> str | None:
        """The name, if the expression is exactly one variable."""
        if len(self.terms) == 1 and self.constant == 0 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return None

    def coefficient(self, name: str) -> int:
        for n, c in self.terms:
            if n == name:
                return c
        return 0

    def substitute(self, values: Mapping[str, Linear]) -> Linear:
        if not any(n in values for n, _ in self.terms):
            return self
        total = Linear((), self.constant)
        for name, coefficient in self.terms:
            total += values.get(name, Linear(((name, 1),))) * coefficient
        return total

    def extremes(self, sizes: Mapping[str, int]) -> tuple[int, int] | None:
        """Least and greatest value while each name runs over `range(size)`; None where a size is unknown."""
        low = high = self.constant
        for name, coefficient in self.terms:
            size = sizes.get(name)
            if size is None:
                return None
            reach = coefficient * (size - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high

    def __str__(self) -> str:
        parts: list[str] = []
        for name, coefficient in self.terms:
            factor = name if abs(coefficient) == 1 else f"{abs(coefficient)}*{name}"
            parts.append((" - " if coefficient < 0 else " + ") + factor)
        if self.constant or not parts:
            parts.append((" - " if self.constant < 0 else " + ") + str(abs(self.constant)))
        text = "".join(parts)
        return text[3:] if text.startswith(" + ") else "-" + text[3:]


Map: TypeAlias = tuple[Linear, ...]
Space: TypeAlias = tuple[tuple[str, int], ...]


POSITION = "at$"
"""Prefix of the names that stand for positions which are only known at run time: `at$0` is the first one."""


def has_position(index: Linear) -> bool:
    """Whether an index is only known at run time."""
    return any(name.startswith(POSITION) for name in index.names)


def clashing_variables(indices: Map, space: Mapping[str, int]) -> set[str]:
    """The variables of a space in which two points may differ and still reach the same element."""
    unknown = {name for name, size in space.items() if size > 1}
    several: list[Linear] = []
    for index in indices:
        if len(index.terms) == 1:
            unknown.discard(index.terms[0][0])
        elif index.terms:
            several.append(index)
    while determined := {name for index in several for name in _determined(index, space, unknown)}:
        unknown -= determined
    return unknown


def _determined(index: Linear, space: Mapping[str, int], unknown: set[str]) -> Iterable[str]:
    """The unknown variables that follow from the value of an index expression."""
    terms = sorted((abs(coefficient), name) for name, coefficient in index.terms if name in unknown)
    reach = 0
    for coefficient, name in terms:
        if coefficient <= reach:
            return ()
        reach += coefficient * (space[name] - 1)
    return [name for _, name in terms]


def identity_map(names: Iterable[str]) -> tuple[Linear, ...]:
    return tuple(Linear.var(n) for n in names)


def map_text(indices: Iterable[Linear]) -> str:
    return f"[{', '.join(map(str, indices))}]"


def space_text(space: Iterable[tuple[str, int]]) -> str:
    return f"({', '.join(f'{n} = {s}' for n, s in space)})"


OtherName: TypeAlias = Callable[[], str | None]
"""Parses a name that is not an identifier, if there is one: accesses name positions by SSA values."""


def _parse_term(parser: AttrParser, sign: int, other: OtherName) -> Linear:
    factor = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if factor is None:
        name = other() or parser.parse_identifier(" or an integer in an index expression")
        return Linear.var(name) * sign
    if parser.parse_optional_punctuation("*") is None:
        return Linear((), factor * sign)
    return Linear.var(other() or parser.parse_identifier(" after `*`")) * (factor * sign)


def parse_linear(parser: AttrParser, other: OtherName = lambda: None) -> Linear:
    """`2*o + k - 1`: integers, names and integer multiples of names."""
    total = _parse_term(parser, -1 if parser.parse_optional_punctuation("-") else 1, other)
    while True:
        if parser.parse_optional_punctuation("+"):
            total += _parse_term(parser, 1, other)
        elif parser.parse_optional_punctuation("-"):
            total += _parse_term(parser, -1, other)
        else:
            return total


def parse_map(parser: AttrParser, other: OtherName = lambda: None) -> tuple[Linear, ...]:
    pos = parser.pos
    indices = parse_optional_map(parser, other)
    if indices is None:
        parser.raise_error("expected an index map `[...]`", pos, pos + 1)
    return indices


def parse_optional_map(parser: AttrParser, other: OtherName = lambda: None) -> tuple[Linear, ...] | None:
    indices = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: _parse_index(parser, other), " in an index map"
    )
    return None if indices is None else tuple(indices)


def _parse_index(parser: AttrParser, other: OtherName) -> Linear:
    pos = parser.pos
    index = parse_linear(parser, other)
    more = parser.parse_optional_punctuation("*") or parser.parse_optional_characters("/")
    if more or parser.parse_optional_identifier() is not None:
        parser.raise_error(
            "an index adds integers, names and integers times names: `2*o + k - 1`", pos, parser.pos
        )
    return index


def only_index(indices: Sequence[Linear]) -> Linear:
    """The one expression of a map that has one. Raises `VerifyException`."""
    if len(indices) != 1:
        raise VerifyException(f"expected one index expression, found {len(indices)}")
    return indices[0]


def parse_space(parser: AttrParser) -> tuple[tuple[str, int], ...]:
    def dimension() -> tuple[str, int]:
        name = parser.parse_identifier(" naming an iteration variable")
        parser.parse_punctuation("=")
        return name, parser.parse_integer(
            allow_boolean=False, allow_negative=False, context_msg=" as the size"
        )

    pos = parser.pos
    space = tuple(
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, dimension, " in an iteration space")
    )
    names = [n for n, _ in space]
    if len(set(names)) != len(names):
        parser.raise_error("an iteration variable is declared twice", pos, parser.pos)
    return space


@irdl_attr_definition
class MapAttr(Data[tuple[Linear, ...]]):
    """An index map: one linear expression an axis, `[b, 2*o + k]`."""

    name = "assign.map"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Linear, ...]:
        with parser.in_angle_brackets():
            return parse_map(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{map_text(self.data)}>")


@irdl_attr_definition
class SpaceAttr(Data[tuple[tuple[str, int], ...]]):
    """An iteration space: named variables with their sizes, outermost first, `(b = 10, o = 16)`."""

    name = "assign.space"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, int], ...]:
        with parser.in_angle_brackets():
            return parse_space(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{space_text(self.data)}>")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(n for n, _ in self.data)
