"""Helpers of operations: fast accessors and copies, operands parsed without types, optional properties."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TypeVar, cast
from weakref import ref

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, SSAValues
from xdsl.irdl import IRDLOperation, VarIRConstruct, irdl_op_definition
from xdsl.irdl.operations import (
    BaseAccessor,
    BeforeVariadicSingleAccessor,
    OptionalPropertyAccessor,
    PropertyAccessor,
    UniqueVariadicAccessor,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

OperationT = TypeVar("OperationT", bound=IRDLOperation)
AnyOperationT = TypeVar("AnyOperationT", bound=Operation)


class OperationKind(ABCMeta):
    """The metaclass of classes of operations. `isinstance` of `ABCMeta` takes twice as long, as it asks for
    classes that were registered, too.
    """

    __instancecheck__ = type.__instancecheck__


# A value is equal to itself alone, as any object: xDSL's function in Python makes keys of values slow.
SSAValue.__hash__ = object.__hash__


class OwnOperation(IRDLOperation, metaclass=OperationKind):
    """Base of the operations of all dialects here."""

    # As that of `SSAValue`.
    __hash__ = object.__hash__


class Values(tuple[object, ...]):
    """Operands, results or regions, with the access of plain tuples: that of xDSL's tuples is slower."""


operands_of: Callable[[Operation], tuple[SSAValue, ...]] = attrgetter("_operands")
"""The operands of an operation: `op.operands` makes a view of them each time."""

_TUPLES: dict[VarIRConstruct, Callable[[object], Values]] = {
    VarIRConstruct.OPERAND: attrgetter("_operands"),
    VarIRConstruct.RESULT: attrgetter("results"),
    VarIRConstruct.REGION: attrgetter("regions"),
}


def operation_definition(cls: type[OperationT]) -> type[OperationT]:
    """`irdl_op_definition`, with operands, results and regions read from their tuples, and properties from
    their dictionary.

    xDSL's accessors make a view of all first and take four times as long, where passes do little else; those
    of properties take twice as long.
    """
    defined = irdl_op_definition(cls)
    for name, accessor in list(vars(defined).items()):
        if isinstance(accessor, PropertyAccessor | OptionalPropertyAccessor):
            setattr(defined, name, _property(accessor))
        if not isinstance(accessor, BaseAccessor) or accessor.construct not in _TUPLES:
            continue
        values = _TUPLES[accessor.construct]
        if isinstance(accessor, BeforeVariadicSingleAccessor):
            setattr(defined, name, _element(values, accessor.idx))
        elif isinstance(accessor, UniqueVariadicAccessor) and accessor.construct == VarIRConstruct.OPERAND:
            others_after = accessor.num_defs - accessor.idx - 1
            setattr(defined, name, _operands(values, accessor.idx, others_after))
    return defined


def _property(accessor: PropertyAccessor | OptionalPropertyAccessor) -> property:
    """A property for one property of operations."""
    name = accessor.property_name

    def needed(op: Operation) -> Attribute:
        return op.properties[name]

    def optional(op: Operation) -> Attribute | None:
        return op.properties.get(name, default)

    def change(op: Operation, value: Attribute | None) -> None:
        if value is None:
            op.properties.pop(name, None)
        else:
            op.properties[name] = value

    if isinstance(accessor, PropertyAccessor):
        return property(needed, change)
    default = accessor.default_value
    return property(optional, change)


def _element(values: Callable[[object], Values], index: int) -> property:
    """A property for one element. The first is the one that a loop begins with: in half of the time."""

    def first(op: object) -> object:
        for value in values(op):
            return value
        raise IndexError(f"{op} has no element {index}")

    get = Values.__getitem__
    return property(first if index == 0 else lambda op: get(values(op), index))


def _operands(values: Callable[[object], Values], start: int, others_after: int) -> property:
    """A property for the operands from `start` on, without the last ones."""

    def found(op: object) -> object:
        operands = values(op)
        return operands[start : len(operands) - others_after]

    return property(found)


class OwnResults:
    """The results of an operation: its own, or else the one that it refers to weakly.

    The own ones are in the dictionary of the operation, which Python looks up before this.
    """

    def __get__(
        self, op: Operation | None, owner: type[Operation] | None = None
    ) -> SSAValues[OpResult[Attribute]]:
        held = None if op is None else vars(op).get("held_result")
        return Operation.results if held is None else SSAValues((held(),))


OWN_RESULTS = cast(SSAValues[OpResult[Attribute]], OwnResults())


def hold_result_weakly(op: Operation, result: OpResult) -> None:
    """Makes an operation refer to its only result weakly, so that the two form no cycle: the operation lives
    as long as its result does, and that as long as anything has it as an operand or holds it.

    For operations outside of blocks, whose classes have `OWN_RESULTS`, and whose operands count no uses.
    """
    attributes = vars(op)
    attributes.pop("results", None)
    attributes["held_result"] = ref(result)


