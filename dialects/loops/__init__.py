"""The `loops` dialect: kernels as compact nests.

A nest is a space of independent points, each with a small block of scalar operations (upstream `arith` and
`math`), affine loads and stores, and reductions over inner spaces. It stays compact until it becomes target
code: its schedule (loop order, register tile, vector lanes) is an attribute that can be read, tested and
written by hand. A group runs several nests in turn at every point of an outer space.

Loads, stores and other values are in `values`, the base of nests and groups in `scheduled`, and checks of
schedules in `schedule_checks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def, region_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import NodeOp, check_accumulator, check_labels, check_names, check_space
from ocannl.dialects.assign.collective import CollectiveBase
from ocannl.dialects.assign.in_flight import check_in_flight
from ocannl.dialects.assign.repeat import RepeatBase
from ocannl.dialects.assign.unwritten import check_written
from ocannl.dialects.index.bounds import Bound, BoundsAttr, bounds_text, check_bounds, parse_bounds
from ocannl.dialects.index.linear import POSITION, SpaceAttr, clashing_variables, parse_space, space_text
from ocannl.dialects.index.scopes import scope_sizes, scopes
from ocannl.dialects.ir.late_locations import located_late
from ocannl.dialects.ir.op_helpers import (
    OwnOperation,
    UnaryOp,
    given,
    operation_definition,
    operations_of,
    parse_defined_operand,
    print_parts,
)
from ocannl.dialects.loops.accesses import accesses_of
from ocannl.dialects.loops.arena import check_arena
from ocannl.dialects.loops.dot_checks import check_dot
from ocannl.dialects.loops.points import check_points
from ocannl.dialects.loops.schedule import Schedule, ScheduleAttr
from ocannl.dialects.loops.schedule_checks import (
    check_merged,
    check_order,
    check_parallel,
    check_strips,
    check_tile,
    in_turn,
)
from ocannl.dialects.loops.scheduled import ScheduledOp
from ocannl.dialects.loops.steps import StepOp, check_computes
from ocannl.dialects.loops.sum_blocks import SumBlocks, SumBlocksAttr, blocks_text, parse_blocks
from ocannl.dialects.loops.values import (
    IndexOp,
    LoadOp,
    PositionOp,
    StoreOp,
    UniformOp,
    address_of,
    static_part,
)
from ocannl.dialects.routine import RoutineOp, check_no_arguments
from ocannl.dialects.scalar.far_op import FarOp
from ocannl.dialects.scalar.precisions import is_integer
from ocannl.dialects.scalar.remainder_op import RemainderOp
from ocannl.dialects.scalar.small_arithmetic import check_no_small_arithmetic

__all__ = [
    "LOOPS",
    "CollectiveOp",
    "FuncOp",
    "GroupOp",
    "IndexOp",
    "LoadOp",
    "NestOp",
    "PositionOp",
    "ReduceOp",
    "RepeatOp",
    "ScheduledOp",
    "StepOp",
    "StoreOp",
    "SumBlocks",
    "SumBlocksAttr",
    "UniformOp",
    "YieldOp",
    "check_fresh",
    "in_kernel",
]


@located_late
@operation_definition
class NestOp(ScheduledOp):
    """`loops.nest "h1" (b = 10, o = 16) { ... }`: the body at every point, in any order.

    Points that store to the same element run one after the other.
    """

    name = "loops.nest"

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), FuncOp | GroupOp | None):
            raise VerifyException("a nest stands in a loops.func or in a loops.group")
        check_variables(self, self.space.names)
        check_fresh(self, self.space.names)
        check_no_arguments(self.body)
        check_no_small_arithmetic(self)
        check_computes(self, "a nest")
        if self.schedule is not None:
            self._verify_schedule(self.schedule.data)

    @property
    def clashing(self) -> set[str]:
        """The variables in which points may differ that store to the same element: these points run in turn.

        Positions that are found at run time determine no variable.
        """
        space = dict(self.space.data)
        stores = (op for op in operations_of(self.body.block) if type(op) is StoreOp)
        return {name for store in stores for name in clashing_variables(static_part(store), space)}

    def clashes(self, variables: Iterable[str]) -> bool:
        """Whether points that differ in these variables only may store to the same element."""
        sizes = dict(self.space.data)
        space = {name: sizes[name] for name in variables if name in sizes}
        stores = (op for op in operations_of(self.body.block) if type(op) is StoreOp)
        return any(clashing_variables(static_part(store), space) for store in stores)

    def _verify_schedule(self, schedule: Schedule) -> None:
        reductions = [op for op in self.body.walk() if isinstance(op, ReduceOp)]
        addresses = [address_of(op) for op in self.body.walk() if isinstance(op, LoadOp | StoreOp | IndexOp)]
        check_merged(schedule, [self.space.data, *(op.space.data for op in reductions)], addresses)
        own = schedule.loops(self.space.data).keys()
        check_order(schedule, own)
        check_tile(schedule, own, {name for op in reductions for name in schedule.loops(op.space.data)})
        tiled = [loop for loop, _ in schedule.tiles]
        if self.clashes(name for loop in tiled for name in loop.split("*")):
            raise VerifyException(in_turn(tiled))
        if schedule.chains < 1:
            raise VerifyException("a reduction has at least one chain")
        if schedule.parallel and isinstance(self.parent_op(), GroupOp):
            raise VerifyException("threads share a group, no nest in it")
        check_parallel(schedule, self.space.data, self.clashing, "nest")
        if schedule.dot:
            summed = [op for reduction in reductions for op in reduction.body.block.ops]
            spaces = [op.space.data for op in reductions]
            check_dot(schedule, self.space.data, list(self.body.block.ops), spaces, summed)
        check_strips(schedule, own, self.clashing)


@operation_definition
class GroupOp(ScheduledOp):
    """`loops.group "softmax" (b = 512) { ... }`: its nests in turn, at every point of its space, or with
    `where 64*t - 16*s + 240 < 256` at those at which the bounds hold.

    The nodes that it declares live inside one point. No other point touches what one point stores, but for
    elements that several points accumulate into: these points run in turn.
    """

    name = "loops.group"
    where = opt_prop_def(BoundsAttr)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return () if self.where is None else self.where.data

    def print_bounds(self, printer: Printer) -> None:
        if self.where is not None:
            printer.print_string(f" where {bounds_text(self.where.data)}")

    @classmethod
    def parse_bounds(cls, parser: Parser) -> dict[str, Attribute]:
        found = parse_bounds(parser) if parser.parse_optional_keyword("where") else ()
        return {"where": BoundsAttr(found)} if found else {}

    @property
    def nodes(self) -> list[NodeOp]:
        return [op for op in operations_of(self.body.block) if type(op) is NodeOp]

    @property
    def nests(self) -> list[NestOp]:
        return [op for op in operations_of(self.body.block) if type(op) is NestOp]

    @property
    def clashing(self) -> set[str]:
        """The variables in which points may differ that store to the same element of a node from outside."""
        own, found = {node.result for node in self.nodes}, set[str]()
        for nest in self.nests:
            space = dict((*self.space.data, *nest.space.data))
            for op in operations_of(nest.body.block):
                if type(op) is StoreOp and op.node not in own:
                    found |= clashing_variables(static_part(op), space)
        return found & set(self.space.names)

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), FuncOp | None):
            raise VerifyException("a group stands in a loops.func")
        check_variables(self, self.space.names)
        check_no_arguments(self.body)
        if self.schedule is not None:
            self._verify_schedule(self.schedule.data)
        for bound in self.bounds:
            check_names(self, bound.index.names, dict(self.space.data))
        check_bounds(self.bounds, dict(self.space.data))
        for op in self.body.block.ops:
            if not isinstance(op, NodeOp | NestOp):
                raise VerifyException(f"a group has nodes and nests, found `{op.name}`")
            if isinstance(op, NodeOp) and (op.mode.data != "local" or op.offset is not None):
                raise VerifyException(
                    f"node {op.label.data!r} lives inside a point of the group: it is local, without a place"
                )
        check_points(self, {node.result for node in self.nodes}, self.nests)

    def _verify_schedule(self, schedule: Schedule) -> None:
        if schedule != Schedule(parallel=schedule.parallel):
            raise VerifyException("the schedule of a group says what is parallel, nothing else")
        check_parallel(schedule, self.space.data, self.clashing, "group")


@operation_definition
class ReduceOp(OwnOperation):
    """`loops.reduce add (i = 2) : f32 { ... loops.yield %p }`: accumulates the yielded value over a space.

    In a kernel, `where 2*i + j < 9` takes only the points of the space at which the bounds hold. Outside of
    kernels, `blocks 16` adds up floats in blocks of so many steps of each accumulator, and `compensated` adds
    what the additions of blocks round off.
    """

    name = "loops.reduce"
    accum = prop_def(StringAttr)
    space = prop_def(SpaceAttr)
    where = opt_prop_def(BoundsAttr)
    blocks = opt_prop_def(SumBlocksAttr)
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
        blocks: SumBlocks | None = None,
    ) -> None:
        Operation.__init__(
            self,
            properties=given(
                accum=StringAttr(accum),
                space=SpaceAttr(tuple(space)),
                where=BoundsAttr(tuple(where)) if where else None,
                blocks=None if blocks is None else SumBlocksAttr(blocks),
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
        printer.print_string(f" {self.accum.data} {space_text(self.space.data)}")
        if self.where is not None:
            printer.print_string(f" where {bounds_text(self.where.data)}")
        if self.blocks is not None:
            printer.print_string(f" {blocks_text(self.blocks.data)}")
        print_parts(printer, " : ", self.result.type, " ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        accum = parser.parse_identifier(" naming an accumulation")
        space = parse_space(parser)
        where = parse_bounds(parser) if parser.parse_optional_keyword("where") else ()
        blocks = parse_blocks(parser) if parser.parse_optional_keyword("blocks") else None
        parser.parse_punctuation(":")
        type = parser.parse_type()
        return cls(accum, space, parser.parse_region(), type, where, blocks)

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
        if self.blocks is not None:
            self._verify_blocks(self.blocks.data)

    def _verify_blocks(self, blocks: SumBlocks) -> None:
        if self.accum.data != "add" or is_integer(self.result.type):
            raise VerifyException("sums of floats have blocks")
        if in_kernel(self):
            raise VerifyException(
                "sums in kernels have no blocks, which schedules for a CPU give: kernels are made of nests "
                "without schedules, as by -p gpu"
            )
        if blocks.size < 1:
            raise VerifyException("a block has at least one step")

    def _verify_bounds(self, bounds: Sequence[Bound]) -> None:
        if not in_kernel(self):
            raise VerifyException("only in a kernel a reduction leaves points out")
        sizes = {**scope_sizes(self), **dict(self.space.data)}
        for bound in bounds:
            check_names(self, bound.index.names, sizes)
        check_bounds(bounds, sizes)


@operation_definition
class YieldOp(UnaryOp):
    """The value that a point contributes to the reduction around it."""

    name = "loops.yield"
    value = operand_def()
    traits = traits_def(IsTerminator())

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), ReduceOp | None):
            raise VerifyException("what is yielded is yielded to a loops.reduce")


@operation_definition
class RepeatOp(StepOp, RepeatBase):
    """Runs a function before this one in the module, its body, at each value of an index:
    `loops.repeat @step.lstm t = 64 while %going ("h" = %h, "x" = %x) workspace %w`.

    The workspace, which plan-memory declares, is the arena of the body.
    """

    name = "loops.repeat"

    def stored_by(self, op: Operation) -> SSAValue | None:
        return stored_by(op)

    @property
    def func(self) -> FuncOp:
        """The body. Raises `OcannlError` if there is none before the caller in the module."""
        found = self.routine
        assert isinstance(found, FuncOp)
        return found

    @property
    def nodes(self) -> list[SSAValue]:
        """The nodes of the caller that are in use while it runs, each once."""
        return list(dict.fromkeys(self.inputs))

    @property
    def workspace(self) -> SSAValue | None:
        others = self.inputs[len(self.labels.data) + (self.has_flag is not None) :]
        return others[0] if others else None

    def print(self, printer: Printer) -> None:
        super().print(printer)
        if self.workspace is not None:
            print_parts(printer, " workspace ", self.workspace)

    @classmethod
    def parse(cls, parser: Parser) -> RepeatOp:
        op = super().parse(parser)
        if parser.parse_optional_keyword("workspace"):
            op.operands = [*op.operands, parse_defined_operand(parser)]
        return op


def stored_by(op: Operation) -> SSAValue | None:
    """The node that an operation stores to."""
    return op.node if isinstance(op, StoreOp) else None


@operation_definition
class CollectiveOp(StepOp, CollectiveBase):
    """Bytes that ranks exchange: `loops.collective all_gather %whole from %part over "data"`."""

    name = "loops.collective"


def check_variables(op: ScheduledOp | ReduceOp, names: Sequence[str]) -> None:
    check_space(op, names)
    for name in names:
        if name.startswith(POSITION):
            raise VerifyException(f"`{name}` is the name of a position, and no iteration variable")


@operation_definition
class FuncOp(RoutineOp):
    """A routine as a sequence of steps over the nodes declared at its top."""

    name = "loops.func"

    @property
    def steps(self) -> list[StepOp]:
        """All that runs, in order: kernels, too."""
        return [op for op in self.body.block.ops if isinstance(op, StepOp)]

    def verify_(self) -> None:
        super().verify_()
        check_labels(self)
        for op in self.body.block.ops:
            if not isinstance(op, NodeOp | StepOp):
                raise VerifyException(
                    f"it has nodes, nests, groups, loops, kernels, collectives, found `{op.name}`"
                )
        check_arena(self)
        if self.mesh is not None:
            check_in_flight([*self.body.block.ops], stored_by)

    def verify_steps(self) -> None:
        check_written(self, accesses_of)


def check_fresh(op: Operation, names: Sequence[str]) -> None:
    """Checks that an operation declares no variable that there is around it."""
    outer = scope_sizes(op)
    for name in names:
        if name in outer:
            raise VerifyException(f"`{name}` is already an iteration variable around it")


def in_kernel(op: Operation) -> bool:
    """Whether no nest stands around an operation."""
    return not any(isinstance(scope, NestOp) for scope in scopes(op))


LOOPS = Dialect(
    "loops",
    [
        GroupOp,
        NestOp,
        ReduceOp,
        YieldOp,
        RepeatOp,
        CollectiveOp,
        PositionOp,
        LoadOp,
        StoreOp,
        IndexOp,
        RemainderOp,
        FarOp,
        UniformOp,
        FuncOp,
    ],
    [ScheduleAttr, SumBlocksAttr],
)
