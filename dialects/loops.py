"""The `loops` dialect: kernels as compact nests.

A nest is a space of independent points, each with a small block of scalar operations (upstream `arith` and
`math`), affine loads and stores, and reductions over inner spaces. It stays compact until it becomes target
code: its schedule (loop order, register tile, vector lanes) is an attribute that can be read, tested and
written by hand. A group runs several nests in turn at every point of an outer space.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import (
    Float32Type,
    Float64Type,
    IndexType,
    IntAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    UnitAttr,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoTerminator,
    Pure,
    RecursiveMemoryEffect,
)
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.addresses import Address, flatten
from ocannl.dialects.assign import (
    NodeOp,
    check_access,
    check_accumulator,
    check_labels,
    check_names,
    check_space,
)
from ocannl.dialects.bounds import Bound, BoundsAttr, bounds_text, check_bounds, parse_bounds
from ocannl.dialects.linear import (
    Linear,
    Map,
    MapAttr,
    Space,
    SpaceAttr,
    clashing_variables,
    only_index,
    parse_linear,
    parse_map,
    parse_space,
    print_space,
)
from ocannl.dialects.op_helpers import (
    given,
    operation_definition,
    parse_defined_operand,
    parse_optional_defined_operand,
)
from ocannl.dialects.routine import RoutineOp, check_no_arguments
from ocannl.dialects.schedule import Schedule, ScheduleAttr, parse_optional_schedule, print_schedule
from ocannl.dialects.small_arithmetic import check_no_small_arithmetic
from ocannl.dialects.stream import Stream, StreamAttr, parse_stream, print_stream


class StepOp(IRDLOperation):
    """Base of what a routine does in turn: nests, groups of nests, kernels."""


@operation_definition
class NestOp(StepOp):
    """`loops.nest "h1" (b = 10, o = 16) { ... }`: the body at every point, in any order.

    Points that store to the same cell run one after the other.
    """

    name = "loops.nest"
    label = prop_def(StringAttr)
    space = prop_def(SpaceAttr)
    schedule = opt_prop_def(ScheduleAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(
        self, label: str, space: Sequence[tuple[str, int]], body: Region, schedule: Schedule | None = None
    ) -> None:
        Operation.__init__(
            self,
            properties=given(
                label=StringAttr(label),
                space=SpaceAttr(tuple(space)),
                schedule=None if schedule is None else ScheduleAttr(schedule),
            ),
            regions=[body],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        printer.print_string(" ")
        print_space(printer, self.space.data)
        print_schedule(printer, self.schedule)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> NestOp:
        label = parser.parse_str_literal(" naming the nest")
        space = parse_space(parser)
        schedule = parse_optional_schedule(parser)
        body = parser.parse_region()
        if not body.blocks:
            body.add_block(Block())
        return cls(label, space, body, schedule)

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), FuncOp | GroupOp | None):
            raise VerifyException("a nest stands in a loops.func or in a loops.group")
        check_variables(self, self.space.names)
        check_fresh(self, self.space.names)
        check_no_arguments(self.body)
        check_no_small_arithmetic(self)
        if self.schedule is not None:
            self._verify_schedule(self.schedule.data)

    @property
    def clashing(self) -> set[str]:
        """The variables in which points that store to the same cell may differ: such points run in turn.

        Nothing follows from a position that is found at run time.
        """
        space = dict(self.space.data)
        stores = (op for op in self.body.block.ops if isinstance(op, StoreOp))
        return {name for store in stores for name in clashing_variables(static_part(store), space)}

    def clashes(self, variables: Iterable[str]) -> bool:
        """Some points that differ in these variables only store to the same cell."""
        sizes = dict(self.space.data)
        space = {name: sizes[name] for name in variables if name in sizes}
        stores = (op for op in self.body.block.ops if isinstance(op, StoreOp))
        return any(clashing_variables(static_part(store), space) for store in stores)

    def _verify_schedule(self, schedule: Schedule) -> None:
        reductions = [op for op in self.body.walk() if isinstance(op, ReduceOp)]
        spaces = [self.space.data, *(op.space.data for op in reductions)]
        _verify_merged(
            schedule.merged,
            spaces,
            [address_of(op) for op in self.body.walk() if isinstance(op, LoadOp | StoreOp | IndexOp)],
        )
        own = schedule.loops(self.space.data).keys()
        if schedule.order and (set(schedule.order) != own or len(schedule.order) != len(own)):
            raise VerifyException(
                f"the schedule's order {schedule.order} is no permutation of the nest's variables"
            )
        reduced = {name for op in reductions for name in schedule.loops(op.space.data)}
        if schedule.rows and schedule.rows[0] not in own:
            raise VerifyException(f"rows `{schedule.rows[0]}` is not a variable of the nest")
        if schedule.lanes and schedule.lanes[0] not in own | reduced:
            raise VerifyException(
                f"lanes `{schedule.lanes[0]}` is not a variable of the nest or its reductions"
            )
        if schedule.rows and schedule.lanes and schedule.rows[0] == schedule.lanes[0]:
            raise VerifyException("rows and lanes are different variables")
        tiles = [tile for tile in (schedule.rows, schedule.lanes) if tile is not None]
        tiled = [loop for loop, _ in tiles]
        if self.clashes(name for loop in tiled for name in loop.split("*")):
            raise VerifyException(in_turn(tiled))
        if any(size < 1 for _, size in tiles):
            raise VerifyException("a tile has at least one element")
        if schedule.chains < 1:
            raise VerifyException("a reduction has at least one chain")
        if schedule.parallel and isinstance(self.parent_op(), GroupOp):
            raise VerifyException("threads share a group, no nest in it")
        _verify_parallel(schedule, self)


def _verify_merged(
    groups: Sequence[tuple[str, ...]], spaces: Sequence[Space], addresses: Sequence[Address]
) -> None:
    names = [name for group in groups for name in group]
    if len(set(names)) < len(names):
        raise VerifyException("a variable stands twice in the schedule's `merged`")
    for group in groups:
        loop = "*".join(group)
        sizes = next((sizes for sizes in map(dict, spaces) if sizes.keys() >= set(group)), None)
        if len(group) < 2 or sizes is None:
            raise VerifyException(f"merged `{loop}` is no group of variables of one space")
        if not all(address.moves_as_one(group, sizes) for address in addresses):
            raise VerifyException(f"an access does not move by equal steps along `{loop}`")


def _verify_parallel(schedule: Schedule, step: NestOp | GroupOp) -> None:
    names = [name for name, _ in schedule.parallel]
    if len(set(names)) < len(names):
        raise VerifyException("a variable stands twice in the schedule's `parallel`")
    own, clashing = schedule.loops(step.space.data), step.clashing
    what = "nest" if isinstance(step, NestOp) else "group"
    for name, size in schedule.parallel:
        if name not in own:
            raise VerifyException(f"parallel `{name}` is not a variable of the {what}")
        tile = schedule.tile(name)
        if size < 1 or size % tile:
            raise VerifyException(f"a parallel block of `{name}` has whole tiles of {tile}, found {size}")
        if not clashing.isdisjoint(name.split("*")):
            raise VerifyException(in_turn([name]))


def in_turn(loops: Sequence[str]) -> str:
    """The message for points that cannot run together."""
    text = ", ".join(f"`{loop}`" for loop in loops)
    return f"points that differ in {text} store to the same cell, so run in turn"


@operation_definition
class GroupOp(StepOp):
    """`loops.group "softmax" (b = 512) { ... }`: its nests in turn, at every point of its space.

    The nodes that it declares live inside one point. What one point stores, no other one touches, but for
    cells that several points load, add to and store: these points run in turn.
    """

    name = "loops.group"
    label = prop_def(StringAttr)
    space = prop_def(SpaceAttr)
    schedule = opt_prop_def(ScheduleAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(
        self, label: str, space: Sequence[tuple[str, int]], body: Region, schedule: Schedule | None = None
    ) -> None:
        Operation.__init__(
            self,
            properties=given(
                label=StringAttr(label),
                space=SpaceAttr(tuple(space)),
                schedule=None if schedule is None else ScheduleAttr(schedule),
            ),
            regions=[body],
        )

    @property
    def nodes(self) -> list[NodeOp]:
        return [op for op in self.body.block.ops if isinstance(op, NodeOp)]

    @property
    def nests(self) -> list[NestOp]:
        return [op for op in self.body.block.ops if isinstance(op, NestOp)]

    @property
    def clashing(self) -> set[str]:
        """The variables in which points that store to the same cell of a node from outside may differ."""
        own, found = {node.result for node in self.nodes}, set[str]()
        for nest in self.nests:
            space = dict((*self.space.data, *nest.space.data))
            for op in nest.body.block.ops:
                if isinstance(op, StoreOp) and op.node not in own:
                    found |= clashing_variables(static_part(op), space)
        return found & set(self.space.names)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        printer.print_string(" ")
        print_space(printer, self.space.data)
        print_schedule(printer, self.schedule)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> GroupOp:
        label = parser.parse_str_literal(" naming the group")
        space = parse_space(parser)
        schedule = parse_optional_schedule(parser)
        body = parser.parse_region()
        if not body.blocks:
            body.add_block(Block())
        return cls(label, space, body, schedule)

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), FuncOp | None):
            raise VerifyException("a group stands in a loops.func")
        check_variables(self, self.space.names)
        check_no_arguments(self.body)
        if self.schedule is not None:
            self._verify_schedule(self.schedule.data)
        for op in self.body.block.ops:
            if not isinstance(op, NodeOp | NestOp):
                raise VerifyException(f"a group has nodes and nests, found `{op.name}`")
            if isinstance(op, NodeOp) and (op.mode.data != "local" or op.offset is not None):
                raise VerifyException(
                    f"node {op.label.data!r} lives inside a point of the group: it is local, without a place"
                )

    def _verify_schedule(self, schedule: Schedule) -> None:
        if schedule != Schedule(parallel=schedule.parallel):
            raise VerifyException("the schedule of a group says what is parallel, nothing else")
        _verify_parallel(schedule, self)


@operation_definition
class ReduceOp(IRDLOperation):
    """`loops.reduce add (i = 2) : f32 { ... loops.yield %p }`: accumulates the yielded value over a space.

    In a kernel, `where 2*i + j < 9` takes only the points of the space at which the bounds hold.
    """

    name = "loops.reduce"
    accum = prop_def(StringAttr)
    space = prop_def(SpaceAttr)
    where = opt_prop_def(BoundsAttr)
    body = region_def("single_block")
    result = result_def()
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self,
        accum: str,
        space: Sequence[tuple[str, int]],
        body: Region,
        type: Attribute,
        where: Sequence[Bound] = (),
    ) -> None:
        Operation.__init__(
            self,
            properties=given(
                accum=StringAttr(accum),
                space=SpaceAttr(tuple(space)),
                where=BoundsAttr(tuple(where)) if where else None,
            ),
            regions=[body],
            result_types=[type],
        )

    @property
    def yielded(self) -> SSAValue:
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last.value

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.accum.data} ")
        print_space(printer, self.space.data)
        if self.where is not None:
            printer.print_string(f" where {bounds_text(self.where.data)}")
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        accum = parser.parse_identifier(" naming an accumulation")
        space = parse_space(parser)
        where = parse_bounds(parser) if parser.parse_optional_keyword("where") else ()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        return cls(accum, space, parser.parse_region(), type, where)

    def verify_(self) -> None:
        check_accumulator(self.accum.data)
        check_no_arguments(self.body)
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException("a reduction ends in loops.yield")
        if self.yielded.type != self.result.type:
            raise VerifyException(f"yields {self.yielded.type}, but the result is {self.result.type}")
        check_variables(self, self.space.names)
        check_fresh(self, self.space.names)
        if self.where is not None:
            self._verify_bounds(self.where.data)

    def _verify_bounds(self, bounds: Sequence[Bound]) -> None:
        if not in_kernel(self):
            raise VerifyException("only in a kernel a reduction leaves points out")
        sizes = {**scope_sizes(self), **dict(self.space.data)}
        for bound in bounds:
            check_names(self, bound.index.names, sizes)
        check_bounds(bounds, sizes)


@operation_definition
class YieldOp(IRDLOperation):
    """The value that a point contributes to the reduction around it."""

    name = "loops.yield"
    value = operand_def()
    traits = traits_def(IsTerminator())

    def __init__(self, value: SSAValue) -> None:
        Operation.__init__(self, operands=[value])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        return cls(parse_defined_operand(parser))


@operation_definition
class PositionOp(IRDLOperation):
    """`%v, %inside = loops.position %id below 65`: a number as a position of an axis, and whether it is one.

    The number is one of 0..64, or the position is 0. So what is accessed at a position is always there.
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
        printer.print_string(" ")
        printer.print_ssa_value(self.number)
        printer.print_string(f" below {self.size.data}")

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


