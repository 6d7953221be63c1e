"""Exchanges of bytes among the ranks along one axis of a mesh: what engines do, all else is compiled."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.ir.op_helpers import OwnOperation, parse_defined_operand, print_parts
from ocannl.dialects.routine import enclosing_routine

EXCHANGES = ("all_gather", "all_to_all")


class CollectiveBase(OwnOperation):
    """Base of `assign.collective` and `loops.collective`, as in `all_gather %whole from %part over "data"`.

    The target's bytes are rows, one for each rank. By `all_gather`, row `r` is all that rank `r` has in the
    source; by `all_to_all`, on rank `n` it is row `n` of that.
    """

    kind = prop_def(StringAttr)
    mesh = prop_def(StringAttr)
    target = operand_def(MemRefType)
    source = operand_def(MemRefType)

    def __init__(self, kind: str, target: SSAValue, source: SSAValue, mesh: str) -> None:
        properties = {"kind": StringAttr(kind), "mesh": StringAttr(mesh)}
        Operation.__init__(self, operands=[target, source], properties=properties)

    @property
    def nodes(self) -> list[SSAValue]:
        """The nodes that are in use while it runs."""
        return [self.target, self.source]

    @property
    def written(self) -> list[SSAValue]:
        """The nodes that it writes: the target, all of it."""
        return [self.target]

    def print(self, printer: Printer) -> None:
        parts = (self.target, " from ", self.source, " over ", self.mesh)
        print_parts(printer, f" {self.kind.data} ", *parts)

    @classmethod
    def parse(cls, parser: Parser):
        kind = parser.parse_keyword_in(EXCHANGES, " as the exchange")
        target = parse_defined_operand(parser)
        parser.parse_keyword("from")
        source = parse_defined_operand(parser)
        parser.parse_keyword("over")
        return cls(kind, target, source, parser.parse_str_literal(" naming a mesh axis"))

    def verify_(self) -> None:
        routine = enclosing_routine(self)
        if self.kind.data not in EXCHANGES:
            raise VerifyException(f"unknown exchange `{self.kind.data}`, expected one of {EXCHANGES}")
        if self.target is self.source:
            raise VerifyException("the target is another node than the source")
        if routine is None:
            return
        if self.mesh.data not in routine.mesh_sizes:
            raise VerifyException(f'the routine\'s mesh has no axis "{self.mesh.data}"')
        ranks, cells = routine.mesh_sizes[self.mesh.data], math.prod(memref_shape(self.source))
        gathered = cells if self.kind.data == "all_to_all" else cells * ranks
        if gathered % ranks or element_type(self.source) != element_type(self.target):
            raise VerifyException(f"{self.source.type} has no row of numbers for each of {ranks} ranks")
        if math.prod(memref_shape(self.target)) != gathered:
            raise VerifyException(f"the target has {gathered} numbers, found {self.target.type}")
