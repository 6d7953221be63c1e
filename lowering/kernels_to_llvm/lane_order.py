"""Which part of a copy each thread takes, so that what a warp writes to shared memory lies in all banks.

Neighbours along a row of memory are often in the same banks as those of the next row, where rows of the tile
are padded. If some threads in a row have other rows instead, a warp still moves whole sectors.
"""

from __future__ import annotations

import math

from ocannl.dialects.index.addresses import flatten
from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.kernel import CopyOp
from ocannl.dialects.kernel.gpu import BANK_BYTES, BANKS, SECTOR_BYTES, WARP
from ocannl.dialects.records import dataclass
from ocannl.lowering.llvm.builder import FunctionBuilder


@dataclass(frozen=True)
class LaneOrder:
    """The low bits of a thread's number are places in a row, the next ones rows, then come further places.

    Attributes:
        low, rows, high: how many bits of each.
    """

    low: int
    rows: int
    high: int

    @property
    def bits(self) -> int:
        return self.low + self.rows + self.high

    def of(self, thread: int) -> tuple[int, int]:
        """The row and the place of a thread."""
        low, row = thread & (1 << self.low) - 1, thread >> self.low & (1 << self.rows) - 1
        high = thread >> self.low + self.rows & (1 << self.high) - 1
        return thread >> self.bits << self.rows | row, high << self.low | low

    def emit(self, b: FunctionBuilder, thread: str) -> str:
        """The number of a thread's part, an `i32`; places of a row vary fastest in it."""
        low = b.emit(f"and i32 {thread}, {(1 << self.low) - 1}")
        row = field(b, thread, self.low, self.rows, self.low + self.high)
        high = field(b, thread, self.low + self.rows, self.high, self.low)
        rest = b.emit(f"and i32 {thread}, {-1 << self.bits}")
        whole = b.emit(f"or i32 {low}, {row}")
        whole = b.emit(f"or i32 {whole}, {high}")
        return b.emit(f"or i32 {whole}, {rest}")


def field(b: FunctionBuilder, number: str, first: int, count: int, place: int) -> str:
    """So many bits of a number, moved to a place."""
    moved = b.emit(f"lshr i32 {number}, {first}")
    kept = b.emit(f"and i32 {moved}, {(1 << count) - 1}")
    return b.emit(f"shl i32 {kept}, {place}")


def lane_order(op: CopyOp, threads: int) -> LaneOrder | None:
    """The order of fewest bank conflicts, if another one than that of the points is better."""
    if len(op.space.data) != 2:
        return None
    (outer, rows), (inner, size) = op.space.data
    places = (size // op.by_threads).bit_length() - 1
    if 1 << places != size // op.by_threads or 1 << places > WARP:
        return None
    bytes = element_bytes(op.target)
    address, width = flatten(op.target, op.target_map.data), op.by_threads * bytes
    steps = address.stride(outer) * bytes, address.stride(inner) * width

    def cost(order: LaneOrder) -> int:
        return turns(order, steps, width)

    orders = [
        LaneOrder(low, count, places - low)
        for low in range(places, -1, -1)
        for count in range(WARP.bit_length() - low)
        if (1 << low) * width >= SECTOR_BYTES or (1 << count + places) <= WARP
    ]
    points = rows << places
    fitting = [o for o in orders if math.gcd(threads, points) % (1 << o.bits) == 0]
    plain = LaneOrder(places, 0, 0)
    best = min(fitting, key=cost, default=plain)
    return best if cost(best) < cost(plain) else None


def turns(order: LaneOrder, steps: tuple[int, int], width: int) -> int:
    """The most words of one bank in what the banks write at a time, which is of the first threads."""
    count = BANKS * BANK_BYTES // max(width, BANK_BYTES)
    starts = [row * steps[0] + place * steps[1] for row, place in map(order.of, range(count))]
    words = {(start + k) // BANK_BYTES for start in starts for k in range(0, width, BANK_BYTES)}
    banks = [word % BANKS for word in words]
    return max(map(banks.count, banks))
