"""Copies of tiles into shared memory, and waits for those that go on meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import IntAttr, MemRefType, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import NodeOp, check_access, check_names, check_space
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
from ocannl.dialects.ir.op_helpers import given, operation_definition, print_parts
from ocannl.dialects.kernel.boxes import Box, find_box
from ocannl.dialects.kernel.gpu import ASYNC_BYTES, VECTOR_BYTES
from ocannl.dialects.kernel.launch import (
    COPY,
    PendingOp,
    SharedOp,
    TogetherOp,
    check_slot,
    check_values,
    enclosing_launch,
)
from ocannl.dialects.kernel.point import Numbered, parse_numbered
from ocannl.dialects.loops import StoreOp, check_fresh
from ocannl.dialects.loops.values import parse_array

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
class CopyOp(TogetherOp):
    """`kernel.copy %w[16*t + i, k] to %s[k, i] over (i = 16, k = 8) where 16*t + i < 100`

    The threads of a block share the points of the space: neighbouring threads take neighbouring points along
    the last variable, or such that banks of shared memory do not conflict. `by 4` is for those along which 4
    neighbours are one access to memory: a thread takes all of them. Barriers before and after are the
    kernel's. Where a bound does not hold, the target gets zero.

    `at (b = 8, h = 7) number 16*t + i` adds variables, those of the point with the number; where there is
    no such point, the target gets zero, too.

    The elements of an `async` copy are visible to the thread after a `kernel.wait`, to others after a
    barrier. A `bulk` copy is such, of a whole tile to a swizzled array: where the hardware copies boxes of
    tensors (TMA), one thread starts it for all, and all can wait for it.
    """

    name = COPY
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
    bulk = opt_prop_def(UnitAttr)

    def __init__(
        self,
        source: tuple[SSAValue, Sequence[Linear]],
        target: tuple[SSAValue, Sequence[Linear]],
        space: Space,
        where: Sequence[Bound] = (),
        *,
        by: int = 1,
        is_async: bool = False,
        is_bulk: bool = False,
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
                asynchronous=UnitAttr() if is_async or is_bulk else None,
                bulk=UnitAttr() if is_bulk else None,
            ),
        )

    @property
    def by(self) -> int:
        """The number of neighbouring elements that a thread copies at a time."""
        return 1 if self.width is None else self.width.data

    @property
    def by_threads(self) -> int:
        """That number if threads copy a `bulk` copy: a bound may come between the neighbours."""
        return self.by if self.fault_of_bounds(self.by) is None else 1

    @property
    def is_async(self) -> bool:
        return self.asynchronous is not None

    @property
    def is_bulk(self) -> bool:
        return self.bulk is not None

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
        print_parts(printer, f" {self._kind}", self.source, map_text(self.source_map.data))
        print_parts(printer, " to ", self.target, map_text(self.target_map.data))
        printer.print_string(f" over {space_text(self.space.data)}")
        if self.at is not None:
            printer.print_string(f" at {self.at}")
        if self.by > 1:
            printer.print_string(f" by {self.by}")
        if self.bounds:
            printer.print_string(f" where {bounds_text(self.bounds)}")

    @property
    def _kind(self) -> str:
        return "bulk " if self.is_bulk else "async " if self.is_async else ""

    @classmethod
    def parse(cls, parser: Parser) -> CopyOp:
        is_bulk = parser.parse_optional_keyword("bulk") is not None
        is_async = is_bulk or parser.parse_optional_keyword("async") is not None
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
        return cls(source, target, space, where, by=by, is_async=is_async, is_bulk=is_bulk, at=at)

    def verify_(self) -> None:
        super().verify_()
        if element_type(self.source) != element_type(self.target):
            raise VerifyException(
                f"copies {element_type(self.source)} into an array of {element_type(self.target)}"
            )
        if not isinstance(self.target.owner, SharedOp):
            raise VerifyException("the threads of a block copy into shared memory")
        check_space(self, self.space.names)
        check_values(self.space.data)
        check_fresh(self, self.space.names)
        sizes, bounds = {**scope_sizes(self), **dict(self.space.data)}, [*scope_bounds(self), *self.bounds]
        check_bounds_of(self, self.bounds, sizes)
        own: dict[str, int] = {}
        if self.at is not None:
            self.at.check(self, sizes)
            own = dict(self.at.space)
        check_access(self, self.source, self.source_map.data, sizes | own, bounds)
        check_access(self, self.target, self.target_map.data, sizes, scope_bounds(self))
        check_slot(self, self.target, self.target_map.data)
        fault = self.fault_of_neighbours(self.by) if not self.is_bulk else self.fault_of_place(self.by)
        if fault is not None:
            raise VerifyException(fault)
        if self.is_async and self.bytes_at_a_time not in ASYNC_BYTES:
            raise VerifyException(
                f"an asynchronous copy moves 4, 8 or 16 bytes at a time, this one {self.bytes_at_a_time}"
            )
        if self.is_bulk:
            self._verify_bulk()

    def _verify_bulk(self) -> None:
        fault = self.fault_of_box()
        if fault is not None:
            raise VerifyException(fault)
        launch = enclosing_launch(self)
        stores = () if launch is None else (op for op in launch.body.walk() if isinstance(op, StoreOp))
        if any(op.node is self.source for op in stores):
            raise VerifyException("a bulk copy reads what its kernel does not write")

    @property
    def box(self) -> Box:
        """The boxes that a bulk copy moves."""
        found = self._found_box()
        assert isinstance(found, Box)
        return found

    def fault_of_box(self) -> str | None:
        """The reason why hardware cannot copy this in bulk, None if it can."""
        if self.at is not None or self.bytes_at_a_time != VECTOR_BYTES:
            return f"a bulk copy moves {VECTOR_BYTES} bytes at a time, of no numbered points"
        if (fault := self.fault_of_place(self.by)) is not None:
            return fault
        found = self._found_box()
        return found if isinstance(found, str) else None

    def _found_box(self) -> Box | str:
        source, target = (self.source, self.source_map.data), (self.target, self.target_map.data)
        return find_box(source, target, self.space.data, self.bounds)

    @property
    def bytes_at_a_time(self) -> int:
        return self.by * element_bytes(self.target)

    def fault_of_neighbours(self, by: int) -> str | None:
        """The reason why threads cannot copy so many elements at a time, None if they can.

        They must be contiguous and aligned in both arrays, and all be inside or outside of each bound.
        """
        return self.fault_of_place(by) or self.fault_of_bounds(by)

    def fault_of_place(self, by: int) -> str | None:
        """The reason why so many elements are not contiguous and aligned."""
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
        return None

    def fault_of_bounds(self, by: int) -> str | None:
        """The bound that comes between so many elements: hardware that copies in bulk minds none."""
        if by == 1:
            return None
        last = self.space.data[-1][0] if self.space.data else ""
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
class WaitOp(PendingOp):
    """`kernel.wait 1`: waits for the thread's own copies, but for those of the last group."""

    name = "kernel.wait"


def check_bounds_of(op: IRDLOperation, bounds: Sequence[Bound], sizes: Mapping[str, int]) -> None:
    for bound in bounds:
        check_names(op, bound.index.names, sizes)
    check_bounds(bounds, sizes)
