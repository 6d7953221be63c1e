"""What the operations of our dialects share: operands parsed without types, optional properties."""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser


def given(**properties: Attribute | None) -> dict[str, Attribute]:
    """The properties that are there, for `Operation.__init__`, which costs a third of the checked
    constructor.
    """
    return {name: value for name, value in properties.items() if value is not None}


def parse_optional_defined_operand(parser: Parser) -> SSAValue | None:
    unresolved = parser.parse_optional_unresolved_operand()
    if unresolved is None:
        return None
    values = parser.ssa_values.get(unresolved.operand_name)
    if values is None:
        parser.raise_error(f"%{unresolved.operand_name} is used before its definition", unresolved.span)
    if unresolved.index >= len(values):
        parser.raise_error(f"%{unresolved.operand_name} is one value, not several", unresolved.span)
    return values[unresolved.index]


def parse_defined_operand(parser: Parser) -> SSAValue:
    pos = parser.pos
    operand = parse_optional_defined_operand(parser)
    if operand is None:
        parser.raise_error("expected an operand", pos, pos + 1)
    return operand
