"""The `kernel` dialect: the steps of a routine as kernels for a GPU.

A kernel says which iteration variables are blocks, which are threads of a block, and which are registers of a
thread. Its body is what each thread does: loads, stores and reductions of `loops`, and scalar operations. A
value that depends on register variables stands for one register at each of their points. So the body stays
compact until it becomes target code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import IntAttr, MemRefType, StringAttr, UnitAttr
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import NodeOp, check_access, check_accumulator, check_names, check_space
from ocannl.dialects.index.addresses import flatten
from ocannl.dialects.index.bounds import Bound, BoundsAttr, bounds_text, check_bounds, parse_bounds
from ocannl.dialects.index.linear import (
    Linear,
    MapAttr,
    Space,
    SpaceAttr,
    map_text,
    parse_map,
    parse_space,
    space_text,
)
from ocannl.dialects.index.memref import element_bytes, element_type
from ocannl.dialects.index.scopes import scope_bounds, scope_sizes
from ocannl.dialects.ir.op_helpers import (
    OwnOperation,
    given,
    operation_definition,
    parse_defined_operand,
    print_parts,
)
from ocannl.dialects.kernel.condition import IfOp
from ocannl.dialects.kernel.gpu import ASYNC_BYTES, WARP
from ocannl.dialects.kernel.launch import (
    BARRIER,
    LaunchOp,
    SharedOp,
    TogetherOp,
    check_slot,
    enclosing_launch,
)
from ocannl.dialects.kernel.mma import MmaOp
from ocannl.dialects.kernel.own import OwnOp
from ocannl.dialects.kernel.point import Numbered, PointOp, parse_numbered
from ocannl.dialects.loops import check_fresh
from ocannl.dialects.loops.values import parse_array
from ocannl.dialects.routine import check_no_arguments, parse_body

# The operands of copies, as error messages call them.
ARRAY = "a node or a shared array"


class PlainTogetherOp(TogetherOp):
    """Base of synchronizations without operands, written as their name alone."""

    def __init__(self) -> None:
        Operation.__init__(self)

    def print(self, printer: Printer) -> None:
        pass

    @classmethod
    def parse(cls, parser: Parser):
        return cls()


@operation_definition
class BarrierOp(PlainTogetherOp):
    """A barrier: all threads of a block arrive before any goes on, and see what the others stored."""

    name = BARRIER


@operation_definition
class CopyOp(TogetherOp):
    """`kernel.copy %w[16*t + i, k] to %s[k, i] over (i = 16, k = 8) where 16*t + i < 100`

    The threads of a block share the points of the space: neighbouring threads take neighbouring points along
    the last variable, or such that banks of shared memory do not conflict. `by 4` is for those along which 4
    neighbours are one access to memory: a thread takes all of them. Barriers before and after are the
    kernel's. Where a bound does not hold, the target gets zero.

    `at (b = 8, h = 7) number 16*t + i` adds variables, those of the point with the number; where there is
    no such point, the target gets zero, too.

    The elements of an `async` copy are visible to the thread after a `kernel.wait`, to others after a
    barrier.
    """

    name = "kernel.copy"
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)
    source_map = prop_def(MapAttr)
    target_map = prop_def(MapAttr)
    space = prop_def(SpaceAttr)
    where = opt_prop_def(BoundsAttr)
    points = opt_prop_def(SpaceAttr)
    numbers = opt_prop_def(MapAttr)
    width = opt_prop_def(IntAttr)
    asynchronous = opt_prop_def(UnitAttr)

    def __init__(
        self,
        source: tuple[SSAValue, Sequence[Linear]],
        target: tuple[SSAValue, Sequence[Linear]],
        space: Space,
        where: Sequence[Bound] = (),
        *,
        by: int = 1,
        is_async: bool = False,
        at: Numbered | None = None,
    ) -> None:
        Operation.__init__(
            self,
            operands=[source[0], target[0]],
            properties=given(
                source_map=MapAttr(tuple(source[1])),
                target_map=MapAttr(tuple(target[1])),
                space=SpaceAttr(space),
                where=BoundsAttr(tuple(where)) if where else None,
                points=None if at is None else SpaceAttr(at.space),
                numbers=None if at is None else MapAttr((at.number,)),
                width=IntAttr(by) if by > 1 else None,
                asynchronous=UnitAttr() if is_async else None,
            ),
        )

    @property
    def by(self) -> int:
        """The number of neighbouring elements that a thread copies at a time."""
        return 1 if self.width is None else self.width.data

    @property
    def is_async(self) -> bool:
        return self.asynchronous is not None

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return () if self.where is None else self.where.data

    @property
    def at(self) -> Numbered | None:
        """The point whose variables the source has besides those of the copy."""
        if self.points is None or self.numbers is None:
            return None
        (number,) = self.numbers.data
        return Numbered(self.points.data, number)

    def print(self, printer: Printer) -> None:
        print_parts(printer, " async " if self.is_async else " ", self.source, map_text(self.source_map.data))
        print_parts(printer, " to ", self.target, map_text(self.target_map.data))
        printer.print_string(f" over {space_text(self.space.data)}")
        if self.at is not None:
            printer.print_string(f" at {self.at}")
        if self.by > 1:
            printer.print_string(f" by {self.by}")
        if self.bounds:
            printer.print_string(f" where {bounds_text(self.bounds)}")

    @classmethod
    def parse(cls, parser: Parser) -> CopyOp:
        is_async = parser.parse_optional_keyword("async") is not None
        source = parse_array(parser, ARRAY), parse_map(parser)
        parser.parse_characters("to")
        target = parse_array(parser, ARRAY), parse_map(parser)
        parser.parse_characters("over")
        space = parse_space(parser)
        at = parse_numbered(parser) if parser.parse_optional_keyword("at") else None
        by = 1
        if parser.parse_optional_keyword("by"):
            by = parser.parse_integer(allow_boolean=False, allow_negative=False)
        where = parse_bounds(parser) if parser.parse_optional_keyword("where") else ()
        return cls(source, target, space, where, by=by, is_async=is_async, at=at)

    def verify_(self) -> None:
        super().verify_()
        if element_type(self.source) != element_type(self.target):
            raise VerifyException(
                f"copies {element_type(self.source)} into an array of {element_type(self.target)}"
            )
        if not isinstance(self.target.owner, SharedOp):
            raise VerifyException("the threads of a block copy into shared memory")
        check_space(self, self.space.names)
        check_fresh(self, self.space.names)
        sizes, bounds = {**scope_sizes(self), **dict(self.space.data)}, [*scope_bounds(self), *self.bounds]
        _check_bounds(self, self.bounds, sizes)
        own: dict[str, int] = {}
        if self.at is not None:
            self.at.check(self, sizes)
            own = dict(self.at.space)
        check_access(self, self.source, self.source_map.data, sizes | own, bounds)
        check_access(self, self.target, self.target_map.data, sizes, scope_bounds(self))
        check_slot(self, self.target, self.target_map.data)
        fault = self.fault_of_neighbours(self.by)
        if fault is not None:
            raise VerifyException(fault)
        if self.is_async and self.bytes_at_a_time not in ASYNC_BYTES:
            raise VerifyException(
                f"an asynchronous copy moves 4, 8 or 16 bytes at a time, this one {self.bytes_at_a_time}"
            )

    @property
    def bytes_at_a_time(self) -> int:
        return self.by * element_bytes(self.target)

    def fault_of_neighbours(self, by: int) -> str | None:
        """The reason why threads cannot copy so many elements at a time, None if they can.

        They must be contiguous and aligned in both arrays, and all be inside or outside of each bound.
        """
        if by == 1:
            return None
        last, size = self.space.data[-1] if self.space.data else ("", 1)
        if by < 1 or size % by:
            return f"threads cannot take {by} of {size} neighbours at a time"
        for array, indices in ((self.source, self.source_map.data), (self.target, self.target_map.data)):
            address = flatten(array, indices)
            others = [step for name, step in address.terms if name != last]
            if address.stride(last) != 1 or any(step % by for step in (*others, address.constant)):
                return f"{by} neighbours along `{last}` are not aligned in the array"
            node = array.owner
            place = node.offset.data if isinstance(node, NodeOp) and node.offset is not None else 0
            if place % (by * element_bytes(array)):
                return f"{by} neighbours are not aligned where the arena has the array"
        if self.at is not None and self.at.number.coefficient(last):
            return f"{by} neighbours along `{last}` are at other points"
        for bound in self.bounds:
            others = [step for name, step in bound.index.terms if name != last]
            moves = bound.index.coefficient(last)
            if moves and (moves != 1 or any(n % by for n in (*others, bound.index.constant, bound.below))):
                return f"`{bound}` divides {by} neighbours"
        return None


@operation_definition
class CommitOp(PlainTogetherOp):
    """Makes a group of the asynchronous copies since the last commit (`cp.async.commit_group` of PTX)."""

    name = "kernel.commit"


@operation_definition
class WaitOp(TogetherOp):
    """`kernel.wait 1`: waits for the thread's own copies, but for those of the last group."""

    name = "kernel.wait"
    pending = prop_def(IntAttr)

    def __init__(self, pending: int) -> None:
        Operation.__init__(self, properties={"pending": IntAttr(pending)})

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.pending.data}")

    @classmethod
    def parse(cls, parser: Parser) -> WaitOp:
        return cls(parser.parse_integer(allow_boolean=False, allow_negative=False))

    def verify_(self) -> None:
        super().verify_()
        if self.pending.data < 0:
            raise VerifyException("the groups that are not waited for are counted from 0 on")


