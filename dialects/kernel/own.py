"""Arrays of a thread, in its registers."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import FixedBitwidthType, MemRefType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.op_helpers import operation_definition, print_parts
from ocannl.dialects.kernel.launch import OWN, LaunchOp, parse_array_type
from ocannl.dialects.loops import LoadOp, ReduceOp, StoreOp
from ocannl.dialects.scalar.arrays import check_array


@operation_definition
class OwnOp(IRDLOperation):
    """`kernel.own memref<4x2xf32>`: an array of each thread, with no values at first.

    It is indexed by register variables, so that its elements are registers, also those that live from one
    turn of a loop to the next; and by variables of reductions, which have no jumps then.
    """

    name = OWN
    result = result_def(MemRefType)

    def __init__(self, type: MemRefType[Attribute]) -> None:
        Operation.__init__(self, result_types=[type])

    @property
    def bytes(self) -> int:
        """Those of a thread."""
        type = self.result.type
        assert isinstance(type.element_type, FixedBitwidthType)
        return math.prod(type.get_shape()) * type.element_type.size

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> OwnOp:
        return cls(parse_array_type(parser, "an array of a thread"))

    def verify_(self) -> None:
        launch, type = self.parent_op(), self.result.type
        if not isinstance(launch, LaunchOp | None):
            raise VerifyException("arrays of threads stand directly in a kernel")
        check_array(type, "an array of a thread")
        if any(size < 1 for size in type.get_shape()):
            raise VerifyException("an array of a thread has static sizes")
        registers = set[str]() if launch is None else set(launch.registers.names)
        for use in self.result.uses:
            op = use.operation
            if not isinstance(op, LoadOp | StoreOp):
                raise VerifyException(f"a thread loads from and stores to its array, found `{op.name}`")
            for name in [name for index in op.indices.data for name in index.names]:
                if name not in registers and name not in reduced_around(op):
                    raise VerifyException(f"registers have no addresses: `{name}` is no register variable")


def reduced_around(op: Operation) -> set[str]:
    """The variables of the reductions around an operation."""
    found, parent = set[str](), op.parent_op()
    while isinstance(parent, ReduceOp):
        found.update(parent.space.names)
        parent = parent.parent_op()
    return found


def goes_through_registers(op: ReduceOp) -> bool:
    """Whether the variables of a reduction index an array of a thread."""
    own = set(op.space.names)
    return any(
        isinstance(inner, LoadOp)
        and isinstance(inner.node.owner, OwnOp)
        and any(not own.isdisjoint(index.names) for index in inner.indices.data)
        for inner in op.body.walk()
    )
