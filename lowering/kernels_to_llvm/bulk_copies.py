"""Bulk copies (TMA of sm_90a): one thread starts them, and all threads wait at barriers in shared memory.

No threads diverge: the instructions of the one thread are predicated.

Each group of copies has an mbarrier, the next group the next one, around. The thread tells it the bytes of
each copy, and at the end of the group that there are no more; then its phase ends when they have come. Phases
of an mbarrier are told apart by their parity.

https://docs.nvidia.com/cuda/parallel-thread-execution, "mbarrier", "cp.async.bulk.tensor"
"""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.dialects.kernel.boxes import Box
from ocannl.dialects.kernel.gpu import SWIZZLED_BYTES
from ocannl.lowering.llvm.builder import FunctionBuilder

# A tensor map is a parameter by value, whose address the hardware takes.
MAP_PARAMETER = 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant"'
# What threads did to shared memory comes before what hardware does that reads and writes by another way.
FENCE = "fence.proxy.async.shared::cta;"
INIT = "mbarrier.init.shared::cta.b64 [$1], 1;"
EXPECT = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$1], $2;"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [$1];"
TEST = "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; selp.b32 $0, 1, 0, p; }"


def fence(b: FunctionBuilder) -> None:
    assembly(b, FENCE, "", "")


def assembly(b: FunctionBuilder, text: str, constraints: str, arguments: str) -> None:
    """Emits an instruction without a result, which the compiler moves no access to memory across."""
    told = ",".join(filter(None, [constraints, "~{memory}"]))
    b.emit_void(f'call void asm sideeffect "{text}", "{told}"({arguments}) convergent')


class BulkCopies:
    """Emits the bulk copies of a kernel, of which so many groups may be on their way.

    Attributes:
        count: the mbarriers.
        place: a pointer to the first one.
    """

    def __init__(self, b: FunctionBuilder, count: int) -> None:
        self.b, self.count, self.place = b, count, ""
        self.is_first, self.base = "", ""
        # The groups that have ended, and those that were waited for.
        self.committed, self.arrived = b.allocate("i32"), b.allocate("i32")

    def start(self, thread: str) -> None:
        """Prepares the mbarriers; the block has to meet before threads wait at them."""
        b = self.b
        self.is_first = b.emit(f"icmp eq i32 {thread}, 0")
        self.base = b.emit(f"addrspacecast ptr {self.place} to ptr addrspace(3)")
        for counter in (self.committed, self.arrived):
            b.emit_void(f"store i32 0, ptr {counter}")
        for number in range(self.count):
            self.by_first(INIT, "r", f"ptr addrspace(3) {self.mbarrier(number)}")
        fence(b)

    def by_first(self, text: str, constraints: str, arguments: str) -> None:
        """Emits an instruction of the first thread."""
        assembly(self.b, f"@$0 {text}", f"b,{constraints}", f"i1 {self.is_first}, {arguments}")

    def mbarrier(self, number: str | int) -> str:
        return self.b.emit(f"getelementptr i64, ptr addrspace(3) {self.base}, i32 {number}")

    def of_group(self, group: str) -> str:
        return self.mbarrier(self.b.emit(f"urem i32 {group}, {self.count}"))

    def copy(self, box: Box, map: str, start: str, first: Sequence[tuple[str, int]]) -> None:
        """Starts a copy to an address in shared memory, an `i64`; each index of the first element is the sum
        of an `i64` and a number.
        """
        b = self.b
        mbarrier = self.of_group(b.emit(f"load i32, ptr {self.committed}"))
        size = box.rows * SWIZZLED_BYTES
        self.by_first(EXPECT, "r,n", f"ptr addrspace(3) {mbarrier}, i32 {size * box.count}")
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
            self.by_first(text, f"r,l,{','.join(['r'] * axes)},r", arguments)

    def commit(self) -> None:
        """Ends a group: its phase ends when all of its bytes have come."""
        b = self.b
        group = b.emit(f"load i32, ptr {self.committed}")
        self.by_first(ARRIVE, "r", f"ptr addrspace(3) {self.of_group(group)}")
        b.emit_void(f"store i32 {b.emit(f'add i32 {group}, 1')}, ptr {self.committed}")

    def wait(self, pending: int) -> None:
        """Waits for the groups that were not waited for yet, in order, but for the last ones."""
        b = self.b
        done = b.emit(f"sub i32 {b.emit(f'load i32, ptr {self.committed}')}, {pending}")
        arrived = b.emit(f"load i32, ptr {self.arrived}")
        branch = b.open_branch(b.emit(f"icmp slt i32 {arrived}, {done}"))
        with b.repeated() as groups:
            group = b.emit(f"load i32, ptr {self.arrived}")
            mbarrier, turn = self.of_group(group), b.emit(f"udiv i32 {group}, {self.count}")
            parity = b.emit(f"and i32 {turn}, 1")
            with b.repeated() as tests:
                arguments = f"ptr addrspace(3) {mbarrier}, i32 {parity}"
                found = b.emit(
                    f'call i32 asm sideeffect "{TEST}", "=r,r,r,~{{memory}}"({arguments}) convergent'
                )
                tests.until = b.emit(f"icmp ne i32 {found}, 0")
            following = b.emit(f"add i32 {group}, 1")
            b.emit_void(f"store i32 {following}, ptr {self.arrived}")
            groups.until = b.emit(f"icmp sge i32 {following}, {done}")
        b.close_branch(branch)