POSITION = "at$"
"""Prefix of the names that stand for positions in the map of an access: `at$0` is its first one."""


def static_part(op: LoadOp | StoreOp) -> Map:
    """The index expressions of an access that no position takes part in."""
    return tuple(index for index in op.indices.data if not has_position(index))


def has_position(index: Linear) -> bool:
    return any(name.startswith(POSITION) for name in index.names)


@operation_definition
class LoadOp(IRDLOperation):
    """`loops.load %x[batch_n, b, %v]`: the element of a node at an index map, in which `positions` stand."""

    name = "loops.load"
    node = operand_def(MemRefType)
    positions = var_operand_def(IndexType)
    indices = prop_def(MapAttr)
    result = result_def()
    traits = traits_def(MemoryReadEffect())

    def __init__(self, node: SSAValue, indices: Sequence[Linear], positions: Sequence[SSAValue] = ()) -> None:
        Operation.__init__(
            self,
            operands=[node, *positions],
            properties={"indices": MapAttr(tuple(indices))},
            result_types=[element_type(node)],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_access(printer, self)

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        return cls(*parse_access(parser))

    def verify_(self) -> None:
        if self.result.type != element_type(self.node):
            raise VerifyException(f"loads {self.result.type} from a node of {element_type(self.node)}")
        check_positions(self)


@operation_definition
class StoreOp(IRDLOperation):
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
        Operation.__init__(
            self, operands=[value, node, *positions], properties={"indices": MapAttr(tuple(indices))}
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(", ")
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
        if self.value.type != element_type(self.node):
            raise VerifyException(f"stores {self.value.type} into a node of {element_type(self.node)}")
        if isinstance(self.parent_op(), ReduceOp):
            raise VerifyException("a store stands directly in a nest")
        check_positions(self)


def print_access(printer: Printer, op: LoadOp | StoreOp) -> None:
    """`%x[b, 2*%v + 1]`: positions by the names of their values."""
    printer.print_ssa_value(op.node)
    text = f"[{', '.join(map(str, op.indices.data))}]"
    for part in re.split(rf"({re.escape(POSITION)}\d+)", text):
        if part.startswith(POSITION):
            printer.print_ssa_value(op.positions[int(part.removeprefix(POSITION))])
        else:
            printer.print_string(part)


def parse_access(parser: Parser) -> tuple[SSAValue, Map, list[SSAValue]]:
    node = _parse_node(parser)
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
    """Positions come from `loops.position`, and with them, too, the map stays inside the node."""
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


def check_variables(op: GroupOp | NestOp | ReduceOp, names: Sequence[str]) -> None:
    check_space(op, names)
    for name in names:
        if name.startswith(POSITION):
            raise VerifyException(f"`{name}` is the name of a position, and no iteration variable")


@operation_definition
class IndexOp(IRDLOperation):
    """The value of an index expression as a number: `loops.index 2*i + step_n : f32`."""

    name = "loops.index"
    indices = prop_def(MapAttr)
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, index: Linear, type: Attribute) -> None:
        Operation.__init__(self, properties={"indices": MapAttr((index,))}, result_types=[type])

    @property
    def index(self) -> Linear:
        return self.indices.data[0]

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.index} : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> IndexOp:
        index = parse_linear(parser)
        parser.parse_punctuation(":")
        return cls(index, parser.parse_type())

    def verify_(self) -> None:
        if not isinstance(self.result.type, Float32Type | Float64Type) and self.result.type not in (i32, i64):
            raise VerifyException(
                f"an index becomes a number of type f32, f64, i32 or i64, found {self.result.type}"
            )
        check_names(self, only_index(self.indices.data).names, scope_sizes(self))