def held_result(op: Operation) -> OpResult | None:
    """The result that an operation refers to weakly: `op.result` takes five times as long. None where it has
    its own.
    """
    held = vars(op).get("held_result")
    return None if held is None else held()


def drop_uses(op: Operation) -> None:
    """Drops the uses of an operation whose operands count none: they refer to it, and form a cycle."""
    vars(op)["_operand_uses"] = ()


def operations_of(block: Block) -> list[Operation]:
    """The operations of a block, as they are now; `block.ops` takes several times as long to go over."""
    found: list[Operation] = []
    op = block.first_op
    while op is not None:
        found.append(op)
        op = op._next_op  # pyright: ignore[reportPrivateUsage]
    return found


def copied(
    op: AnyOperationT,
    values: dict[SSAValue, SSAValue],
    locations: Callable[[LocationAttr], LocationAttr] | None = None,
) -> AnyOperationT:
    """A copy with the operands that `values` has in place of others, and to which its results are added; with
    `locations`, it and what is inside of it get the locations that these have in place of theirs.

    It takes a third of the time of `Operation.clone`: what an operation without successors has by default is
    not set, and no property is looked for.
    """
    copy = type(op).__new__(type(op))
    operands = operands_of(op)
    if operands:
        copy.operands = [values.get(operand, operand) for operand in operands]
    copy.properties = op.properties.copy()
    copy.attributes = op.attributes.copy()
    copy.location = op.location if locations is None else locations(op.location)
    for region in op.regions:
        copy.add_region(Region(block_copied(region.block, values, locations)))
    if op.results:
        copy.results = SSAValues([result_copied(result, copy, values) for result in op.results])
    return copy


def block_copied(
    block: Block,
    values: dict[SSAValue, SSAValue],
    locations: Callable[[LocationAttr], LocationAttr] | None = None,
) -> Block:
    """A copy of a block, to whose values it adds those of the block."""
    copy = Block(arg_types=block.arg_types)
    for argument, other in zip(block.args, copy.args, strict=True):
        values[argument] = other
        other.name_hint = argument.name_hint
    copy.add_ops([copied(inner, values, locations) for inner in operations_of(block)])
    return copy


def result_copied(result: OpResult, owner: Operation, values: dict[SSAValue, SSAValue]) -> OpResult:
    """The result of a copy, which `values` gets for that of the original."""
    copy = values[result] = OpResult(result.type, owner, result.index)
    if result.name_hint is not None:
        copy.name_hint = result.name_hint
    return copy


def set_type(value: SSAValue, type: Attribute) -> None:
    """Changes the type of a value in place: xDSL's rewriter would make a new value, and leave those who hold
    this one behind.
    """
    value._type = type  # pyright: ignore[reportPrivateUsage]


def given(**properties: Attribute | None) -> dict[str, Attribute]:
    """The properties that are there, for `fill`."""
    return {name: value for name, value in properties.items() if value is not None}


string = lru_cache(maxsize=2**10)(StringAttr)
"""The attribute of a string, one object for equal ones: for names of accumulations and specs."""


def fill(
    op: Operation,
    operands: Sequence[SSAValue] = (),
    properties: dict[str, Attribute] | None = None,
    result_types: Sequence[Attribute] = (),
) -> None:
    """Gives a new operation without regions what it consists of: `Operation.__init__` takes three times as
    long, and the checked constructor nine times. The properties become its own.
    """
    if operands:
        op.operands = operands
    op.properties = {} if properties is None else properties
    op.attributes = {}
    op.location = UNKNOWN_LOC
    op.results = SSAValues([OpResult(type, op, index) for index, type in enumerate(result_types)])


def print_parts(printer: Printer, *parts: str | SSAValue | Attribute) -> None:
    """Prints texts, values by their names, strings as literals and other attributes one after the other."""
    for part in parts:
        if isinstance(part, str):
            printer.print_string(part)
        elif type(part) is StringAttr:
            printer.print_string_literal(part.data)
        elif isinstance(part, SSAValue):
            printer.print_ssa_value(part)
        else:
            printer.print_attribute(part)


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


def check_operand_type(parser: Parser, type: Attribute) -> None:
    """Parses `: type`, that of all operands, which is known from them; raises `ParseError` for another."""
    parser.parse_punctuation(":")
    pos = parser.pos
    if parser.parse_type() != type:
        parser.raise_error(f"the operands are of type {type}", pos, parser.pos)


class UnaryOp(OwnOperation):
    """Base of operations with one operand, without results, such as `loops.yield %v`."""

    def __init__(self, operand: SSAValue) -> None:
        fill(self, [operand])

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", operands_of(self)[0])

    @classmethod
    def parse(cls, parser: Parser):
        return cls(parse_defined_operand(parser))
