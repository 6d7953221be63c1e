"""The text of operations as xDSL prints it, in a third of the time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove

# Strings whose literal is what they are, in quotes.
_PLAIN = re.compile(r"[ !#-\[\]-~]*")


@cache
def _has_own_text(kind: type[Operation]) -> bool:
    """Whether operations of a kind print themselves, among the names of the operations around them."""
    is_apart = any(isinstance(trait, IsolatedFromAbove) for trait in kind.traits)
    return kind.print is not Operation.print and not issubclass(kind, UnregisteredOp) and not is_apart


@cache
def _is_type(kind: type[Attribute]) -> bool:
    return issubclass(kind, TypeAttribute)


def op_text(op: Operation, origins: bool = False) -> str:
    """The text of an operation, without a newline at the end; on request, with the origins of each as
    `loc(...)`.
    """
    printer = TextPrinter(print_debuginfo=origins)
    printer.print_op(op)
    return "".join(printer.parts)


def ops_text(ops: Iterable[Operation]) -> str:
    """The text of some operations of a block, a line for each."""
    printer = TextPrinter()
    for op in ops:
        printer.print_op(op)
        printer.print_string("\n")
    return "".join(printer.parts)


def op_lines(op: Operation) -> list[tuple[str, Operation | None]]:
    """The lines of the text of an operation, each with the operation that it is of; None where a line only
    closes a region.
    """
    printer = _LinePrinter()
    printer.print_op(op)
    lines = "".join(printer.parts).split("\n")
    starts: dict[int, Operation] = {}
    line = at = 0
    for part, started in printer.starts:
        line += sum(text.count("\n") for text in printer.parts[at:part])
        at = part
        starts.setdefault(line, started)
    found: list[tuple[str, Operation | None]] = []
    current: Operation | None = op
    for number, text in enumerate(lines):
        current = starts.get(number, current)
        found.append((text, None if text.strip() == "}" else current))
    return found


class TextPrinter(Printer):
    """Collects what `Printer` writes. It prints strings as a whole and equal types once, and no diagnostics,
    for which that one counts columns.
    """

    def __init__(self, print_debuginfo: bool = False) -> None:
        super().__init__(print_debuginfo=print_debuginfo)
        self.parts: list[str] = []
        self._types: dict[Attribute, str] = {}

    def print_op(self, op: Operation) -> None:
        if not _has_own_text(type(op)):
            super().print_op(op)
            return
        self._print_results(op)
        self.parts.append(op.name)
        op.print(self)
        if self.print_debuginfo:
            self.parts.append(" ")
            self.print_attribute(op.location)

    def _print_results(self, op: Operation) -> None:
        if len(op.results) == 1:
            self.print_ssa_value(op.results[0])
            self.parts.append(" = ")
        else:
            super()._print_results(op)

    def print_ssa_value(self, value: SSAValue) -> str:
        name = self._ssa_values.get(value)
        if name is None:
            return super().print_ssa_value(value)
        self.parts.append(f"%{name}")
        return name

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        self.parts.append(text.replace("\n", self._new_line(indent)) if "\n" in text else text)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        self.parts.append(self._new_line(indent))

    def _new_line(self, indent: int | None) -> str:
        return "\n" + " " * (self._indent if indent is None else indent) * self.indent_num_spaces

    def print_string_literal(self, string: str) -> None:
        if _PLAIN.fullmatch(string) is None:
            super().print_string_literal(string)
        else:
            self.parts.append(f'"{string}"')

    def print_attribute(self, attribute: Attribute) -> None:
        if not _is_type(type(attribute)):
            super().print_attribute(attribute)
            return
        text = self._types.get(attribute)
        if text is None:
            start = len(self.parts)
            super().print_attribute(attribute)
            self._types[attribute] = "".join(self.parts[start:])
        else:
            self.parts.append(text)


class _LinePrinter(TextPrinter):
    """Notes before which part each operation begins."""

    def __init__(self) -> None:
        super().__init__()
        self.starts: list[tuple[int, Operation]] = []

    def print_op(self, op: Operation) -> None:
        self.starts.append((len(self.parts), op))
        super().print_op(op)
