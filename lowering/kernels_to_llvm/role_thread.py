"""The code of a thread of a kernel for Hopper whose warps have roles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from ocannl.dialects.kernel import AwaitOp, FillOp, PointOp, ReleaseOp, RolesOp
from ocannl.dialects.kernel.boxes import Box
from ocannl.dialects.kernel.gpu import WARP
from ocannl.dialects.kernel.launch import LaunchOp
from ocannl.lowering.kernels_to_llvm.device_thread import DeviceThread
from ocannl.lowering.kernels_to_llvm.mbarriers import assembly
from ocannl.lowering.kernels_to_llvm.stages import Stages
from ocannl.lowering.llvm.builder import FunctionBuilder, Position

# A role takes registers of the block, or gives some back.
MORE, FEWER = "setmaxnreg.inc.sync.aligned.u32 {};", "setmaxnreg.dec.sync.aligned.u32 {};"
# A barrier of so many threads; that of all has number 0.
BARRIER = "bar.sync 1, {};"


class RoleThread(DeviceThread):
    """Emits the code of both roles: the consumers are the first threads of the block."""

    def __init__(
        self,
        b: FunctionBuilder,
        launch: LaunchOp,
        pointers: dict[SSAValue, str],
        positions: dict[str, Position],
    ) -> None:
        super().__init__(b, launch, pointers, positions, has_warpgroups=True)
        assert self.mbarriers is not None
        self.stages = Stages(b, self.mbarriers, launch.threads)
        self.is_consumer = False

    def prepare(self) -> None:
        self.stages.start(self.thread)
        self.barrier()

    def barrier(self) -> None:
        """In a role it is one of the consumers."""
        if not self.is_consumer:
            super().barrier()
            return
        self.fence_writes()
        assembly(self.b, BARRIER.format(self.launch.threads), "", "")

    def run_roles(self, op: RolesOp) -> None:
        """Of the producer's warpgroup one warp copies; all of it gives registers back."""
        b, consumers = self.b, self.launch.threads
        branch = b.open_branch(b.emit(f"icmp ult i32 {self.thread}, {consumers}"))
        assembly(b, MORE.format(op.consumer_registers), "", "")
        self.is_consumer = True
        self.emit_ops(op.consumer.block.ops)
        self.is_consumer = False
        b.close_branch(branch)
        branch = b.open_branch(b.emit(f"icmp uge i32 {self.thread}, {consumers}"))
        assembly(b, FEWER.format(op.producer_registers), "", "")
        copying = b.open_branch(b.emit(f"icmp ult i32 {self.thread}, {consumers + WARP}"))
        self.emit_ops(op.producer.block.ops)
        b.close_branch(copying)
        b.close_branch(branch)

    def fill_stage(self, op: FillOp) -> None:
        self.stages.begin(op.stage, self.positions)
        self.emit_ops(op.body.block.ops)
        self.stages.end()

    def start_copy(self, box: Box, map: str, start: str, first: Sequence[tuple[str, int]]) -> None:
        self.stages.copy(box, map, start, first)

    def wait_for_stage(self, op: AwaitOp) -> None:
        self.stages.wait(op.stage, self.positions)

    def release_stage(self, op: ReleaseOp) -> None:
        self.stages.release(op.stage, self.positions, self.needs_fences)

    def point(self, op: PointOp) -> None:
        """After the products of a tile comes its epilogue, in slices as at the end of other kernels."""
        if any(isinstance(inner, AwaitOp) for inner in op.walk()):
            self.at_number(op, partial(self.emit_in_slices, list(op.body.block.ops)))
        else:
            super().point(op)
