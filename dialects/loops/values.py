"""The operations of `loops` with values: loads, stores, positions, indices and random numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from xdsl.dialects.builtin import (
    Float32Type,
    Float64Type,
    IndexType,
    IntAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import IndexNumberOp, check_access, check_names
from ocannl.dialects.assign.node import check_writable
from ocannl.dialects.index.addresses import Address, flatten
from ocannl.dialects.index.dependences import check_own_reads
from ocannl.dialects.index.linear import (
    POSITION,
    Linear,
    Map,
    MapAttr,
    has_position,
    map_text,
    only_index,
    parse_map,
)
from ocannl.dialects.index.memref import element_type, loaded_type
from ocannl.dialects.index.scopes import scope_bounds, scope_sizes
from ocannl.dialects.ir.op_helpers import (
    OwnOperation,
    fill,
    operation_definition,
    parse_defined_operand,
    parse_optional_defined_operand,
    print_parts,
)
from ocannl.dialects.scalar.streams import Stream, StreamAttr, parse_stream, print_stream

MOST_USES = 256
"""The points of a nest are compared where a node has no more uses: each store looks at all of them."""


@operation_definition
class PositionOp(OwnOperation):
    """`%v, %inside = loops.position %id below 65`: a number as a position of an axis, and whether it is one.

    If the number is none of 0..64, the position is 0. So an access at a position is always in bounds.
    """

    name = "loops.position"
    number = operand_def()
    size = prop_def(IntAttr)
    position = result_def(IndexType)
    inside = result_def(IntegerType)
    traits = traits_def(Pure())

    def __init__(self, number: SSAValue, size: int) -> None:
        Operation.__init__(
            self, operands=[number], properties={"size": IntAttr(size)}, result_types=[IndexType(), i1]
        )

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.number, f" below {self.size.data}")

    @classmethod
    def parse(cls, parser: Parser) -> PositionOp:
        number = parse_defined_operand(parser)
        parser.parse_keyword("below")
        return cls(number, parser.parse_integer(allow_boolean=False, allow_negative=False))

    def verify_(self) -> None:
        if self.inside.type != i1:
            raise VerifyException(f"whether it is a position is an i1, found {self.inside.type}")
        if self.number.type not in (i32, i64, f32, f64):
            raise VerifyException(
                f"a position is found from a number of 32 or 64 bits, found {self.number.type}"
            )
        if self.size.data < 1:
            raise VerifyException("an axis without elements has no position")


def static_part(op: LoadOp | StoreOp) -> Map:
    """The index expressions of an access without positions, which are only known at run time."""
    if not op.positions:
        return op.indices.data
    return tuple(index for index in op.indices.data if not has_position(index))


@operation_definition
class LoadOp(OwnOperation):
    """`loops.load %x[batch_n, b, %v]`: the element of a node at an index map, in which `positions` stand.

    Integers have no sign as values, and truth values are bytes, 0 or 1.
    """

    name = "loops.load"
    node = operand_def(MemRefType)
    positions = var_operand_def(IndexType)
    indices = prop_def(MapAttr)
    result = result_def()
    traits = traits_def(MemoryReadEffect())

    def __init__(self, node: SSAValue, indices: Sequence[Linear], positions: Sequence[SSAValue] = ()) -> None:
        fill(self, [node, *positions], {"indices": MapAttr(tuple(indices))}, [loaded_type(node)])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_access(printer, self)

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        return cls(*parse_access(parser))

    def verify_(self) -> None:
        if self.result.type != loaded_type(self.node):
            raise VerifyException(f"loads {self.result.type} from {_elements(self.node)}")
        check_positions(self)


@operation_definition
class StoreOp(OwnOperation):
    """`loops.store %v, %h1[b, o]`: sets the element of a node at an index map, in which `positions` stand.

    A `nontemporal` one goes past the caches, where whole lines of them are written.
    """

    name = "loops.store"
    value = operand_def()
    node = operand_def(MemRefType)
    positions = var_operand_def(IndexType)
    indices = prop_def(MapAttr)
    nontemporal = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryWriteEffect())

    def __init__(
        self, value: SSAValue, node: SSAValue, indices: Sequence[Linear], positions: Sequence[SSAValue] = ()
    ) -> None:
        fill(self, [value, node, *positions], {"indices": MapAttr(tuple(indices))})

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.value, ", ")
        print_access(printer, self)
        if self.nontemporal is not None:
            printer.print_string(" nontemporal")

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        value = parse_defined_operand(parser)
        parser.parse_punctuation(",")
        store = cls(value, *parse_access(parser))
        if parser.parse_optional_keyword("nontemporal"):
            store.properties["nontemporal"] = UnitAttr()
        return store

    def verify_(self) -> None:
        check_writable(self.node)
        if self.value.type != loaded_type(self.node):
            raise VerifyException(f"stores {self.value.type} into {_elements(self.node)}")
        parent = self.parent_op()
        if parent is not None and parent.results:
            raise VerifyException("a store stands directly in a nest")
        check_positions(self)
        if parent is not None and parent.name == "loops.nest":
            self._verify_reads_of_points(parent)

    def _verify_reads_of_points(self, nest: Operation) -> None:
        outside = scope_sizes(nest).keys()
        # Where all points store to one place, none is told from another.
        if all(outside >= set(index.names) for index in self.indices.data):
            return
        users = [use.operation for use in islice(self.node.uses, MOST_USES + 1)]
        if len(users) > MOST_USES:
            return
        for other in users:
            if other is self or not isinstance(other, LoadOp | StoreOp) or not nest.is_ancestor(other):
                continue
            space = {name: size for name, size in scope_sizes(other).items() if name not in outside}
            does = "reads" if isinstance(other, LoadOp) else "sets"
            check_own_reads(self.indices.data, other.indices.data, space, does=does)


def print_access(printer: Printer, op: LoadOp | StoreOp) -> None:
    """`%x[b, 2*%v + 1]`: positions by the names of their values."""
    printer.print_ssa_value(op.node)
    for part in re.split(rf"({re.escape(POSITION)}\d+)", map_text(op.indices.data)):
        if part.startswith(POSITION):
            printer.print_ssa_value(op.positions[int(part.removeprefix(POSITION))])
        else:
            printer.print_string(part)


def parse_access(parser: Parser) -> tuple[SSAValue, Map, list[SSAValue]]:
    node = parse_array(parser)
    positions: list[SSAValue] = []

    def position() -> str | None:
        value = parse_optional_defined_operand(parser)
        if value is None:
            return None
        if value not in positions:
            positions.append(value)
        return f"{POSITION}{positions.index(value)}"

    return node, parse_map(parser, position), positions


def check_positions(op: LoadOp | StoreOp) -> None:
    """Checks that positions come from `loops.position`, and that the map stays inside the node."""
    sizes = position_sizes(op)
    if {n for index in op.indices.data for n in index.names if n.startswith(POSITION)} != sizes.keys():
        raise VerifyException(f"the map {op.indices.data} has not {len(sizes)} positions")
    check_access(op, op.node, op.indices.data, scope_sizes(op) | sizes, scope_bounds(op))


def position_sizes(op: LoadOp | StoreOp) -> dict[str, int]:
    """The sizes of the axes that the positions of an access belong to. Raises `VerifyException`."""
    sizes: dict[str, int] = {}
    for k, position in enumerate(op.positions):
        if not isinstance(position.owner, PositionOp):
            raise VerifyException("a position of an access is found by loops.position")
        sizes[f"{POSITION}{k}"] = position.owner.size.data
    return sizes


@operation_definition
class IndexOp(IndexNumberOp):
    """The value of an index expression as a number: `loops.index 2*i + step_n : f32`."""

    name = "loops.index"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if not isinstance(self.result.type, Float32Type | Float64Type) and self.result.type not in (i32, i64):
            raise VerifyException(
                f"an index becomes a number of type f32, f64, i32 or i64, found {self.result.type}"
            )
        check_names(self, only_index(self.indices.data).names, scope_sizes(self))


@operation_definition
class UniformOp(OwnOperation):
    """A random number in [0, 1): `loops.uniform "dropout#1" %place at %counter : f32`.

    The place, an unsigned integer, and the counter, an `i64`, choose the block of the stream.
    """

    name = "loops.uniform"
    stream = prop_def(StreamAttr)
    place = operand_def()
    counter = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, stream: Stream, place: SSAValue, counter: SSAValue, type: Attribute) -> None:
        Operation.__init__(
            self, operands=[place, counter], properties={"stream": StreamAttr(stream)}, result_types=[type]
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_stream(printer, self.stream.data)
        print_parts(printer, " ", self.place, " at ", self.counter, " : ", self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> UniformOp:
        stream, place = parse_stream(parser), parse_defined_operand(parser)
        parser.parse_keyword("at")
        counter = parse_defined_operand(parser)
        parser.parse_punctuation(":")
        return cls(stream, place, counter, parser.parse_type())

    def verify_(self) -> None:
        if not isinstance(self.result.type, Float32Type | Float64Type):
            raise VerifyException(f"random numbers are f32 or f64, found {self.result.type}")
        if self.place.type not in (i32, i64):
            raise VerifyException(f"a place is an i32 or an i64, found {self.place.type}")
        if self.counter.type != i64:
            raise VerifyException(f"a counter is an i64, found {self.counter.type}")


def address_of(op: LoadOp | StoreOp | IndexOp) -> Address:
    """Where an access is in its node, or the value of an index, over the iteration variables."""
    if isinstance(op, IndexOp):
        return Address(op.index.terms, op.index.constant)
    return flatten(op.node, op.indices.data)


def parse_array(parser: Parser, kind: str = "a node") -> SSAValue:
    """Parses an operand that is an array; `kind` is what error messages expect."""
    pos = parser.pos
    array = parse_defined_operand(parser)
    if not isinstance(array.type, MemRefType):
        parser.raise_error(f"expected {kind}", pos, parser.pos)
    return array


def _elements(node: SSAValue) -> str:
    """A node by its elements, with the type as which they are loaded and stored where that is another one."""
    element, loaded = element_type(node), loaded_type(node)
    return f"a node of {element}" + ("" if loaded == element else f": they are loaded and stored as {loaded}")
