"""Checked accesses to memory where a GPU is emulated: for bounds, and for races between threads.

Time is counted in steps: it advances where a kernel and where a block begins, and at each barrier. A cell
remembers when and by which thread it was last written, and last read. Two accesses of which one writes are
ordered if they belong to different kernels, to one thread, or to one block with a barrier between.

Groups of asynchronous copies are counted, too. A cell remembers the group that writes it: the thread itself
may use the cell once it has waited for the group, others after the next barrier.

So are groups of async products. A cell remembers the last one that reads it: nobody writes to the cell before
the barrier after the wait for that.
"""

from __future__ import annotations

from collections.abc import Mapping

from ocannl.dialects.index.addresses import Address
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.memory import ElementAccess, Found, Layout
from ocannl.lowering.llvm.range_check import OUTSIDE, VIOLATION
from ocannl.lowering.llvm.types import ValueType, vector

RACE, EARLY, IN_FLIGHT, LATE = 2, 3, 4, 5
WRONGS = {
    OUTSIDE: "is outside at",
    RACE: "races with another thread for",
    EARLY: "does not wait for the copy of",
    IN_FLIGHT: "overwrites, for a product in flight,",
    LATE: "reads, of a stage that it has released,",
}
READ, WRITE, WRITE_LATER, READ_LATER = 0, 1, 2, 3

# The number of an element, in `%index`, where it is inside of its array.
IN_ARRAY = f"""\
  %at.number = ptrtoint ptr %at to i64
  %array.number = ptrtoint ptr %array to i64
  %distance = sub i64 %at.number, %array.number
  %index = sdiv i64 %distance, %bytes
  %inside = icmp ult i64 %index, %count
  br i1 %inside, label %cell, label %outside
outside:
  call void @report(ptr %text, i64 {OUTSIDE}, i64 %thread, i64 %index)
  ret ptr @nowhere
cell:"""

HELPERS = f"""\
@now = internal global i64 0
@kernel_start = internal global i64 0
@block_start = internal global i64 0
@block_number = internal global i64 0
; Groups of copies that have ended, that were waited for, and those that were when the last barrier came.
@committed = internal global i64 0
@arrived = internal global i64 0
@seen = internal global i64 0
; Those of products that have begun, that were waited for, and those that were when the last barrier came.
@multiplied = internal global i64 0
@settled = internal global i64 0
@released = internal global i64 0
@nowhere = internal global [64 x i8] zeroinitializer

define internal void @tick() {{
  %before = load i64, ptr @now
  %after = add i64 %before, 1
  store i64 %after, ptr @now
  %arrived = load i64, ptr @arrived
  store i64 %arrived, ptr @seen
  %settled = load i64, ptr @settled
  store i64 %settled, ptr @released
  ret void
}}

define internal void @multiplied_group() {{
  %before = load i64, ptr @multiplied
  %after = add i64 %before, 1
  store i64 %after, ptr @multiplied
  ret void
}}

define internal void @wait_products(i64 %pending) {{
  %multiplied = load i64, ptr @multiplied
  %done = sub i64 %multiplied, %pending
  %before = load i64, ptr @settled
  %is.more = icmp sgt i64 %done, %before
  %after = select i1 %is.more, i64 %done, i64 %before
  store i64 %after, ptr @settled
  ret void
}}

define internal void @commit() {{
  %before = load i64, ptr @committed
  %after = add i64 %before, 1
  store i64 %after, ptr @committed
  ret void
}}

define internal void @wait(i64 %pending) {{
  %committed = load i64, ptr @committed
  %done = sub i64 %committed, %pending
  %before = load i64, ptr @arrived
  %is.more = icmp sgt i64 %done, %before
  %after = select i1 %is.more, i64 %done, i64 %before
  store i64 %after, ptr @arrived
  ret void
}}

define internal void @start(ptr %what) {{
  call void @commit()
  call void @wait(i64 0)
  call void @wait_products(i64 0)
  call void @tick()
  %now = load i64, ptr @now
  store i64 %now, ptr %what
  ret void
}}

define internal void @report(ptr %text, i64 %kind, i64 %thread, i64 %index) {{
  %first = load i64, ptr @"{VIOLATION}"
  %is.first = icmp eq i64 %first, 0
  br i1 %is.first, label %write, label %done
write:
  %number = ptrtoint ptr %text to i64
  store i64 %number, ptr @"{VIOLATION}"
  store i64 %kind, ptr getelementptr (i64, ptr @"{VIOLATION}", i64 1)
  %block = load i64, ptr @block_number
  store i64 %block, ptr getelementptr (i64, ptr @"{VIOLATION}", i64 2)
  store i64 %thread, ptr getelementptr (i64, ptr @"{VIOLATION}", i64 3)
  store i64 %index, ptr getelementptr (i64, ptr @"{VIOLATION}", i64 4)
  br label %done
done:
  ret void
}}

; Whether a past access, by a thread, by several of a block (-1) or by other blocks (-2), is unordered.
define internal i1 @unordered(i64 %at, i64 %by, i64 %since, i64 %thread) {{
  %now = load i64, ptr @now
  %block = load i64, ptr @block_start
  %recent = icmp sge i64 %at, %since
  %elsewhere = icmp slt i64 %at, %block
  %spread = icmp eq i64 %by, -2
  %same = icmp eq i64 %at, %now
  %another = icmp ne i64 %by, %thread
  %beside = and i1 %same, %another
  %away = or i1 %elsewhere, %spread
  %apart = or i1 %away, %beside
  %both = and i1 %recent, %apart
  ret i1 %both
}}

define internal ptr @check(ptr %at, ptr %array, i64 %bytes, i64 %count, ptr %cells, ptr %start, ptr %text,
    i64 %thread, i64 %what) {{
  %reads.now = icmp eq i64 %what, {READ}
  %reads.later = icmp eq i64 %what, {READ_LATER}
  %reads = or i1 %reads.now, %reads.later
  %writes = xor i1 %reads, true
{IN_ARRAY}
  %since = load i64, ptr %start
  %now = load i64, ptr @now
  %block = load i64, ptr @block_start
  %w.at.place = getelementptr [6 x i64], ptr %cells, i64 %index
  %w.by.place = getelementptr i64, ptr %w.at.place, i64 1
  %r.at.place = getelementptr i64, ptr %w.at.place, i64 2
  %r.by.place = getelementptr i64, ptr %w.at.place, i64 3
  %group.place = getelementptr i64, ptr %w.at.place, i64 4
  %flight.place = getelementptr i64, ptr %w.at.place, i64 5
  %group = load i64, ptr %group.place
  %flight = load i64, ptr %flight.place
  %released = load i64, ptr @released
  %arrived = load i64, ptr @arrived
  %seen = load i64, ptr @seen
  %w.at = load i64, ptr %w.at.place
  %w.by = load i64, ptr %w.by.place
  %r.at = load i64, ptr %r.at.place
  %r.by = load i64, ptr %r.by.place
  %own = icmp eq i64 %w.by, %thread
  %there = select i1 %own, i64 %arrived, i64 %seen
  %is.early = icmp sgt i64 %group, %there
  br i1 %is.early, label %early, label %compare
early:
  call void @report(ptr %text, i64 {EARLY}, i64 %thread, i64 %index)
  br label %compare
compare:
  %flies = icmp sgt i64 %flight, %released
  %is.overwritten = and i1 %flies, %writes
  br i1 %is.overwritten, label %overwritten, label %order
overwritten:
  call void @report(ptr %text, i64 {IN_FLIGHT}, i64 %thread, i64 %index)
  br label %order
order:
  %w.unordered = call i1 @unordered(i64 %w.at, i64 %w.by, i64 %since, i64 %thread)
  %r.unordered = call i1 @unordered(i64 %r.at, i64 %r.by, i64 %since, i64 %thread)
  %r.races = and i1 %r.unordered, %writes
  %races = or i1 %w.unordered, %r.races
  br i1 %races, label %race, label %remember
race:
  call void @report(ptr %text, i64 {RACE}, i64 %thread, i64 %index)
  br label %remember
remember:
  br i1 %writes, label %write, label %read
write:
  store i64 %now, ptr %w.at.place
  store i64 %thread, ptr %w.by.place
  %committed = load i64, ptr @committed
  %next = add i64 %committed, 1
  %is.later = icmp eq i64 %what, {WRITE_LATER}
  %pending = select i1 %is.later, i64 %next, i64 0
  store i64 %pending, ptr %group.place
  ret ptr %at
read:
  %elsewhere = icmp slt i64 %r.at, %block
  %spread = icmp eq i64 %r.by, -2
  %away = or i1 %elsewhere, %spread
  %several = select i1 %away, i64 -2, i64 -1
  %by = select i1 %r.unordered, i64 %several, i64 %thread
  store i64 %now, ptr %r.at.place
  store i64 %by, ptr %r.by.place
  %multiplied = load i64, ptr @multiplied
  %following = add i64 %multiplied, 1
  %reader = select i1 %reads.later, i64 %following, i64 %flight
  store i64 %reader, ptr %flight.place
  ret ptr %at
}}"""