@operation_definition
class UniformOp(IRDLOperation):
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
            self,
            operands=[place, counter],
            properties={"stream": StreamAttr(stream)},
            result_types=[type],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_stream(printer, self.stream.data)
        printer.print_string(" ")
        printer.print_ssa_value(self.place)
        printer.print_string(" at ")
        printer.print_ssa_value(self.counter)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

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


@operation_definition
class FuncOp(RoutineOp):
    """A routine as a sequence of nests, groups of nests, or kernels, over the nodes declared at its top."""

    name = "loops.func"

    def verify_(self) -> None:
        super().verify_()
        check_labels(self)
        for op in self.body.block.ops:
            if not isinstance(op, NodeOp | StepOp):
                raise VerifyException(f"it has nodes, nests, groups and kernels, found `{op.name}`")


def address_of(op: LoadOp | StoreOp | IndexOp) -> Address:
    """Where an access is in its node, or the value of an index, over the iteration variables."""
    if isinstance(op, IndexOp):
        return Address(op.index.terms, op.index.constant)
    return flatten(op.node, op.indices.data)


def element_type(node: SSAValue) -> Attribute:
    return cast(MemRefType[Attribute], node.type).element_type


def _parse_node(parser: Parser) -> SSAValue:
    pos = parser.pos
    node = parse_defined_operand(parser)
    if not isinstance(node.type, MemRefType):
        parser.raise_error("expected a node", pos, parser.pos)
    return node


