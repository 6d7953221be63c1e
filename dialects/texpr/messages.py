"""Messages between the stages of a mesh: what one rank along an axis sends to another."""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.op_helpers import (
    OwnOperation,
    operation_definition,
    parse_defined_operand,
    print_parts,
)
from ocannl.dialects.routine import enclosing_routine
from ocannl.dialects.texpr.apply import ApplyOp
from ocannl.dialects.texpr.tensor_op import TensorOp, parse_result_type
from ocannl.dialects.texpr.tensor_type import TensorType


def parse_count(parser: Parser) -> int:
    return parser.parse_integer(allow_boolean=False, allow_negative=False)


def _check_peer(op: Operation, mesh: str, peer: int) -> None:
    routine = enclosing_routine(op)
    if routine is None:
        return
    if mesh not in routine.mesh_sizes:
        raise VerifyException(f'the routine\'s mesh has no axis "{mesh}"')
    ranks = routine.mesh_sizes[mesh]
    if peer >= ranks:
        raise VerifyException(f'there are {ranks} ranks along "{mesh}", and none is number {peer}')


@operation_definition
class SendOp(OwnOperation):
    """Code that sends a value, and does not wait until it is there: `texpr.send %x as 3 to 1 over "stage"`.

    The other rank along the axis receives it by its number.
    """

    name = "texpr.send"
    tensor = operand_def(TensorType)
    number = prop_def(IntAttr)
    peer = prop_def(IntAttr)
    mesh = prop_def(StringAttr)

    def __init__(self, tensor: SSAValue, number: int, peer: int, mesh: str) -> None:
        properties = {"number": IntAttr(number), "peer": IntAttr(peer), "mesh": StringAttr(mesh)}
        Operation.__init__(self, operands=[tensor], properties=properties)

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.tensor, f" as {self.number.data} to {self.peer.data} over ", self.mesh)

    @classmethod
    def parse(cls, parser: Parser) -> SendOp:
        tensor = parse_defined_operand(parser)
        parser.parse_keyword("as")
        number = parse_count(parser)
        parser.parse_keyword("to")
        peer = parse_count(parser)
        parser.parse_keyword("over")
        return cls(tensor, number, peer, parser.parse_str_literal(" naming a mesh axis"))

    def verify_(self) -> None:
        _check_peer(self, self.mesh.data, self.peer.data)


@operation_definition
class ReceiveOp(TensorOp):
    """A value that another rank along an axis has sent under a number: `texpr.receive 3 from 0 over "stage"`.
    Where it is computed, it is waited for.
    """

    name = "texpr.receive"
    number = prop_def(IntAttr)
    peer = prop_def(IntAttr)
    mesh = prop_def(StringAttr)

    def __init__(self, number: int, peer: int, mesh: str, type: TensorType) -> None:
        properties = {"number": IntAttr(number), "peer": IntAttr(peer), "mesh": StringAttr(mesh)}
        Operation.__init__(self, properties=properties, result_types=[type])

    def print(self, printer: Printer) -> None:
        print_parts(printer, f" {self.number.data} from {self.peer.data} over ", self.mesh)
        self._print_type(printer)

    @classmethod
    def parse(cls, parser: Parser) -> ReceiveOp:
        number = parse_count(parser)
        parser.parse_keyword("from")
        peer = parse_count(parser)
        parser.parse_keyword("over")
        mesh = parser.parse_str_literal(" naming a mesh axis")
        return cls(number, peer, mesh, parse_result_type(parser))

    def verify_(self) -> None:
        _check_peer(self, self.mesh.data, self.peer.data)


@operation_definition
class ComputePartOp(OwnOperation):
    """Code that computes one part of an operation of several, `texpr.compute_part %sum 2`: parts are computed
    in order, and the operation is computed with its last one.
    """

    name = "texpr.compute_part"
    tensor = operand_def(TensorType)
    number = prop_def(IntAttr)

    def __init__(self, tensor: SSAValue, number: int) -> None:
        Operation.__init__(self, operands=[tensor], properties={"number": IntAttr(number)})

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.tensor, f" {self.number.data}")

    @classmethod
    def parse(cls, parser: Parser) -> ComputePartOp:
        return cls(parse_defined_operand(parser), parse_count(parser))

    def verify_(self) -> None:
        op = self.tensor.owner
        if not isinstance(op, ApplyOp) or not op.is_projected:
            raise VerifyException("parts are those of an operation with index maps")
        if self.number.data >= len(op.parts):
            found = f"{len(op.parts)} parts, and none of number {self.number.data}"
            raise VerifyException(f"the operation has {found}")


MESSAGES = (SendOp, ReceiveOp, ComputePartOp)
