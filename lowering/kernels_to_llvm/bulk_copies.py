"""Bulk copies (TMA of sm_90a): one thread starts them, and all threads wait at barriers in shared memory.

No threads diverge: the instructions of the one thread are predicated.

Each group of copies has an mbarrier, the next group the next one, around. The thread tells it the bytes of
each copy, and at the end of the group that there are no more; then its phase ends when they have come.

https://docs.nvidia.com/cuda/parallel-thread-execution, "cp.async.bulk.tensor"
"""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.dialects.kernel.boxes import Box
from ocannl.dialects.kernel.gpu import SWIZZLED_BYTES
from ocannl.lowering.kernels_to_llvm.mbarriers import Mbarriers
from ocannl.lowering.llvm.builder import FunctionBuilder

# A tensor map is a parameter by value, whose address the hardware takes.
MAP_PARAMETER = 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant"'
EXPECT = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$1], $2;"


def start_copy(
    barriers: Mbarriers,
    by: str,
    box: Box,
    map: str,
    start: str,
    first: Sequence[tuple[str, int]],
    mbarrier: str,
) -> None:
    """Starts a copy to an address in shared memory, an `i64`, by the thread in which `by` holds; each index
    of the first element is the sum of an `i64` and a number.
    """
    b = barriers.b
    size = box.rows * SWIZZLED_BYTES
    barriers.where(by, EXPECT, "r,n", f"ptr addrspace(3) {mbarrier}, i32 {size * box.count}")
    axes = len(first)
    places = ", ".join(f"${k + 3}" for k in range(axes))
    text = (
        f"cp.async.bulk.tensor.{axes}d.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[$1], [$2, {{{places}}}], [${axes + 3}];"
    )
    indices = [b.emit(f"trunc i64 {b.emit(f'add i64 {total}, {more}')} to i32") for total, more in first]
    for number in range(box.count):
        target = b.emit(f"add i64 {start}, {number * size}") if number else start
        pointer = b.emit(f"inttoptr i64 {target} to ptr addrspace(3)")
        column = b.emit(f"add i32 {indices[-1]}, {number * box.sizes[-1]}") if number else indices[-1]
        # The axis of neighbours comes first.
        moved = ", ".join(f"i32 {index}" for index in (column, *indices[-2::-1]))
        arguments = f"ptr addrspace(3) {pointer}, {map}, {moved}, ptr addrspace(3) {mbarrier}"
        barriers.where(by, text, f"r,l,{','.join(['r'] * axes)},r", arguments)


class BulkCopies:
    """Emits the bulk copies of a kernel, of which as many groups may be on their way as it has mbarriers."""

    def __init__(self, b: FunctionBuilder, barriers: Mbarriers) -> None:
        self.b, self.barriers, self.is_first = b, barriers, ""
        # The groups that have ended, and those that were waited for.
        self.committed, self.arrived = b.allocate("i32"), b.allocate("i32")

    def start(self, thread: str) -> None:
        """Prepares the mbarriers; the block has to meet before threads wait at them."""
        self.is_first = self.b.emit(f"icmp eq i32 {thread}, 0")
        self.barriers.find()
        for counter in (self.committed, self.arrived):
            self.b.emit_void(f"store i32 0, ptr {counter}")
        self.barriers.start(self.is_first, [1] * self.barriers.count)

    def of_group(self, group: str) -> str:
        return self.barriers.at(self.b.emit(f"urem i32 {group}, {self.barriers.count}"))

    def copy(self, box: Box, map: str, start: str, first: Sequence[tuple[str, int]]) -> None:
        mbarrier = self.of_group(self.b.emit(f"load i32, ptr {self.committed}"))
        start_copy(self.barriers, self.is_first, box, map, start, first, mbarrier)

    def commit(self) -> None:
        """Ends a group: its phase ends when all of its bytes have come."""
        b = self.b
        group = b.emit(f"load i32, ptr {self.committed}")
        self.barriers.arrive(self.is_first, self.of_group(group))
        b.emit_void(f"store i32 {b.emit(f'add i32 {group}, 1')}, ptr {self.committed}")

    def wait(self, pending: int) -> None:
        """Waits for the groups that were not waited for yet, in order, but for the last ones."""
        b = self.b
        done = b.emit(f"sub i32 {b.emit(f'load i32, ptr {self.committed}')}, {pending}")
        arrived = b.emit(f"load i32, ptr {self.arrived}")
        branch = b.open_branch(b.emit(f"icmp slt i32 {arrived}, {done}"))
        with b.repeated() as groups:
            group = b.emit(f"load i32, ptr {self.arrived}")
            mbarrier, turn = self.of_group(group), b.emit(f"udiv i32 {group}, {self.barriers.count}")
            self.barriers.wait(mbarrier, b.emit(f"and i32 {turn}, 1"))
            following = b.emit(f"add i32 {group}, 1")
            b.emit_void(f"store i32 {following}, ptr {self.arrived}")
            groups.until = b.emit(f"icmp sge i32 {following}, {done}")
        b.close_branch(branch)
