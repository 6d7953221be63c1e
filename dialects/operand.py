"""Parsing of operands whose types are not repeated in the text, because their definitions stand above."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.parser import Parser


def parse_optional_defined_operand(parser: Parser) -> SSAValue | None:
    unresolved = parser.parse_optional_unresolved_operand()
    if unresolved is None:
        return None
    values = parser.ssa_values.get(unresolved.operand_name)
    if values is None or unresolved.index >= len(values):
        parser.raise_error(f"%{unresolved.operand_name} is used before its definition", unresolved.span)
    return values[unresolved.index]


def parse_defined_operand(parser: Parser) -> SSAValue:
    pos = parser.pos
    operand = parse_optional_defined_operand(parser)
    if operand is None:
        parser.raise_error("expected an operand", pos, pos + 1)
    return operand
