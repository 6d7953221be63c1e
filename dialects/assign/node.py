"""Nodes: named arrays with their memory modes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, MemRefType, NoneAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import opt_prop_def, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from ocannl.dialects.index.memref import is_ring, memory_space
from ocannl.dialects.index.splits import SplitAxis, SplitsAttr, check_splits, parse_splits, splits_text
from ocannl.dialects.ir.late_locations import located_late
from ocannl.dialects.ir.op_helpers import OwnOperation, fill, given, operation_definition, print_parts, string
from ocannl.dialects.routine import enclosing_routine
from ocannl.dialects.scalar.arrays import check_array

CONSTANT = "constant"
VIRTUAL = "virtual"
OWN_MEMORY = ("on_device", CONSTANT)
KEPT = "kept"
LARGEST_SIZE = 2**63 - 1
MEMORY_MODES = (VIRTUAL, "local", *OWN_MEMORY, KEPT)


@located_late
@operation_definition
class NodeOp(OwnOperation):
    """Declares a tensor node: a named array, its memory mode and why it has that mode.

    `virtual` nodes have no memory, `local` ones live inside one run of the routine, `on_device` ones persist
    across runs, `constant` ones are never written by a routine. `kept` ones are copies of memory that the
    routine does not write: the nest that writes one runs only when that memory has changed. `offset` is a
    local node's place in the routine's arena, in bytes. One that is `always_inline` has to become virtual.
    `splits` say along which axes the ranks of a mesh share what persists.
    """

    name = "assign.node"
    label = prop_def(StringAttr)
    mode = prop_def(StringAttr)
    why = prop_def(StringAttr)
    offset = opt_prop_def(IntAttr)
    always_inline = opt_prop_def(UnitAttr)
    splits = opt_prop_def(SplitsAttr)
    result = result_def(MemRefType)

    def __init__(
        self,
        label: str,
        mode: str,
        why: str,
        type: MemRefType[Attribute],
        offset: int | None = None,
        *,
        always_inline: bool = False,
        splits: Sequence[SplitAxis] = (),
    ) -> None:
        properties = given(
            label=StringAttr(label),
            mode=string(mode),
            why=string(why),
            offset=None if offset is None else IntAttr(offset),
            always_inline=UnitAttr() if always_inline else None,
            splits=SplitsAttr(tuple(splits)) if splits else None,
        )
        fill(self, (), properties, [type])

    def set_mode(self, mode: str, why: str) -> None:
        """Gives a node another mode, without its place in an arena."""
        self.properties = given(
            label=self.label, mode=StringAttr(mode), why=StringAttr(why), splits=self.splits
        )

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.label, f" {self.mode.data}")
        if self.offset is not None:
            printer.print_string(f" at {self.offset.data}")
        if self.always_inline is not None:
            printer.print_string(" always_inline")
        if self.splits is not None:
            printer.print_string(splits_text(self.splits.data))
        if self.why.data:
            print_parts(printer, " because ", self.why)
        print_parts(printer, " : ", self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> NodeOp:
        label = parser.parse_str_literal(" naming the node")
        mode = parser.parse_keyword_in(MEMORY_MODES, " as the memory mode")
        offset = None
        if parser.parse_optional_keyword("at"):
            offset = parser.parse_integer(allow_boolean=False, allow_negative=False)
        always_inline = parser.parse_optional_keyword("always_inline") is not None
        splits = parse_splits(parser)
        why = parser.parse_str_literal() if parser.parse_optional_keyword("because") else ""
        parser.parse_punctuation(":")
        pos = parser.pos
        type = parser.parse_type()
        if not isa(type, MemRefType[Attribute]):
            parser.raise_error("a node has a memref type", pos, parser.pos)
        return cls(label, mode, why, type, offset, always_inline=always_inline, splits=splits)

    def verify_(self) -> None:
        if self.mode.data not in MEMORY_MODES:
            raise VerifyException(f"unknown memory mode `{self.mode.data}`, expected one of {MEMORY_MODES}")
        if any(size < 0 for size in self.result.type.get_shape()):
            raise VerifyException("a node's sizes are static")
        if any(size > LARGEST_SIZE for size in self.result.type.get_shape()):
            raise VerifyException(f"a node's sizes are at most {LARGEST_SIZE}")
        check_array(self.result.type, "a node")
        if is_ring(self.result):
            raise VerifyException("a ring is a shared array, not a node")
        if not isinstance(memory_space(self.result), NoneAttr | None):
            raise VerifyException(f"a node has no memory space, found {memory_space(self.result)}")
        if self.offset is not None and self.mode.data != "local":
            raise VerifyException(f"only a local node has a place in the arena, this one is {self.mode.data}")
        if self.always_inline is not None and self.mode.data != "local":
            raise VerifyException(f"only a local node is inlined, this one is {self.mode.data}")
        routine = enclosing_routine(self)
        if self.splits is not None and routine is not None:
            check_splits(self.result.type.get_shape(), self.splits.data, routine.mesh_sizes)
        if self.offset is not None and self.offset.data < 0:
            raise VerifyException(f"a place in the arena is not negative, found {self.offset.data}")


def check_writable(node: SSAValue) -> None:
    """Raises `VerifyException` for a node that no routine writes, or that has no memory."""
    owner = node.owner
    if isinstance(owner, NodeOp) and owner.mode.data == CONSTANT:
        raise VerifyException(f"{owner.label.data!r} is {CONSTANT}, which no routine writes")
    if isinstance(owner, NodeOp) and owner.mode.data == VIRTUAL:
        raise VerifyException(
            f"{owner.label.data!r} is {VIRTUAL}, without memory to write: a node whose values are computed "
            "where they are used is declared `local always_inline`"
        )
