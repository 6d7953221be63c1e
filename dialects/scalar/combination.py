"""Terms over operands with index maps, the form of every tensor operation after projection inference.

For all points of an iteration space, `lhs[f(p)] = accum(lhs[f(p)], term(rhs1[g1(p)], rhs2[g2(p)], ...))`,
written `add= mul(%w[o, i], %x[b, i]) over (b = 10, o = 16, i = 2)`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.index.linear import Linear, Map, map_text, parse_optional_map
from ocannl.dialects.ir.op_helpers import parse_defined_operand, parse_optional_defined_operand
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.terms import App, Arg, Const, Term

# Whole numbers are of 64 bits at most.
LARGEST_INTEGER = 2**63
# From the last digit of a number on.
EXPONENT = re.compile(r"\d[eE]")


@irdl_attr_definition
class TermAttr(Data[Term]):
    """A scalar term over a tensor operation's operands, `mul(@a0, neg(@a1))`."""

    name = "assign.term"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Term:
        with parser.in_angle_brackets():
            return _parse_closed_term(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            _print_closed_term(printer, self.data)


def _print_closed_term(printer: Printer, term: Term) -> None:
    match term:
        case Arg(index):
            printer.print_string(f"@{_argument_name(index)}")
        case Const(value):
            printer.print_string(number_text(value))
        case App(op, args):
            printer.print_string(op)
            with printer.in_parens():
                printer.print_list(args, lambda a: _print_closed_term(printer, a))


def _argument_name(index: int) -> str:
    return f"a{index}"


def _parse_closed_term(parser: AttrParser) -> Term:
    number = _parse_optional_argument(parser)
    if number is not None:
        return Arg(number)
    return _parse_application(parser, lambda: _parse_closed_term(parser))


def _parse_optional_argument(parser: AttrParser) -> int | None:
    """The number of an argument, `@a0`."""
    pos = parser.pos
    symbol = parser.parse_optional_symbol_name()
    if symbol is None:
        return None
    if symbol.data[:1] != "a" or not symbol.data[1:].isdecimal():
        parser.raise_error("expected an argument @a0, @a1, ...", pos, parser.pos)
    return int(symbol.data[1:])


def number_text(value: float) -> str:
    """A literal that reads back to the same number, a float with a point before an exponent; `inf`, `nan` by
    name.
    """
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


def parse_number(parser: AttrParser) -> float | None:
    """An int for a literal without a point."""
    negative = parser.parse_optional_punctuation("-") is not None
    if parser.parse_optional_keyword("inf"):
        return -math.inf if negative else math.inf
    if parser.parse_optional_keyword("nan"):
        return math.nan
    pos = parser.pos
    value = parser.parse_optional_number()
    if value is None:
        if negative:
            parser.raise_error("expected a number after `-`")
        return None
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        parser.raise_error("the number is too large", pos, parser.pos)
    if isinstance(value, int) and EXPONENT.match(parser.lexer.input.content, parser.pos - 1):
        parser.raise_error(f"a float has a point before its exponent, as in {value}.0e-5", pos, parser.pos)
    return -value if negative else value


def _parse_application(parser: AttrParser, argument: Callable[[], Term]) -> Term:
    number = parse_number(parser)
    if number is not None:
        return Const(number)
    pos = parser.pos
    op = parser.parse_identifier(" naming a scalar operator")
    entry = SCALAR_OPS.get(op)
    if entry is None:
        parser.raise_error(f"unknown scalar operator `{op}`", pos, parser.pos)
    args = parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
    if len(args) != entry.arity:
        parser.raise_error(f"`{op}` takes {entry.arity} arguments, found {len(args)}", pos, parser.pos)
    return App(op, tuple(args))


@dataclass(frozen=True, slots=True)
class Combination:
    """A term over operands, each read at its index map; both are parallel to the term's arguments."""

    term: Term
    operands: tuple[SSAValue, ...]
    maps: tuple[tuple[Linear, ...], ...]

    @staticmethod
    def of(term: Term, operands: Sequence[SSAValue], maps: Sequence[tuple[Linear, ...]]) -> Combination:
        """Canonical form: arguments numbered by first occurrence, equal reads are one, unused ones are
        gone.
        """
        order: dict[tuple[SSAValue, tuple[Linear, ...]], int] = {}

        def renumber(t: Term) -> Term:
            match t:
                case Arg(index):
                    return Arg(order.setdefault((operands[index], maps[index]), len(order)))
                case App(op, args):
                    return App(op, tuple(renumber(a) for a in args))
                case Const():
                    return t

        term = renumber(term)
        return Combination(term, tuple(v for v, _ in order), tuple(m for _, m in order))


def check_term(term: Term, num_operands: int) -> None:
    """Checks that a term reads every operand, first reads in order, so that its text has them all."""
    order = list(dict.fromkeys(_reads(term)))
    if order != list(range(num_operands)):
        written = str(term).replace("$", "@a")
        raise VerifyException(
            f"a term first reads its operands in order, and reads all; {written} does not, of {num_operands}"
        )


def arity(term: Term) -> int:
    """How many operands a term has that reads all of them."""
    return len(set(_reads(term)))


def _reads(term: Term) -> Iterator[int]:
    """The operand positions that a term reads, in the order of its text."""
    match term:
        case Arg(index):
            yield index
        case Const():
            pass
        case App(_, args):
            for arg in args:
                yield from _reads(arg)


def print_combination(
    printer: Printer, term: Term, operands: Sequence[SSAValue], maps: Sequence[tuple[Linear, ...]]
) -> None:
    """`mul(%w[o, i], %x[b, i])`; or `mul(@a0, @a1) of (%x[i], %x[i])` for operands that are equal reads: read
    back, they would be one.
    """
    texts = [*map(map_text, maps)]
    if len(set(zip(operands, texts, strict=True))) == len(operands):
        _print_reads(printer, term, operands, texts)
    else:
        _print_numbered(printer, term, operands, texts)


def print_as_built(printer: Printer, term: Term, operands: Sequence[SSAValue]) -> None:
    """`mul(%w, %x)`; or `sub(@a0, mul(@a1, @a0)) of (%x, %y)`, where an operand is read several times: read
    back, each name of a value is an operand.
    """
    texts = [""] * len(operands)
    if [*_reads(term)] == [*range(len(operands))]:
        _print_reads(printer, term, operands, texts)
    else:
        _print_numbered(printer, term, operands, texts)


def _print_reads(printer: Printer, term: Term, operands: Sequence[SSAValue], maps: Sequence[str]) -> None:
    match term:
        case Arg(index):
            printer.print_ssa_value(operands[index])
            printer.print_string(maps[index])
        case Const(value):
            printer.print_string(number_text(value))
        case App(op, args):
            # Without the context and the list of xDSL, which take longer than what they print.
            before = f"{op}("
            for arg in args:
                printer.print_string(before)
                _print_reads(printer, arg, operands, maps)
                before = ", "
            printer.print_string(")" if args else f"{op}()")


def _print_numbered(printer: Printer, term: Term, operands: Sequence[SSAValue], maps: Sequence[str]) -> None:
    _print_closed_term(printer, term)
    before = " of ("
    for operand, text in zip(operands, maps, strict=True):
        printer.print_string(before)
        printer.print_ssa_value(operand)
        printer.print_string(text)
        before = ", "
    printer.print_string(")")


def parse_combination(parser: Parser, merge: bool = True) -> Combination:
    """Reads what `print_combination` and `print_as_built` write; operands are values that are defined before.

    Equal reads, at index maps, are one argument when `merge` is set; as built, every operand stands for a
    slot of a spec, and has no map.
    """

    def indices() -> Map:
        pos = parser.pos
        found = parse_optional_map(parser)
        if found is not None and not merge:
            parser.raise_error("an operand has an index map where the result has one", pos, parser.pos)
        return found or ()

    numbered = set[int]()
    reads: dict[tuple[SSAValue, tuple[Linear, ...], int], int] = {}

    def argument() -> Term:
        operand = parse_optional_defined_operand(parser)
        if operand is None and (number := _parse_optional_argument(parser)) is not None:
            numbered.add(number)
            return Arg(number)
        if operand is None:
            return _parse_application(parser, argument)
        key = (operand, indices(), 0 if merge else len(reads))
        return Arg(reads.setdefault(key, len(reads)))

    pos = parser.pos
    term = argument()
    if not numbered:
        return Combination(term, tuple(v for v, _, _ in reads), tuple(m for _, m, _ in reads))
    parser.parse_keyword("of")
    listed = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: (parse_defined_operand(parser), indices())
    )
    if reads or max(numbered) >= len(listed):
        parser.raise_error(f"arguments @a0, @a1, ... are those of {len(listed)} operands", pos, parser.pos)
    return Combination(term, tuple(v for v, _ in listed), tuple(m for _, m in listed))
