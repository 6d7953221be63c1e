"""Checked accesses to the stages of rings, where a GPU with roles is emulated.

A cell remembers for which stage it was filled, and the last group of async products that reads it. Consumers
read what they have waited for and not released; nothing is filled that a product in flight reads. A stage is
filled as soon as the one before it in its arrays is released: so what is released too early is found.
"""

from __future__ import annotations

from ocannl.lowering.kernels_to_llvm.checks import EARLY, IN_ARRAY, IN_FLIGHT, LATE, READ_LATER, WRITE_LATER

STAGE_HELPERS = f"""\
; How many stages of a block were filled, waited for, and released.
@filled = internal global i64 0
@awaited = internal global i64 0
@emptied = internal global i64 0

define internal void @start_stages() {{
  store i64 0, ptr @filled
  store i64 0, ptr @awaited
  store i64 0, ptr @emptied
  ret void
}}

define internal void @await_stage(i64 %stage) {{
  %count = add i64 %stage, 1
  store i64 %count, ptr @awaited
  ret void
}}

; The producer knows what consumers waited for before.
define internal void @release_stage(i64 %stage) {{
  %count = add i64 %stage, 1
  store i64 %count, ptr @emptied
  %settled = load i64, ptr @settled
  store i64 %settled, ptr @released
  ret void
}}

define internal ptr @check_stage(ptr %at, ptr %array, i64 %bytes, i64 %count, ptr %cells, ptr %start,
    ptr %text, i64 %thread, i64 %what) {{
{IN_ARRAY}
  %stage.place = getelementptr [6 x i64], ptr %cells, i64 %index
  %flight.place = getelementptr i64, ptr %stage.place, i64 1
  %flight = load i64, ptr %flight.place
  %writes = icmp eq i64 %what, {WRITE_LATER}
  br i1 %writes, label %write, label %read
write:
  %released = load i64, ptr @released
  %flies = icmp sgt i64 %flight, %released
  br i1 %flies, label %overwritten, label %fill
overwritten:
  call void @report(ptr %text, i64 {IN_FLIGHT}, i64 %thread, i64 %index)
  br label %fill
fill:
  %filled = load i64, ptr @filled
  %number = add i64 %filled, 1
  store i64 %number, ptr %stage.place
  ret ptr %at
read:
  %stage = load i64, ptr %stage.place
  %awaited = load i64, ptr @awaited
  %is.unknown = icmp sgt i64 %stage, %awaited
  %is.unfilled = icmp eq i64 %stage, 0
  %is.early = or i1 %is.unknown, %is.unfilled
  br i1 %is.early, label %early, label %compare
early:
  call void @report(ptr %text, i64 {EARLY}, i64 %thread, i64 %index)
  br label %compare
compare:
  %emptied = load i64, ptr @emptied
  %is.late = icmp sle i64 %stage, %emptied
  br i1 %is.late, label %late, label %remember
late:
  call void @report(ptr %text, i64 {LATE}, i64 %thread, i64 %index)
  br label %remember
remember:
  %reads.later = icmp eq i64 %what, {READ_LATER}
  %multiplied = load i64, ptr @multiplied
  %following = add i64 %multiplied, 1
  %reader = select i1 %reads.later, i64 %following, i64 %flight
  store i64 %reader, ptr %flight.place
  ret ptr %at
}}"""
