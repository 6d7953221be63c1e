"""Checks that accesses stay inside their arrays. The first violation is recorded, for the host to raise."""

from __future__ import annotations

# The text of the access, what it did wrong, its block, its thread and its element.
VIOLATION, VIOLATION_FIELDS = "ocannl_violation", 5
OUTSIDE = 1
# The thread of an access that belongs to no thread of a GPU.
NO_THREAD = -1
# No access is larger.
MOST_BYTES = 4096

RECORD = f'@"{VIOLATION}" = global [{VIOLATION_FIELDS} x i64] zeroinitializer'

# Gives the address of elements, or one that is harmless where they are not inside of the array.
RANGE_CHECK = f"""\
@beyond = internal global [{MOST_BYTES} x i8] zeroinitializer, align 64

define internal ptr @inside(ptr %at, i64 %touched, ptr %array, i64 %bytes, i64 %count, ptr %text) {{
  %at.number = ptrtoint ptr %at to i64
  %array.number = ptrtoint ptr %array to i64
  %distance = sub i64 %at.number, %array.number
  %index = sdiv i64 %distance, %bytes
  %stop = add i64 %index, %touched
  %is.after.start = icmp sge i64 %distance, 0
  %is.before.end = icmp sle i64 %stop, %count
  %is.inside = and i1 %is.after.start, %is.before.end
  br i1 %is.inside, label %inside, label %outside
outside:
  %known = load i64, ptr @"{VIOLATION}"
  %is.first = icmp eq i64 %known, 0
  br i1 %is.first, label %record, label %done
record:
  %number = ptrtoint ptr %text to i64
  store i64 %number, ptr @"{VIOLATION}"
  store i64 {OUTSIDE}, ptr getelementptr (i64, ptr @"{VIOLATION}", i64 1)
  store i64 {NO_THREAD}, ptr getelementptr (i64, ptr @"{VIOLATION}", i64 3)
  store i64 %index, ptr getelementptr (i64, ptr @"{VIOLATION}", i64 4)
  br label %done
done:
  ret ptr @beyond
inside:
  ret ptr %at
}}"""


def text_constant(name: str, text: str) -> str:
    """A global constant with a zero-terminated string."""
    data = text.encode() + b"\0"
    letters = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data)
    return f'{name} = internal constant [{len(data)} x i8] c"{letters}"'
