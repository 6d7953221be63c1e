"""Stages of rings: arrays that the producer of a block fills, and its consumers use."""

from __future__ import annotations

from typing import ClassVar, Self

from xdsl.ir import Operation, Region
from xdsl.irdl import prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import check_names
from ocannl.dialects.index.linear import Linear, MapAttr, only_index, parse_linear
from ocannl.dialects.index.memref import is_ring
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.ir.op_helpers import operation_definition
from ocannl.dialects.kernel.copies import CopyOp
from ocannl.dialects.kernel.launch import ROLES, TogetherOp, enclosing_launch, thread_names
from ocannl.dialects.routine import check_no_arguments, parse_body

PRODUCER, CONSUMER = "producer", "consumer"


def role_of(op: Operation) -> str | None:
    """The role that an operation is part of; None outside of roles."""
    while (parent := op.parent_op()) is not None and parent.name != ROLES:
        op = parent
    return None if parent is None else PRODUCER if op.parent_region() is parent.regions[0] else CONSUMER


class StageOp(TogetherOp):
    """Base of operations of a stage, which is written as its number. Stages are counted from 0 on; a ring has
    the arrays of as many, and that of a stage is the one with its number, counted around.
    """

    ROLE: ClassVar[str] = CONSUMER
    number = prop_def(MapAttr)

    @property
    def stage(self) -> Linear:
        return only_index(self.number.data)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.stage}")

    def verify_(self) -> None:
        super().verify_()
        check_names(self, self.stage.names, scope_sizes(self))
        launch = enclosing_launch(self)
        if launch is None:
            return
        if role_of(self) != self.ROLE:
            raise VerifyException(f"it stands in the {self.ROLE} of `{ROLES}`")
        for name in set(self.stage.names) & set(thread_names(launch)):
            raise VerifyException(
                f"all threads come to the same stage, but `{self.stage}` depends on `{name}`"
            )


@operation_definition
class FillOp(StageOp):
    """`kernel.fill n { ... }`: bulk copies fill the arrays of a stage, once consumers have released those of
    the stage that had them before.
    """

    name = "kernel.fill"
    ROLE: ClassVar[str] = PRODUCER
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, stage: Linear, body: Region) -> None:
        Operation.__init__(self, properties={"number": MapAttr((stage,))}, regions=[body])

    @property
    def copies(self) -> list[CopyOp]:
        return [op for op in self.body.block.ops if isinstance(op, CopyOp)]

    def print(self, printer: Printer) -> None:
        super().print(printer)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> FillOp:
        return cls(parse_linear(parser), parse_body(parser))

    def verify_(self) -> None:
        super().verify_()
        check_no_arguments(self.body)
        copies = self.copies
        if not copies or len(copies) < len(self.body.block.ops) or not all(op.is_bulk for op in copies):
            raise VerifyException("a stage is filled by bulk copies, and nothing else")
        for op in copies:
            if not is_ring(op.target) or op.target_map.data[0] != self.stage:
                raise VerifyException(f"a copy goes to another array than that of stage `{self.stage}`")
        if len({op.target for op in copies}) < len(copies):
            raise VerifyException("an array of a stage is filled twice")


class NumberOp(StageOp):
    """Base of operations of a stage without a body."""

    def __init__(self, stage: Linear) -> None:
        Operation.__init__(self, properties={"number": MapAttr((stage,))})

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cls(parse_linear(parser))


@operation_definition
class AwaitOp(NumberOp):
    """`kernel.await n`: waits until the arrays of a stage are filled."""

    name = "kernel.await"


@operation_definition
class ReleaseOp(NumberOp):
    """`kernel.release n`: the thread is done with the arrays of a stage; when all are, they may be filled
    again.
    """

    name = "kernel.release"
