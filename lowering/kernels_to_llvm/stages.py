"""The two sides of a ring's stages on Hopper: a warp fills them by bulk copies, and warpgroups use them.

Each array has two mbarriers. The phase of the first one ends when a stage has come, that of the second one
when the warps of all consumers have released it. Which phases these are follows from the number of the stage.

NVIDIA, "CUTLASS", `PipelineTmaAsync`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.kernel.boxes import Box
from ocannl.dialects.kernel.gpu import WARP
from ocannl.lowering.kernels_to_llvm.bulk_copies import start_copy
from ocannl.lowering.kernels_to_llvm.mbarriers import Mbarriers, fence
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.indices import linear_value


class Stages:
    """Emits what roles do with the stages of a kernel.

    Attributes:
        count: those in memory at a time.
        consumers: the threads that use them.
        copier: an `i1`, whether a thread starts copies; `speaker`, whether it arrives for its warp.
    """

    def __init__(self, b: FunctionBuilder, barriers: Mbarriers, consumers: int) -> None:
        self.b, self.barriers, self.consumers = b, barriers, consumers
        self.count = barriers.count // 2
        self.copier, self.speaker, self.full = "", "", ""

    def start(self, thread: str) -> None:
        """Prepares the mbarriers; the block has to meet before threads wait at them."""
        b = self.b
        self.copier = b.emit(f"icmp eq i32 {thread}, {self.consumers}")
        self.speaker = b.emit(f"icmp eq i32 {b.emit(f'and i32 {thread}, {WARP - 1}')}, 0")
        self.barriers.find()
        is_first = b.emit(f"icmp eq i32 {thread}, 0")
        self.barriers.start(is_first, [1] * self.count + [self.consumers // WARP] * self.count)

    def place(self, stage: Linear, positions: Mapping[str, Position]) -> tuple[str, str]:
        """The number of the array of a stage, and how often that was filled before, `i32`."""
        b = self.b
        total, constant, depth = linear_value(b, Address(stage.terms, stage.constant), positions)
        number = b.emit_at(depth, f"add i64 {total}, {constant}")
        number = b.emit_at(depth, f"trunc i64 {number} to i32")
        return b.emit_at(depth, f"urem i32 {number}, {self.count}"), b.emit_at(
            depth, f"udiv i32 {number}, {self.count}"
        )

    def begin(self, stage: Linear, positions: Mapping[str, Position]) -> None:
        """Waits until the array of a stage is empty; before the first stage in it, it is."""
        b = self.b
        slot, turn = self.place(stage, positions)
        self.full = self.barriers.at(slot)
        empty = self.barriers.at(b.emit(f"add i32 {slot}, {self.count}"))
        self.barriers.wait(empty, b.emit(f"xor i32 {b.emit(f'and i32 {turn}, 1')}, 1"))

    def copy(self, box: Box, map: str, start: str, first: Sequence[tuple[str, int]]) -> None:
        start_copy(self.barriers, self.copier, box, map, start, first, self.full)

    def end(self) -> None:
        """No more copies of the stage follow."""
        self.barriers.arrive(self.copier, self.full)

    def wait(self, stage: Linear, positions: Mapping[str, Position]) -> None:
        """Waits until a stage is filled."""
        slot, turn = self.place(stage, positions)
        self.barriers.wait(self.barriers.at(slot), self.b.emit(f"and i32 {turn}, 1"))

    def release(self, stage: Linear, positions: Mapping[str, Position], read_by_threads: bool) -> None:
        """A warp is done with a stage. What its threads read themselves they say before to the hardware that
        overwrites it.
        """
        slot, _ = self.place(stage, positions)
        if read_by_threads:
            fence(self.b)
            self.b.emit_void("call void @llvm.nvvm.bar.warp.sync(i32 -1)")
        empty = self.barriers.at(self.b.emit(f"add i32 {slot}, {self.count}"))
        self.barriers.arrive(self.speaker, empty)
