"""Functions that call kernels with arguments in a frame: slots of 8 bytes. Kernels with arguments of the same
types share such a function, as what LLVM takes for a function is more than it takes for these few lines.
"""

from __future__ import annotations

from collections.abc import Sequence

# The slots of a frame: the thread team, the kernel, the number of its tasks, and its arguments from there on.
TEAM_SLOT, KERNEL_SLOT, TASKS_SLOT, FIRST_ARGUMENT = range(4)

# Helper functions of all nests with tasks. A thread has the same part of one nest and of the next, so that
# what it reads is in its cache where it wrote it.
TEAM = """\
define internal void @"run by team"(ptr %share, ptr %frame, ptr %team) #0 {
  %threads = load i64, ptr %team, align 8
  %several = icmp ugt i64 %threads, 1
  br i1 %several, label %fork, label %alone
fork:
  %count = trunc i64 %threads to i32
  %parallel.at = getelementptr i64, ptr %team, i64 1
  %parallel = load ptr, ptr %parallel.at, align 8
  call void %parallel(ptr %share, ptr %frame, i32 %count, i32 0)
  ret void
alone:
  call void %share(ptr %frame)
  ret void
}

define internal { i64, i64 } @"share of thread"(ptr %team, i64 %tasks) #0 {
  %threads = load i64, ptr %team, align 8
  %several = icmp ugt i64 %threads, 1
  br i1 %several, label %ask, label %alone
ask:
  %number.at = getelementptr i64, ptr %team, i64 2
  %number = load ptr, ptr %number.at, align 8
  %mine = call i32 %number()
  %size.at = getelementptr i64, ptr %team, i64 3
  %size = load ptr, ptr %size.at, align 8
  %all = call i32 %size()
  %k = zext i32 %mine to i64
  %n = zext i32 %all to i64
  %before = mul i64 %k, %tasks
  %start = udiv i64 %before, %n
  %after = add i64 %before, %tasks
  %stop = udiv i64 %after, %n
  %from = insertvalue { i64, i64 } poison, i64 %start, 0
  %share = insertvalue { i64, i64 } %from, i64 %stop, 1
  ret { i64, i64 } %share
alone:
  %whole = insertvalue { i64, i64 } { i64 0, i64 poison }, i64 %tasks, 1
  ret { i64, i64 } %whole
}"""


def load_slot(block: str, name: str, type: str, number: int) -> list[str]:
    return [
        f"  {name}.slot = getelementptr i64, ptr {block}, i64 {number}",
        f"  {name} = load {type}, ptr {name}.slot, align 8",
    ]


def store_slot(value: str, number: int) -> list[str]:
    """Stores a value with its type in a slot of the frame."""
    place = f"%frame.{number}"
    return [
        f"  {place} = getelementptr i64, ptr %frame, i64 {number}",
        f"  store {value}, ptr {place}, align 8",
    ]


def load_call(types: Sequence[str]) -> tuple[list[str], list[str]]:
    """The loads of a kernel and of its arguments, and these with their types."""
    loads = load_slot("%frame", "%kernel", "ptr", KERNEL_SLOT)
    for k, type in enumerate(types):
        loads += load_slot("%frame", f"%a{k}", type, FIRST_ARGUMENT + k)
    return loads, [f"{type} %a{k}" for k, type in enumerate(types)]


def signature(types: Sequence[str]) -> str:
    """A letter for each argument: `p` for an address, `i` for a number."""
    return "".join([type[0] for type in types])


def call_on_frame(types: Sequence[str]) -> str:
    """The body of a function that calls the kernel of a frame with arguments of these types."""
    loads, arguments = load_call(types)
    return "\n".join(
        ["(ptr %frame) #0 {", *loads, f"  call void %kernel({', '.join(arguments)})", "  ret void", "}"]
    )


def exchange_on_frame(types: Sequence[str]) -> str:
    """The body of a function that has the engine do the exchange of a frame, whose number is in the place of
    a kernel.
    """
    loads, (*given, engine) = load_call(types)
    number = "  %number = ptrtoint ptr %kernel to i64"
    call = exchange_line(engine, "i64 %number", given)
    return "\n".join(["(ptr %frame) #0 {", *loads, number, call, "  ret void", "}"])


def exchange_line(engine: str, number: str, given: Sequence[str]) -> str:
    """The call of an engine's function, by its address, with a number and what is exchanged."""
    return f"  call void {engine.removeprefix('ptr ')}({', '.join([number, *given])})"


def share_of_tasks(types: Sequence[str]) -> str:
    """The body of a function that runs a thread's share of the tasks of the kernel of a frame."""
    loads, arguments = load_call(types)
    return "\n".join(
        [
            "(ptr %frame) #0 {",
            *load_slot("%frame", "%team", "ptr", TEAM_SLOT),
            *load_slot("%frame", "%tasks", "i64", TASKS_SLOT),
            *loads,
            '  %share = call { i64, i64 } @"share of thread"(ptr %team, i64 %tasks)',
            "  %start = extractvalue { i64, i64 } %share, 0",
            "  %stop = extractvalue { i64, i64 } %share, 1",
            "  %some = icmp ult i64 %start, %stop",
            "  br i1 %some, label %run, label %done",
            "run:",
            "  %task = phi i64 [ %start, %0 ], [ %task.next, %run ]",
            f"  call void %kernel({', '.join([*arguments, 'i64 %task'])})",
            "  %task.next = add i64 %task, 1",
            "  %more = icmp ult i64 %task.next, %stop",
            "  br i1 %more, label %run, label %done",
            "done:",
            "  ret void",
            "}",
        ]
    )
