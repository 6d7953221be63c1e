"""Loops that run when a routine runs: a body, which is a routine of its own, at each value of an index."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, MemRefType, StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import opt_prop_def, prop_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign.collective import CollectiveBase
from ocannl.dialects.assign.node import OWN_MEMORY, NodeOp, check_writable
from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import (
    OwnOperation,
    given,
    operations_of,
    parse_defined_operand,
    print_parts,
)
from ocannl.dialects.routine import RoutineOp, enclosing_routine
from ocannl.dialects.scalar.precisions import is_float, is_integer


class RepeatBase(OwnOperation):
    """Base of `assign.repeat` and `loops.repeat`: runs a body for `t = 0 .. count - 1`, in order; with a flag
    it stops before the first iteration at which that is 0.

    The body's nodes with memory of their own are bound to nodes of the caller, by label; its other static
    indices are those of the caller. What a body declares as local lives inside one iteration.
    """

    body = prop_def(StringAttr)
    index = prop_def(StringAttr)
    count = prop_def(IntAttr)
    labels = prop_def(ArrayAttr[StringAttr])
    has_flag = opt_prop_def(UnitAttr)
    inputs = var_operand_def(MemRefType)

    def __init__(
        self,
        body: str,
        index: str,
        count: int,
        bound: Mapping[str, SSAValue],
        flag: SSAValue | None = None,
        others: Sequence[SSAValue] = (),
    ) -> None:
        Operation.__init__(
            self,
            operands=[*bound.values(), *(() if flag is None else (flag,)), *others],
            properties=given(
                body=StringAttr(body),
                index=StringAttr(index),
                count=IntAttr(count),
                labels=ArrayAttr(map(StringAttr, bound)),
                has_flag=None if flag is None else UnitAttr(),
            ),
        )

    @property
    def bound(self) -> dict[str, SSAValue]:
        """The nodes of the caller by the labels that they have in the body."""
        return {label.data: node for label, node in zip(self.labels.data, self.inputs, strict=False)}

    def bind(self, label: str, node: SSAValue) -> None:
        """Gives the body a further node."""
        count, operands = len(self.labels.data), list(self.operands)
        self.properties["labels"] = ArrayAttr([*self.labels.data, StringAttr(label)])
        self.operands = [*operands[:count], node, *operands[count:]]

    @property
    def flag(self) -> SSAValue | None:
        """The node of one element that is 0 where the loop stops."""
        return None if self.has_flag is None else self.inputs[len(self.labels.data)]

    @property
    def routine(self) -> RoutineOp:
        """The body. Raises `OcannlError` if there is none before the caller in the module."""
        found = self.find_routine()
        if found is None:
            raise OcannlError(at_line(self, self.not_found))
        return found

    @property
    def not_found(self) -> str:
        return f"there is no routine @{self.body.data} before the one that repeats it"

    def find_routine(self) -> RoutineOp | None:
        caller = enclosing_routine(self)
        assert caller is not None
        assert caller.parent is not None
        for op in operations_of(caller.parent):
            if op is caller:
                return None
            if type(op) is type(caller) and op.sym_name.data == self.body.data:
                return op
        return None

    @abstractmethod
    def stored_by(self, op: Operation) -> SSAValue | None:
        """The node that an operation of a body stores to."""

    @property
    def written(self) -> list[SSAValue]:
        """The nodes of the caller that the body writes. It may read all that are bound."""
        labels: set[str] = set()
        for op in self.routine.walk():
            stored = op.written if isinstance(op, RepeatBase | CollectiveBase) else [self.stored_by(op)]
            labels |= {n.owner.label.data for n in stored if n is not None and isinstance(n.owner, NodeOp)}
        return list(dict.fromkeys(node for label, node in self.bound.items() if label in labels))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.body.data)
        printer.print_string(f" {self.index.data} = {self.count.data}")
        if self.flag is not None:
            print_parts(printer, " while ", self.flag)
        printer.print_string(" (")
        pairs = zip(self.labels.data, self.inputs, strict=False)
        printer.print_list(pairs, lambda pair: print_parts(printer, pair[0], " = ", pair[1]))
        printer.print_string(")")

    @classmethod
    def parse(cls, parser: Parser):
        body = parser.parse_symbol_name().data
        index = parser.parse_identifier(" naming the index of the loop")
        parser.parse_punctuation("=")
        count = parser.parse_integer(allow_boolean=False, allow_negative=False)
        flag = parse_defined_operand(parser) if parser.parse_optional_keyword("while") else None

        def binding() -> tuple[str, SSAValue]:
            start = parser.pos
            label = parser.parse_str_literal(" naming a node of the body")
            if label in bound:
                parser.raise_error(f"{label!r} is bound twice", start, parser.pos)
            parser.parse_punctuation("=")
            bound[label] = parse_defined_operand(parser)
            return label, bound[label]

        bound: dict[str, SSAValue] = {}
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, binding)
        return cls(body, index, count, bound, flag)

    def verify_(self) -> None:
        if self.count.data < 0:
            raise VerifyException(f"a loop runs 0 times or more, found {self.count.data}")
        if len(self.inputs) < len(self.labels.data) + (self.has_flag is not None):
            raise VerifyException("each node of the body is bound to a node")
        if any(not isinstance(node.owner, NodeOp) for node in self.inputs):
            raise VerifyException("what a body is given are nodes")
        if self.flag is not None:
            check_flag(self.flag)
        caller = enclosing_routine(self)
        if caller is not None and caller.parent is not None:
            body = self.find_routine()
            if body is None:
                raise VerifyException(self.not_found)
            self.check_indices(body, caller)
            self.check_nodes(body)

    def check_indices(self, body: RoutineOp, caller: RoutineOp) -> None:
        index, count = self.index.data, self.count.data
        if body.ranges.get(index) != count or index not in body.ranges:
            raise VerifyException(f"@{self.body.data} has no static index `{index} = {count}`")
        for name, size in body.ranges.items():
            if name != index and (name not in caller.ranges or caller.ranges[name] != size):
                own = name if size is None else f"{name} = {size}"
                raise VerifyException(f"`{own}` of @{self.body.data} is no static index of the caller")

    def check_nodes(self, body: RoutineOp) -> None:
        bound = self.bound
        own = {
            node.label.data: node
            for node in body.body.block.ops
            if isinstance(node, NodeOp) and node.mode.data in OWN_MEMORY
        }
        for label in bound:
            if label not in own:
                raise VerifyException(f"{label!r} is no node of @{self.body.data} with memory of its own")
        for label in own:
            if label not in bound:
                raise VerifyException(f"{label!r} of @{self.body.data} is not bound")
        for label, node in bound.items():
            type: Attribute = own[label].result.type
            if node.type != type:
                raise VerifyException(f"{label!r} is a {type}, bound to a {node.type}")
        for node in self.written:
            check_writable(node)
        written = {node for node in self.written if list(bound.values()).count(node) > 1}
        for label, node in bound.items():
            if node in written:
                raise VerifyException(
                    f"{label!r} is bound to the node of another, and one of them is written"
                )


def check_flag(flag: SSAValue) -> None:
    element = element_type(flag)
    if any(size != 1 for size in memref_shape(flag)) or not (is_float(element) or is_integer(element)):
        raise VerifyException(f"a flag is one number, found {flag.type}")
