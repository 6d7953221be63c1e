"""Barriers in shared memory (mbarriers of sm_90a), at which threads wait for others and for bulk copies.

A phase of such a barrier ends when as many threads have arrived as it counts, and all bytes have come that it
was told of. Phases are told apart by their parity: a thread waits until that with a parity has ended. The one
before the first phase has parity 1, and has ended.

https://docs.nvidia.com/cuda/parallel-thread-execution, "mbarrier"
"""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.lowering.llvm.builder import FunctionBuilder

# What threads did to shared memory comes before what hardware does that reads and writes by another way.
FENCE = "fence.proxy.async.shared::cta;"
INIT = "mbarrier.init.shared::cta.b64 [$1], {};"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [$1];"
TEST = "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; selp.b32 $0, 1, 0, p; }"


def fence(b: FunctionBuilder) -> None:
    assembly(b, FENCE, "", "")


def assembly(b: FunctionBuilder, text: str, constraints: str, arguments: str) -> None:
    """Emits an instruction without a result, which the compiler moves no access to memory across."""
    told = ",".join(filter(None, [constraints, "~{memory}"]))
    b.emit_void(f'call void asm sideeffect "{text}", "{told}"({arguments}) convergent')


class Mbarriers:
    """The mbarriers of a kernel, beside each other; `place` is a pointer to the first one."""

    def __init__(self, b: FunctionBuilder, count: int) -> None:
        self.b, self.count, self.place = b, count, ""
        self.base = ""

    def find(self) -> None:
        """Finds their address in shared memory."""
        self.base = self.b.emit(f"addrspacecast ptr {self.place} to ptr addrspace(3)")

    def start(self, by: str, arrivals: Sequence[int]) -> None:
        """Prepares them for so many arrivals each, by the thread in which an `i1` holds."""
        for number, count in enumerate(arrivals):
            self.where(by, INIT.format(count), "r", f"ptr addrspace(3) {self.at(number)}")
        fence(self.b)

    def where(self, by: str, text: str, constraints: str, arguments: str) -> None:
        """Emits an instruction of the threads in which an `i1` holds."""
        assembly(self.b, f"@$0 {text}", f"b,{constraints}", f"i1 {by}, {arguments}")

    def at(self, number: str | int) -> str:
        return self.b.emit(f"getelementptr i64, ptr addrspace(3) {self.base}, i32 {number}")

    def arrive(self, by: str, mbarrier: str) -> None:
        self.where(by, ARRIVE, "r", f"ptr addrspace(3) {mbarrier}")

    def wait(self, mbarrier: str, parity: str) -> None:
        """Waits until the phase with a parity, an `i32`, has ended."""
        b = self.b
        with b.repeated() as tests:
            arguments = f"ptr addrspace(3) {mbarrier}, i32 {parity}"
            found = b.emit(f'call i32 asm sideeffect "{TEST}", "=r,r,r,~{{memory}}"({arguments}) convergent')
            tests.until = b.emit(f"icmp ne i32 {found}, 0")
