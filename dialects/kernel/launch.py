"""Kernels, their shared arrays, and checks of operations in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Self

from xdsl.dialects.builtin import FixedBitwidthType, IntAttr, MemRefType, NoneAttr, StringAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import prop_def, region_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from ocannl.dialects.assign import check_space
from ocannl.dialects.index.bounds import Bound, clashing_within
from ocannl.dialects.index.linear import (
    POSITION,
    Linear,
    Map,
    MapAttr,
    Space,
    SpaceAttr,
    parse_space,
    space_text,
)
from ocannl.dialects.index.memref import RING, SWIZZLED, element_bytes, is_ring, is_swizzled, memref_shape
from ocannl.dialects.index.scopes import scope_bounds, scope_sizes, scopes
from ocannl.dialects.ir.op_helpers import OwnOperation, operation_definition, print_parts
from ocannl.dialects.kernel.gpu import (
    GROUP,
    MBARRIER_BYTES,
    MOST_SHARED_BYTES,
    MOST_THREADS,
    SHARED_ALIGNMENT,
    SWIZZLED_BYTES,
    SWIZZLED_ROWS,
)
from ocannl.dialects.loops import FuncOp, LoadOp, StoreOp
from ocannl.dialects.loops.steps import StepOp, check_computes
from ocannl.dialects.loops.values import static_part
from ocannl.dialects.routine import check_no_arguments, parse_body
from ocannl.dialects.scalar.arrays import check_array
from ocannl.dialects.scalar.small_arithmetic import check_no_small_arithmetic

# The operation at which the threads of a block wait for each other.
BARRIER = "kernel.barrier"
# The operation whose body runs in the threads in which a value holds.
IF = "kernel.if"
# The operation whose body runs at the point of a space that has a number.
POINT = "kernel.point"
# The operation that copies into shared memory.
COPY = "kernel.copy"
# The operation that declares an array of each thread.
OWN = "kernel.own"
# The operation whose bodies are those of different warps.
ROLES = "kernel.roles"


def check_values(space: Sequence[tuple[str, int]]) -> None:
    """Raises `VerifyException` where a variable has no value: a number has no digits in such a space."""
    if any(size < 1 for _, size in space):
        raise VerifyException("a variable of a kernel has at least one value")


@operation_definition
class LaunchOp(StepOp):
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
        """The threads of a block that its variables tell apart."""
        return math.prod(size for _, size in self.block.data)

    @property
    def has_roles(self) -> bool:
        return any(op.name == ROLES for op in self.body.block.ops)

    @property
    def all_threads(self) -> int:
        """Those, and the warpgroup that copies for them where threads have roles."""
        return self.threads + GROUP * self.has_roles

    @property
    def blocks(self) -> int:
        return math.prod(size for _, size in self.grid.data)

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a block."""
        arrays = sum(op.bytes for op in self.body.block.ops if isinstance(op, SharedOp))
        return arrays + rounded(MBARRIER_BYTES * self.mbarriers)

    @property
    def mbarriers(self) -> int:
        """The barriers in memory by which a block waits for bulk copies: one for each array of a ring, and
        another one for its release where threads have roles.
        """
        rings = [op.operands[1] for op in self.body.walk() if op.name == COPY and "bulk" in op.properties]
        arrays = max((memref_shape(ring)[0] if is_ring(ring) else 1 for ring in rings), default=0)
        return arrays * (1 + self.has_roles)

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.label)
        for name, space in (("grid", self.grid), ("block", self.block), ("registers", self.registers)):
            if space.data:
                printer.print_string(f" {name} {space_text(space.data)}")
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> LaunchOp:
        label = parser.parse_str_literal(" naming the kernel")
        grid, block, registers = (
            parse_space(parser) if parser.parse_optional_keyword(name) else ()
            for name in ("grid", "block", "registers")
        )
        return cls(label, grid, block, registers, parse_body(parser))

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), FuncOp | None):
            raise VerifyException("a kernel stands in a loops.func")
        check_no_arguments(self.body)
        check_no_small_arithmetic(self)
        check_computes(self, "a kernel", own_dialect="kernel")
        spaces = [*self.grid.data, *self.block.data, *self.registers.data]
        names = [name for name, _ in spaces]
        check_space(self, names)
        if len(set(names)) != len(names):
            raise VerifyException("an iteration variable is declared twice")
        check_values(spaces)
        if self.all_threads > MOST_THREADS:
            raise VerifyException(
                f"a block has at most {MOST_THREADS} threads, this one has {self.all_threads}"
            )
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
            if isinstance(op, LoadOp | StoreOp):
                check_slot(op, op.node, op.indices.data)

    def _verify_store(self, store: StoreOp) -> None:
        """Checks for races: different blocks store to different elements, and so do the threads of a block
        between barriers. Stores to shared memory and to registers are not checked, nor those at positions
        found at run time where a value decides which threads store.
        """
        owner = store.node.owner
        is_own = isinstance(owner, SharedOp) or (isinstance(owner, Operation) and owner.name == OWN)
        if is_own or (store.positions and any(map(_is_if, scopes(store)))):
            return
        sizes, bounds = scope_sizes(store), scope_bounds(store)
        turns = {name for scope in scopes(store) for name in _turns(scope)}
        for space, free in ((self.grid, set[str]()), (self.block, turns)):
            known = {name: size for name, size in sizes.items() if name not in free}
            clashing = clashing_within(_determined_by(store, known, bounds), known, bounds)
            shared = [name for name, _ in space.data if name in clashing]
            if shared:
                raise VerifyException(f"threads that differ in `{shared[0]}` store to the same cell")


