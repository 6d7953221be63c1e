"""The `kernel` dialect: the steps of a routine as kernels for a GPU.

A kernel says which iteration variables are blocks, which are threads of a block, and which are registers of a
thread. Its body is what each thread does: loads, stores and reductions of `loops`, and scalar operations. A
value that depends on register variables stands for one register at each of their points. So the body stays
compact until it becomes target code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, prop_def, region_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import check_accumulator, check_space
from ocannl.dialects.index.bounds import Bound, BoundsAttr, bounds_text, parse_bounds
from ocannl.dialects.index.linear import Space, SpaceAttr, parse_space, space_text
from ocannl.dialects.index.memref import element_type
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.ir.op_helpers import (
    OwnOperation,
    operation_definition,
    parse_defined_operand,
    print_parts,
)
from ocannl.dialects.kernel.condition import IfOp
from ocannl.dialects.kernel.copies import ARRAY, CommitOp, CopyOp, PlainTogetherOp, WaitOp, check_bounds_of
from ocannl.dialects.kernel.gpu import WARP
from ocannl.dialects.kernel.launch import BARRIER, LaunchOp, SharedOp, TogetherOp, enclosing_launch
from ocannl.dialects.kernel.mma import MmaOp, WaitProductsOp
from ocannl.dialects.kernel.own import OwnOp
from ocannl.dialects.kernel.point import PointOp
from ocannl.dialects.kernel.roles import RolesOp
from ocannl.dialects.kernel.stages import AwaitOp, FillOp, ReleaseOp
from ocannl.dialects.loops import check_fresh
from ocannl.dialects.loops.values import parse_array
from ocannl.dialects.routine import check_no_arguments, parse_body


@operation_definition
class BarrierOp(PlainTogetherOp):
    """A barrier: all threads of a block arrive before any goes on, and see what the others stored."""

    name = BARRIER


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
        check_bounds_of(self, self.where.data, scope_sizes(self))


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


KERNEL = Dialect(
    "kernel",
    [
        *(LaunchOp, SharedOp, OwnOp, ForOp, WhereOp, IfOp, PointOp),
        *(BarrierOp, CopyOp, CommitOp, WaitOp, CombineOp, MmaOp, WaitProductsOp),
        *(RolesOp, FillOp, AwaitOp, ReleaseOp),
    ],
    [BoundsAttr],
)