@operation_definition
class CombineOp(TogetherOp):
    """`kernel.combine add %v across (k) via %s`: an all-reduce over threads that differ in a variable.

    Inside a warp values move by shuffles, between warps through the shared array.
    """

    name = "kernel.combine"
    accum = prop_def(StringAttr)
    value = operand_def()
    scratch = opt_operand_def(MemRefType)
    across = prop_def(StringAttr)
    result = result_def()

    def __init__(self, accum: str, value: SSAValue, across: str, scratch: SSAValue | None = None) -> None:
        Operation.__init__(
            self,
            operands=[value] if scratch is None else [value, scratch],
            properties={"accum": StringAttr(accum), "across": StringAttr(across)},
            result_types=[value.type],
        )

    def print(self, printer: Printer) -> None:
        print_parts(printer, f" {self.accum.data} ", self.value, f" across ({self.across.data})")
        if self.scratch is not None:
            print_parts(printer, " via ", self.scratch)

    @classmethod
    def parse(cls, parser: Parser) -> CombineOp:
        accum = parser.parse_identifier(" naming an accumulation")
        value = parse_defined_operand(parser)
        parser.parse_characters("across")
        with parser.in_parens():
            across = parser.parse_identifier(" naming a variable of the block")
        scratch = parse_array(parser, ARRAY) if parser.parse_optional_keyword("via") else None
        return cls(accum, value, across, scratch)

    def verify_(self) -> None:
        super().verify_()
        check_accumulator(self.accum.data)
        launch = enclosing_launch(self)
        if launch is None:
            return
        if self.across.data not in launch.block.names:
            raise VerifyException(f"`{self.across.data}` is no variable of the block")
        if not block_reduction(launch, self.across.data).through_memory:
            return
        if self.scratch is None or element_type(self.scratch) != self.value.type:
            raise VerifyException(f"combining between warps needs a shared array of {self.value.type}")
        if math.prod(cast(MemRefType[Attribute], self.scratch.type).get_shape()) < launch.threads:
            raise VerifyException(
                f"combining {launch.threads} threads needs a shared array of as many elements"
            )