def _determined_by(store: StoreOp, sizes: Mapping[str, int], bounds: Sequence[Bound]) -> Map:
    """All that the place of a store determines: indices, and numbers of points that follow from them."""
    found = static_part(store)
    for scope in scopes(store):
        if scope.name == POINT and not clashing_within(found, sizes, bounds) & set(_variables(scope)):
            found = (*found, *_numbers(scope))
    return found


def _variables(scope: Operation) -> tuple[str, ...]:
    return tuple(name for p in scope.properties.values() if isinstance(p, SpaceAttr) for name in p.names)


def rounded(size: int) -> int:
    """So many bytes, up to where the next shared array may begin."""
    return -(-size // SHARED_ALIGNMENT) * SHARED_ALIGNMENT


def parse_array_type(parser: Parser, array: str) -> MemRefType[Attribute]:
    """The type of an array of a kernel. Raises `ParseError` for one that is not a memref."""
    pos = parser.pos
    type = parser.parse_type()
    if not isa(type, MemRefType[Attribute]):
        parser.raise_error(f"{array} has a memref type", pos, parser.pos)
    return type


@operation_definition
class SharedOp(OwnOperation):
    """`kernel.shared memref<16x64xf32>`: an array of the block, with no values at first.

    `memref<3x16x64xf32, "ring">` is a ring of three arrays: the first index counts around. `"swizzled"` and
    `"swizzled ring"` are those whose rows lie in memory as tensor cores read them without bank conflicts.
    """

    name = "kernel.shared"
    result = result_def(MemRefType)

    def __init__(self, type: MemRefType[Attribute]) -> None:
        Operation.__init__(self, result_types=[type])

    @property
    def bytes(self) -> int:
        """The bytes that it takes, up to the next array."""
        type = self.result.type
        assert isinstance(type.element_type, FixedBitwidthType)
        size = math.prod(type.get_shape()) * type.element_type.size
        return rounded(size)

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> SharedOp:
        return cls(parse_array_type(parser, "a shared array"))

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), LaunchOp | None):
            raise VerifyException("shared arrays stand directly in a kernel")
        type = self.result.type
        check_array(type, "a shared array")
        if any(size < 0 for size in type.get_shape()):
            raise VerifyException("a shared array has static sizes")
        if is_ring(self.result) and 0 in type.get_shape()[:1]:
            raise VerifyException("a ring has at least one array")
        if not isinstance(type.memory_space, NoneAttr | None) and not (
            is_ring(self.result) or is_swizzled(self.result)
        ):
            raise VerifyException(
                f"a shared array is plain, {SWIZZLED}, or a {RING} of such, found {type.memory_space}"
            )
        if is_swizzled(self.result):
            self._verify_swizzled(type.get_shape()[is_ring(self.result) :])

    def _verify_swizzled(self, shape: Sequence[int]) -> None:
        bytes = shape[-1] * element_bytes(self.result) if len(shape) == 2 else 1
        if bytes % SWIZZLED_BYTES or shape[0] % SWIZZLED_ROWS:
            raise VerifyException(
                f"a swizzled array has a multiple of {SWIZZLED_ROWS} rows, "
                f"each with a multiple of {SWIZZLED_BYTES} bytes"
            )


