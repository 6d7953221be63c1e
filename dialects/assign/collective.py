"""Exchanges of bytes among the ranks along one axis of a mesh: what engines do, all else is compiled."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, MemRefType, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import opt_prop_def, prop_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign.node import check_writable
from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.ir.op_helpers import OwnOperation, given, parse_defined_operand, print_parts
from ocannl.dialects.routine import enclosing_routine

EXCHANGES = ("all_gather", "all_to_all")
MESSAGES = ("send", "receive")
"""The exchanges of two ranks. A message has a number, by which it is received."""
START, WAIT = "start", "wait"
PHASES = (START, WAIT)
"""The two parts of an exchange, between which ranks compute."""


class CollectiveBase(OwnOperation):
    """Base of `assign.collective` and `loops.collective`, as in `all_gather %whole from %part over "data"`.

    The target's bytes are rows, one for each rank. By `all_gather`, row `r` is all that rank `r` has in the
    source; by `all_to_all`, on rank `n` it is row `n` of that. Messages go from one rank to another,
    `send %x as 3 to 1 over "stage"` and `receive %x as 3 from 0 over "stage"`: these have a source, or a
    target, alone. A bucket, `... over "data" sums ("a", "b")`, has what several sums over ranks need,
    one with `gathers ("a", "b")` what several gathers of parts do.

    `start all_gather ...` begins an exchange, and `wait all_gather ...` of the same nodes waits for its end:
    between them, nothing touches the target or writes the source.
    """

    kind = prop_def(StringAttr)
    mesh = prop_def(StringAttr)
    summed = opt_prop_def(ArrayAttr[StringAttr])
    gathered = opt_prop_def(ArrayAttr[StringAttr])
    message = opt_prop_def(ArrayAttr[IntAttr])
    phase = opt_prop_def(StringAttr)
    arrays = var_operand_def(MemRefType)

    def __init__(
        self,
        kind: str,
        arrays: Sequence[SSAValue],
        mesh: str,
        message: tuple[int, int] | None = None,
        sums: Sequence[str] = (),
        phase: str | None = None,
        gathers: Sequence[str] = (),
    ) -> None:
        properties: dict[str, Attribute] = {"kind": StringAttr(kind), "mesh": StringAttr(mesh)}
        properties |= given(phase=None if phase is None else StringAttr(phase))
        for name, joined in (("summed", sums), ("gathered", gathers)):
            if joined:
                properties[name] = ArrayAttr(map(StringAttr, joined))
        if message is not None:
            properties["message"] = ArrayAttr([IntAttr(number) for number in message])
        Operation.__init__(self, operands=[*arrays], properties=properties)

    @property
    def nodes(self) -> list[SSAValue]:
        """The nodes that are in use while it runs."""
        return [*self.arrays]

    @property
    def written(self) -> list[SSAValue]:
        """The nodes that it writes, all of them: the target."""
        return [] if self.kind.data == "send" else [self.arrays[0]]

    @property
    def read(self) -> list[SSAValue]:
        """The nodes that it reads: the source."""
        return [] if self.kind.data == "receive" else [self.arrays[-1]]

    @property
    def moved(self) -> SSAValue:
        """The node whose bytes it moves: the source, or of a message that is received the target."""
        return self.arrays[-1]

    @property
    def number_and_peer(self) -> tuple[int, int] | None:
        """The number of a message, and the rank along the axis to or from which it goes."""
        if self.message is None:
            return None
        number, peer = self.message.data
        return number.data, peer.data

    @property
    def is_wait(self) -> bool:
        """Whether it waits for what was started before, and moves nothing itself."""
        return self.phase is not None and self.phase.data == WAIT

    @property
    def sums(self) -> tuple[str, ...]:
        """The names of the sums for which a bucket is exchanged."""
        return () if self.summed is None else tuple([name.data for name in self.summed])

    @property
    def gathers(self) -> tuple[str, ...]:
        """The names of the wholes of which a bucket has the parts."""
        return () if self.gathered is None else tuple([name.data for name in self.gathered])

    @property
    def head(self) -> str:
        """The words before the nodes: `start all_gather`."""
        return self.kind.data if self.phase is None else f"{self.phase.data} {self.kind.data}"

    def print(self, printer: Printer) -> None:
        if self.number_and_peer is not None:
            number, peer = self.number_and_peer
            way = "to" if self.kind.data == "send" else "from"
            end = f" as {number} {way} {peer} over "
            print_parts(printer, f" {self.kind.data} ", self.arrays[0], end, self.mesh)
            return
        parts = (self.arrays[0], " from ", self.arrays[1], " over ", self.mesh)
        print_parts(printer, f" {self.head} ", *parts)
        for keyword, names in (("sums", self.summed), ("gathers", self.gathered)):
            if names is not None:
                printer.print_string(f" {keyword} (")
                printer.print_list(names, printer.print_attribute)
                printer.print_string(")")

    @classmethod
    def parse(cls, parser: Parser):
        phase = next((own for own in PHASES if parser.parse_optional_keyword(own)), None)
        kinds = (*EXCHANGES, *MESSAGES) if phase is None else EXCHANGES
        kind = parser.parse_keyword_in(kinds, " as the exchange")
        target = parse_defined_operand(parser)
        if kind in MESSAGES:
            parser.parse_keyword("as")
            number = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_keyword("to" if kind == "send" else "from")
            peer = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_keyword("over")
            mesh = parser.parse_str_literal(" naming a mesh axis")
            return cls(kind, [target], mesh, (number, peer))
        parser.parse_keyword("from")
        source = parse_defined_operand(parser)
        parser.parse_keyword("over")
        mesh = parser.parse_str_literal(" naming a mesh axis")
        sums, gathers = (_parse_names(parser, keyword) for keyword in ("sums", "gathers"))
        return cls(kind, [target, source], mesh, sums=sums, phase=phase, gathers=gathers)

    def verify_(self) -> None:
        routine = enclosing_routine(self)
        kinds = EXCHANGES if self.message is None else MESSAGES
        if self.kind.data not in kinds:
            raise VerifyException(f"unknown exchange `{self.kind.data}`, expected one of {kinds}")
        if len(self.arrays) != (2 if self.message is None else 1):
            raise VerifyException("a message has one node, other exchanges have two")
        if len({*self.arrays}) != len(self.arrays):
            raise VerifyException("the target is another node than the source")
        for node in self.written:
            check_writable(node)
        if routine is None:
            return
        if self.mesh.data not in routine.mesh_sizes:
            raise VerifyException(f'the routine\'s mesh has no axis "{self.mesh.data}"')
        ranks = routine.mesh_sizes[self.mesh.data]
        if self.number_and_peer is not None:
            if self.number_and_peer[1] >= ranks:
                raise VerifyException(f'there are {ranks} ranks along "{self.mesh.data}"')
            return
        target, source = self.arrays
        cells = math.prod(memref_shape(source))
        gathered = cells if self.kind.data == "all_to_all" else cells * ranks
        if gathered % ranks or element_type(source) != element_type(target):
            raise VerifyException(f"{source.type} has no row of numbers for each of {ranks} ranks")
        if math.prod(memref_shape(target)) != gathered:
            raise VerifyException(f"the target has {gathered} numbers, found {target.type}")


def _parse_names(parser: Parser, keyword: str) -> Sequence[str]:
    if not parser.parse_optional_keyword(keyword):
        return ()
    return parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: parser.parse_str_literal(f" naming one of the {keyword}")
    )