def check_fresh(op: Operation, names: Sequence[str]) -> None:
    """The variables of an operation are none of those around it."""
    outer = scope_sizes(op)
    for name in names:
        if name in outer:
            raise VerifyException(f"`{name}` is already an iteration variable around it")


def scopes(op: Operation) -> Iterator[Operation]:
    """The operations around `op`, from the inside out, up to its routine."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, RoutineOp):
        yield parent
        parent = parent.parent_op()


def scope_sizes(op: Operation) -> dict[str, int]:
    """The iteration variables around an operation, with their sizes: those of all spaces around it."""
    spaces = (p for scope in scopes(op) for p in scope.properties.values() if isinstance(p, SpaceAttr))
    return {name: size for space in spaces for name, size in space.data}


def scope_bounds(op: Operation) -> list[Bound]:
    """The bounds that hold where an operation stands."""
    bounds = (p for scope in scopes(op) for p in scope.properties.values() if isinstance(p, BoundsAttr))
    return [bound for found in bounds for bound in found.data]


def in_kernel(op: Operation) -> bool:
    """Whether no nest stands around an operation."""
    return not any(isinstance(scope, NestOp) for scope in scopes(op))


LOOPS = Dialect(
    "loops",
    [GroupOp, NestOp, ReduceOp, YieldOp, PositionOp, LoadOp, StoreOp, IndexOp, UniformOp, FuncOp],
    [ScheduleAttr],
)
