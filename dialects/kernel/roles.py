"""Roles of the threads of a block: some copy, and others compute (warp specialization).

A producer fills the stages of rings, and consumers use them. No barrier of the block is needed meanwhile: at
two barriers in memory for each stage the one side waits for the other, so that neither stands still where the
other one has to wait for something else.

Bauer, Cook and Khailany, "CudaDMA: optimizing GPU memory bandwidth via warp specialization", 2011
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.ir.op_helpers import OwnOperation, operation_definition
from ocannl.dialects.kernel.copies import CommitOp, CopyOp, WaitOp
from ocannl.dialects.kernel.gpu import (
    GROUP,
    LEAST_ROLE_REGISTERS,
    MOST_ROLE_REGISTERS,
    REGISTERS_AT_A_TIME,
    registers_at_start,
)
from ocannl.dialects.kernel.launch import ROLES, LaunchOp
from ocannl.dialects.kernel.protocol import check_protocol
from ocannl.dialects.kernel.stages import CONSUMER, PRODUCER, FillOp, StageOp, role_of
from ocannl.dialects.routine import check_no_arguments, parse_body


@operation_definition
class RolesOp(OwnOperation):
    """`kernel.roles producer registers 40 { ... } consumer registers 232 { ... }`

    The consumers are the threads that the variables of the block tell apart. The producer is a warpgroup
    beside them, of which one warp runs the body. A role gives registers of its threads back, or takes more,
    when it begins (`setmaxnreg` of PTX).
    """

    name = ROLES
    registers = prop_def(ArrayAttr[IntAttr])
    producer = region_def("single_block")
    consumer = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, registers: tuple[int, int], producer: Region, consumer: Region) -> None:
        counts = ArrayAttr(map(IntAttr, registers))
        Operation.__init__(self, properties={"registers": counts}, regions=[producer, consumer])

    @property
    def producer_registers(self) -> int:
        """Those of each thread of the producer."""
        return self.registers.data[0].data

    @property
    def consumer_registers(self) -> int:
        return self.registers.data[1].data

    @property
    def fill(self) -> FillOp:
        """The operation that fills stages."""
        return next(op for op in self.producer.walk() if isinstance(op, FillOp))

    @property
    def rings(self) -> list[SSAValue]:
        """The rings that have an array for each stage."""
        return [op.target for op in self.fill.copies]

    @property
    def stages(self) -> int:
        """How many are in shared memory at a time."""
        return memref_shape(self.rings[0])[0]

    def print(self, printer: Printer) -> None:
        for role, count, body in zip((PRODUCER, CONSUMER), self.registers, self.regions, strict=True):
            printer.print_string(f" {role} registers {count.data} ")
            printer.print_region(body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> RolesOp:
        counts: list[int] = []
        bodies: list[Region] = []
        for role in (PRODUCER, CONSUMER):
            parser.parse_keyword(role)
            parser.parse_keyword("registers")
            counts.append(parser.parse_integer(allow_boolean=False, allow_negative=False))
            bodies.append(parse_body(parser))
        producer, consumer = bodies
        return cls((counts[0], counts[1]), producer, consumer)

    def verify_(self) -> None:
        for body in self.regions:
            check_no_arguments(body)
        launch = self.parent_op()
        if launch is None:
            return
        if not isinstance(launch, LaunchOp) or any(
            op.name == ROLES and op is not self for op in launch.body.walk()
        ):
            raise VerifyException("the threads of a kernel have roles once, directly in it")
        if launch.threads % GROUP:
            raise VerifyException(
                f"consumers are whole warpgroups of {GROUP} threads, found {launch.threads}"
            )
        self._verify_registers(launch)
        self._verify_copies(launch)
        check_protocol(self.producer.block, self.consumer.block, self.rings, self.stages)

    def _verify_registers(self, launch: LaunchOp) -> None:
        if len(self.registers) != len(self.regions):
            raise VerifyException("there are registers for each role")
        for count in (self.producer_registers, self.consumer_registers):
            if count % REGISTERS_AT_A_TIME or not LEAST_ROLE_REGISTERS <= count <= MOST_ROLE_REGISTERS:
                raise VerifyException(
                    f"a thread of a role has {LEAST_ROLE_REGISTERS} to {MOST_ROLE_REGISTERS} registers, "
                    f"a multiple of {REGISTERS_AT_A_TIME}, found {count}"
                )
        threads, first = launch.all_threads, registers_at_start(launch.all_threads)
        if not self.producer_registers <= first <= self.consumer_registers:
            raise VerifyException(
                "the producer gives registers back, and consumers take some: "
                f"each of {threads} threads has {first}"
            )
        needed = GROUP * self.producer_registers + launch.threads * self.consumer_registers
        if needed > first * threads:
            raise VerifyException(
                f"a block of {threads} threads has {first * threads} registers, its roles have {needed}"
            )

    def _verify_copies(self, launch: LaunchOp) -> None:
        copying = {PRODUCER: 0, CONSUMER: 0}
        for op in launch.body.walk():
            if isinstance(op, StageOp):
                op.verify()
            is_grouped = isinstance(op, CommitOp | WaitOp)
            if is_grouped or (isinstance(op, CopyOp) and op.is_async and role_of(op) != PRODUCER):
                raise VerifyException(
                    "where threads have roles, copies go on meanwhile in `kernel.fill` only"
                )
            copying[role_of(op) or PRODUCER] += isinstance(op, FillOp)
        if copying[PRODUCER] != 1:
            raise VerifyException(f"the producer has one `{FillOp.name}`, found {copying[PRODUCER]}")
        if len({memref_shape(ring)[0] for ring in self.rings}) > 1:
            raise VerifyException("all rings have the arrays of as many stages")
        known = ("kernel.for", "kernel.point", FillOp.name, CopyOp.name)
        for op in self.producer.walk():
            if op.name not in known:
                raise VerifyException(f"the producer fills stages, and does nothing else, found `{op.name}`")