class CheckedAccess(ElementAccess):
    """Loads and stores that are checked first; those outside the array reach a dummy instead.

    Attributes:
        arguments: those of `@check` about the array: its address, the size of an element, how many
            there are, its cells, and since when accesses count.
        check: the function that checks an access; `read` and `write` are what it is told of these.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        pointer: str,
        address: Address,
        positions: Mapping[str, Position],
        type: ValueType,
        found: Mapping[str, Found],
        arguments: str,
        text: str,
        thread: str,
        layout: Layout | None = None,
    ) -> None:
        super().__init__(b, pointer, address, positions, type, found, layout)
        self.arguments, self.text, self.thread = arguments, text, thread
        self.check, self.read, self.write = "@check", READ, WRITE

    def load(self, offset: int) -> str:
        pointer = self.checked(offset, self.read)
        return self.b.emit(f"load {self.type.element}, ptr {pointer}, align {self.type.bytes}")

    def store(self, value: str, offset: int) -> None:
        pointer = self.checked(offset, self.write)
        self.b.emit_void(f"store {self.type.element} {value}, ptr {pointer}, align {self.type.bytes}")

    def load_whole(self, width: int, offset: int = 0) -> str:
        type, whole = vector(self.type, width), "poison"
        if width == 1:
            return self.load(offset)
        for k in range(width):
            element = f"{self.type.element} {self.load(offset + k)}"
            whole = self.b.emit(f"insertelement {type.text} {whole}, {element}, i64 {k}")
        return whole

    def store_whole(self, value: str, width: int, offset: int = 0) -> None:
        type = vector(self.type, width)
        if width == 1:
            self.store(value, offset)
            return
        for k in range(width):
            self.store(self.b.emit(f"extractelement {type.text} {value}, i64 {k}"), offset + k)

    def checked(self, offset: int, what: int) -> str:
        return self.b.emit(
            f"call ptr {self.check}(ptr {self.at(offset)}, {self.arguments}, ptr {self.text}, "
            f"i64 {self.thread}, i64 {what})"
        )