@operation_definition
class ForOp(OwnOperation):
    """`kernel.for (k = 3) { ... }`: a sequential loop in each thread."""

    name = "kernel.for"
    space = prop_def(SpaceAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, space: Space, body: Region) -> None:
        Operation.__init__(self, properties={"space": SpaceAttr(space)}, regions=[body])

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {space_text(self.space.data)} ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        return cls(parse_space(parser), parse_body(parser))

    def verify_(self) -> None:
        check_no_arguments(self.body)
        check_space(self, self.space.names)
        check_fresh(self, self.space.names)


@operation_definition
class WhereOp(OwnOperation):
    """`kernel.where 16*b + t < 100 { ... }`: the body where all bounds hold."""

    name = "kernel.where"
    where = prop_def(BoundsAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, where: Sequence[Bound], body: Region) -> None:
        Operation.__init__(self, properties={"where": BoundsAttr(tuple(where))}, regions=[body])

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {bounds_text(self.where.data)} ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> WhereOp:
        return cls(parse_bounds(parser), parse_body(parser))

    def verify_(self) -> None:
        check_no_arguments(self.body)
        _check_bounds(self, self.where.data, scope_sizes(self))


class BlockReduction:
    """How an all-reduce over a variable of the block is done: shuffles in a warp, then shared memory.

    Attributes:
        masks: butterfly shuffles: a thread takes the value of that whose number differs in these bits.
        step: the distance, in threads, of the values that are then exchanged through shared memory.
        count: the number of those values; 1 if shuffles are all.
    """

    def __init__(self, size: int, stride: int, threads: int) -> None:
        self.masks: list[int] = []
        self.stride, self.size = stride, size
        self.step = stride
        in_warps = threads % WARP == 0 and is_power_of_two(size) and is_power_of_two(stride)
        while in_warps and self.step < min(WARP, stride * size):
            self.masks.append(self.step)
            self.step *= 2
        self.count = size // (self.step // stride)

    @property
    def through_memory(self) -> bool:
        return self.count > 1


def block_reduction(launch: LaunchOp, across: str) -> BlockReduction:
    """The all-reduce of a kernel over a variable of its block."""
    names = launch.block.names
    sizes = [size for _, size in launch.block.data]
    place = names.index(across)
    return BlockReduction(sizes[place], math.prod(sizes[place + 1 :]), launch.threads)


def is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _check_bounds(op: IRDLOperation, bounds: Sequence[Bound], sizes: Mapping[str, int]) -> None:
    for bound in bounds:
        check_names(op, bound.index.names, sizes)
    check_bounds(bounds, sizes)


KERNEL = Dialect(
    "kernel",
    [
        *(LaunchOp, SharedOp, OwnOp, ForOp, WhereOp, IfOp, PointOp),
        *(BarrierOp, CopyOp, CommitOp, WaitOp, CombineOp, MmaOp),
    ],
    [BoundsAttr],
)