class TogetherOp(OwnOperation):
    """Base of operations that synchronize a block: no bound around them may depend on the thread."""

    def verify_(self) -> None:
        if any(map(_is_if, scopes(self))):
            raise VerifyException(f"all threads of a block come here together, but not in `{IF}`")
        divergent = {name for scope in scopes(self) for name in thread_names(scope)}
        for bound in scope_bounds(self):
            for name in bound.index.names:
                if name in divergent:
                    raise VerifyException(
                        f"all threads of a block come here together, but `{bound}` depends on `{name}`"
                    )
        for number in (n for scope in scopes(self) if scope.name == POINT for n in _numbers(scope)):
            for name in divergent & set(number.names):
                raise VerifyException(
                    f"all threads of a block come here together, but `{number}` depends on `{name}`"
                )


class PendingOp(TogetherOp):
    """Base of waits for all groups of a thread but for the last ones, which are written as their number."""

    pending = prop_def(IntAttr)

    def __init__(self, pending: int) -> None:
        Operation.__init__(self, properties={"pending": IntAttr(pending)})

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.pending.data}")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cls(parser.parse_integer(allow_boolean=False, allow_negative=False))

    def verify_(self) -> None:
        super().verify_()
        if self.pending.data < 0:
            raise VerifyException("the groups that are not waited for are counted from 0 on")


def _numbers(scope: Operation) -> tuple[Linear, ...]:
    """The index expressions among the properties of an operation."""
    return tuple(n for p in scope.properties.values() if isinstance(p, MapAttr) for n in p.data)


def _is_if(scope: Operation) -> bool:
    return scope.name == IF


def _turns(scope: Operation) -> tuple[str, ...]:
    """The variables of a loop that has a barrier in its body, so that threads begin each iteration
    together.
    """
    if isinstance(scope, LaunchOp) or scope.name == POINT:
        return ()
    return _variables(scope) if any(op.name == BARRIER for op in scope.regions[0].block.ops) else ()


def thread_names(scope: Operation) -> list[str]:
    """The variables that are not the same in all threads of a kernel."""
    return [*scope.block.names, *scope.registers.names] if isinstance(scope, LaunchOp) else []


def check_slot(op: Operation, array: SSAValue, indices: Map) -> None:
    """Checks that all threads use the same buffer of a ring."""
    launch = enclosing_launch(op)
    if launch is None or not is_ring(array):
        return
    for name in [name for index in indices[:1] for name in index.names]:
        if name in thread_names(launch) or name.startswith(POSITION):
            raise VerifyException(f"threads would use different arrays of a ring: `{indices[0]}`")


def enclosing_launch(op: Operation) -> LaunchOp | None:
    """The kernel around an operation."""
    return next((scope for scope in scopes(op) if isinstance(scope, LaunchOp)), None)
