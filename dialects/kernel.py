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

from xdsl.dialects.builtin import FixedBitwidthType, MemRefType, StringAttr
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
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
from xdsl.utils.hints import isa

from ocannl.dialects.assign import check_access, check_accumulator, check_names, check_space
from ocannl.dialects.bounds import Bound, BoundsAttr, bounds_text, check_bounds, clashing_within, parse_bounds
from ocannl.dialects.linear import (
    Linear,
    MapAttr,
    Space,
    SpaceAttr,
    parse_map,
    parse_space,
    print_map,
    print_space,
)
from ocannl.dialects.loops import (
    FuncOp,
    StoreOp,
    check_fresh,
    element_type,
    scope_bounds,
    scope_sizes,
    scopes,
    static_part,
)
from ocannl.dialects.op_helpers import given, operation_definition, parse_defined_operand
from ocannl.dialects.routine import check_no_arguments

MOST_THREADS = 1024
MOST_SHARED_BYTES = 48 * 2**10
WARP = 32


@operation_definition
class LaunchOp(IRDLOperation):
    """`kernel.launch "h" grid (b = 10) block (o = 16) registers (r = 4) { ... }`: the body in every thread.

    The kernels of a `loops.func` run in order. The last variable varies fastest: neighbours along the last
    variable of the block are neighbours in a warp.
    """

    name = "kernel.launch"
    label = prop_def(StringAttr)
    grid = prop_def(SpaceAttr)
    block = prop_def(SpaceAttr)
    registers = prop_def(SpaceAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, label: str, grid: Space, block: Space, registers: Space, body: Region) -> None:
        Operation.__init__(
            self,
            properties={
                "label": StringAttr(label),
                "grid": SpaceAttr(grid),
                "block": SpaceAttr(block),
                "registers": SpaceAttr(registers),
            },
            regions=[body],
        )

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return math.prod(size for _, size in self.block.data)

    @property
    def blocks(self) -> int:
        return math.prod(size for _, size in self.grid.data)

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a block."""
        return sum(op.bytes for op in self.body.block.ops if isinstance(op, SharedOp))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        for name, space in (("grid", self.grid), ("block", self.block), ("registers", self.registers)):
            if space.data:
                printer.print_string(f" {name} ")
                print_space(printer, space.data)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> LaunchOp:
        label = parser.parse_str_literal(" naming the kernel")
        grid, block, registers = (
            parse_space(parser) if parser.parse_optional_keyword(name) else ()
            for name in ("grid", "block", "registers")
        )
        return cls(label, grid, block, registers, _parse_body(parser))

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), FuncOp | None):
            raise VerifyException("a kernel stands in a loops.func")
        check_no_arguments(self.body)
        spaces = [*self.grid.data, *self.block.data, *self.registers.data]
        names = [name for name, _ in spaces]
        check_space(self, names)
        if len(set(names)) != len(names):
            raise VerifyException("an iteration variable is declared twice")
        if any(size < 1 for _, size in spaces):
            raise VerifyException("a variable of a kernel has at least one value")
        if self.threads > MOST_THREADS:
            raise VerifyException(f"a block has at most {MOST_THREADS} threads, this one has {self.threads}")
        for op in self.body.block.ops:
            if isinstance(op, SharedOp):
                op.verify()
        if self.shared_bytes > MOST_SHARED_BYTES:
            raise VerifyException(
                f"a block has at most {MOST_SHARED_BYTES} bytes of shared memory, "
                f"this one has {self.shared_bytes}"
            )
        for op in self.body.walk():
            if isinstance(op, StoreOp):
                op.verify()
                self._verify_store(op)

    def _verify_store(self, store: StoreOp) -> None:
        """Threads store to cells of their own; those of shared memory may have one writer after another."""
        if isinstance(store.node.owner, SharedOp):
            return
        clashing = clashing_within(static_part(store), scope_sizes(store), scope_bounds(store))
        shared = [name for name, _ in (*self.grid.data, *self.block.data) if name in clashing]
        if shared:
            raise VerifyException(f"threads that differ in `{shared[0]}` store to the same cell")


@operation_definition
class SharedOp(IRDLOperation):
    """`kernel.shared memref<16x64xf32>`: an array of the block, with no values at first."""

    name = "kernel.shared"
    result = result_def(MemRefType)

    def __init__(self, type: MemRefType[Attribute]) -> None:
        Operation.__init__(self, result_types=[type])

    @property
    def bytes(self) -> int:
        type = self.result.type
        assert isinstance(type.element_type, FixedBitwidthType)
        return math.prod(type.get_shape()) * type.element_type.size

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> SharedOp:
        pos = parser.pos
        type = parser.parse_type()
        if not isa(type, MemRefType[Attribute]):
            parser.raise_error("a shared array has a memref type", pos, parser.pos)
        return cls(type)

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), LaunchOp | None):
            raise VerifyException("shared arrays stand directly in a kernel")
        type = self.result.type
        if any(size < 0 for size in type.get_shape()) or not isinstance(type.element_type, FixedBitwidthType):
            raise VerifyException("a shared array has static sizes and numbers as elements")


class TogetherOp(IRDLOperation):
    """Base of what all threads of a block do together: it stands where all of them come."""

    def verify_(self) -> None:
        divergent = {name for scope in scopes(self) for name in _thread_names(scope)}
        for bound in scope_bounds(self):
            for name in bound.index.names:
                if name in divergent:
                    raise VerifyException(
                        f"all threads of a block come here together, but `{bound}` depends on `{name}`"
                    )


def _thread_names(scope: Operation) -> list[str]:
    return [*scope.block.names, *scope.registers.names] if isinstance(scope, LaunchOp) else []


@operation_definition
class BarrierOp(TogetherOp):
    """Every thread of the block has come here before one goes on, and sees what the others stored."""

    name = "kernel.barrier"

    def __init__(self) -> None:
        Operation.__init__(self)

    def print(self, printer: Printer) -> None:
        pass

    @classmethod
    def parse(cls, parser: Parser) -> BarrierOp:
        return cls()


@operation_definition
class CopyOp(TogetherOp):
    """`kernel.copy %w[16*t + i, k] to %s[k, i] over (i = 16, k = 8) where 16*t + i < 100`

    The threads of a block share the points of the space: neighbours take points that are neighbours along
    the last variable. Barriers before and after are the kernel's. Where a bound does not hold, the target
    gets any value.
    """

    name = "kernel.copy"
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)
    source_map = prop_def(MapAttr)
    target_map = prop_def(MapAttr)
    space = prop_def(SpaceAttr)
    where = opt_prop_def(BoundsAttr)

    def __init__(
        self,
        source: tuple[SSAValue, Sequence[Linear]],
        target: tuple[SSAValue, Sequence[Linear]],
        space: Space,
        where: Sequence[Bound] = (),
    ) -> None:
        Operation.__init__(
            self,
            operands=[source[0], target[0]],
            properties=given(
                source_map=MapAttr(tuple(source[1])),
                target_map=MapAttr(tuple(target[1])),
                space=SpaceAttr(space),
                where=BoundsAttr(tuple(where)) if where else None,
            ),
        )

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return () if self.where is None else self.where.data

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        print_map(printer, self.source_map.data)
        printer.print_string(" to ")
        printer.print_ssa_value(self.target)
        print_map(printer, self.target_map.data)
        printer.print_string(" over ")
        print_space(printer, self.space.data)
        if self.bounds:
            printer.print_string(f" where {bounds_text(self.bounds)}")

    @classmethod
    def parse(cls, parser: Parser) -> CopyOp:
        source = _parse_array(parser), parse_map(parser)
        parser.parse_characters("to")
        target = _parse_array(parser), parse_map(parser)
        parser.parse_characters("over")
        space = parse_space(parser)
        where = parse_bounds(parser) if parser.parse_optional_keyword("where") else ()
        return cls(source, target, space, where)

    def verify_(self) -> None:
        super().verify_()
        if element_type(self.source) != element_type(self.target):
            raise VerifyException(
                f"copies {element_type(self.source)} into an array of {element_type(self.target)}"
            )
        if not isinstance(self.target.owner, SharedOp):
            raise VerifyException("the threads of a block copy into shared memory")
        check_space(self, self.space.names)
        sizes, bounds = {**scope_sizes(self), **dict(self.space.data)}, [*scope_bounds(self), *self.bounds]
        _check_bounds(self, self.bounds, sizes)
        check_access(self, self.source, self.source_map.data, sizes, bounds)
        check_access(self, self.target, self.target_map.data, sizes, scope_bounds(self))


@operation_definition
class CombineOp(TogetherOp):
    """`kernel.combine add %v across (k) via %s`: accumulates over threads; all get the result.

    In a warp values move from register to register, between warps through the shared array.
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
        printer.print_string(f" {self.accum.data} ")
        printer.print_ssa_value(self.value)
        printer.print_string(f" across ({self.across.data})")
        if self.scratch is not None:
            printer.print_string(" via ")
            printer.print_ssa_value(self.scratch)

    @classmethod
    def parse(cls, parser: Parser) -> CombineOp:
        accum = parser.parse_identifier(" naming an accumulation")
        value = parse_defined_operand(parser)
        parser.parse_characters("across")
        with parser.in_parens():
            across = parser.parse_identifier(" naming a variable of the block")
        scratch = _parse_array(parser) if parser.parse_optional_keyword("via") else None
        return cls(accum, value, across, scratch)

    def verify_(self) -> None:
        super().verify_()
        check_accumulator(self.accum.data)
        launch = enclosing_launch(self)
        if launch is None:
            return
        if self.across.data not in launch.block.names:
            raise VerifyException(f"`{self.across.data}` is no variable of the block")
        if not combination(launch, self.across.data).through_memory:
            return
        if self.scratch is None or element_type(self.scratch) != self.value.type:
            raise VerifyException(f"combining between warps needs a shared array of {self.value.type}")
        if math.prod(cast(MemRefType[Attribute], self.scratch.type).get_shape()) < launch.threads:
            raise VerifyException(
                f"combining {launch.threads} threads needs a shared array of as many elements"
            )


@operation_definition
class ForOp(IRDLOperation):
    """`kernel.for (k = 3) { ... }`: each thread runs the body for every value in turn."""

    name = "kernel.for"
    space = prop_def(SpaceAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, space: Space, body: Region) -> None:
        Operation.__init__(self, properties={"space": SpaceAttr(space)}, regions=[body])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_space(printer, self.space.data)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        return cls(parse_space(parser), _parse_body(parser))

    def verify_(self) -> None:
        check_no_arguments(self.body)
        check_space(self, self.space.names)
        check_fresh(self, self.space.names)


@operation_definition
class WhereOp(IRDLOperation):
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
        return cls(parse_bounds(parser), _parse_body(parser))

    def verify_(self) -> None:
        check_no_arguments(self.body)
        _check_bounds(self, self.where.data, scope_sizes(self))


class Combination:
    """How values are combined over a variable of the block.

    Attributes:
        masks: within a warp each thread takes the value of the thread whose number differs in these bits.
        step: the distance, in threads, of the values that then lie in shared memory.
        count: how many those are; 1 where the warp is all.
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


def combination(launch: LaunchOp, across: str) -> Combination:
    """How a kernel combines values over one of its block's variables."""
    names = launch.block.names
    sizes = [size for _, size in launch.block.data]
    place = names.index(across)
    return Combination(sizes[place], math.prod(sizes[place + 1 :]), launch.threads)


def is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def enclosing_launch(op: Operation) -> LaunchOp | None:
    """The kernel around an operation."""
    return next((scope for scope in scopes(op) if isinstance(scope, LaunchOp)), None)


def _check_bounds(op: IRDLOperation, bounds: Sequence[Bound], sizes: Mapping[str, int]) -> None:
    for bound in bounds:
        check_names(op, bound.index.names, sizes)
    check_bounds(bounds, sizes)


def _parse_body(parser: Parser) -> Region:
    body = parser.parse_region()
    if not body.blocks:
        body.add_block(Block())
    return body


def _parse_array(parser: Parser) -> SSAValue:
    pos = parser.pos
    array = parse_defined_operand(parser)
    if not isinstance(array.type, MemRefType):
        parser.raise_error("expected a node or a shared array", pos, parser.pos)
    return array


KERNEL = Dialect(
    "kernel",
    [LaunchOp, SharedOp, BarrierOp, CopyOp, CombineOp, ForOp, WhereOp],
    [BoundsAttr],
)
