"""The code of an entry: calls of kernels one after the other, or a loop over a table of many calls."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.dialects.records import dataclass
from ocannl.lowering.entry import EntryLayout, entry_symbol
from ocannl.lowering.loops_to_llvm.frame import (
    FIRST_ARGUMENT,
    KERNEL_SLOT,
    TASKS_SLOT,
    TEAM_SLOT,
    exchange_line,
    load_slot,
    store_slot,
)

# With more calls the entry has a table: LLVM is slow on long functions.
MOST_CALLS = 32
# The words of a call in a table before its arguments.
WORDS = 4
# The functions that run a table of calls, without and with a clock.
RUN_CALLS, CLOCK_CALLS = '@"run calls"', '@"clock calls"'
# The array in which clocked entries add up the ticks of each kernel.
TICKS = '@"kernel ticks"'


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a kernel, or where it has several tasks, of its shares by all threads.

    Each argument is a slot and an offset: the number in the slot, or the address in it plus the offset in
    bytes. `runner` is the function that runs it with arguments in a frame, where there is one. A kernel may
    be the `exchange` of a number: its last argument is then the function of the engine, which does it.
    """

    kernel: str
    tasks: int
    arguments: Sequence[tuple[int, int]]
    runner: str = ""
    exchange: int | None = None

    @staticmethod
    def of_exchange(number: int, arguments: Sequence[tuple[int, int]]) -> Call:
        """The number stands where a frame has the address of the kernel: a function of LLVM for each
        exchange takes longer to compile than some kernels do.
        """
        return Call(f"inttoptr (i64 {number} to ptr)", 1, arguments, exchange=number)

    @property
    def is_shared(self) -> bool:
        return self.tasks > 1

    def types(self, layout: EntryLayout) -> list[str]:
        return [layout.type_of(slot) for slot, _ in self.arguments]


def direct_calls(name: str, layout: EntryLayout, calls: Sequence[Call], counted: Sequence[str] = ()) -> str:
    """The entry as calls in order, after the lines `counted`."""
    entry = _DirectCalls(layout)
    for number, call in enumerate(calls):
        entry.add(number, call)
    slots = max((FIRST_ARGUMENT + len(call.arguments) for call in calls if call.is_shared), default=0)
    frame = [f"  %frame = alloca [{slots} x i64], align 8"] if slots else []
    return "\n".join([_heading(name), *counted, *frame, *entry.lines, "  ret void", "}"])


def _heading(name: str) -> str:
    return f'define void @"{entry_symbol(name)}"(ptr %args) #0 {{'


class _DirectCalls:
    """The text of calls in order; each slot is loaded before its first use."""

    def __init__(self, layout: EntryLayout) -> None:
        self.layout = layout
        self.lines: list[str] = []
        self.names: dict[tuple[int, int], str] = {}

    def add(self, number: int, call: Call) -> None:
        types = call.types(self.layout)
        arguments = [f"{t} {self.value(t, *a)}" for t, a in zip(types, call.arguments, strict=True)]
        if call.exchange is not None:
            *given, engine = arguments
            self.lines.append(exchange_line(engine, f"i64 {call.exchange}", given))
            return
        if not call.is_shared:
            self.lines.append(f"  call void {call.kernel}({', '.join(arguments)})")
            return
        team = self.value("ptr", self.layout.team_slot, 0)
        for k, argument in enumerate([f"ptr {team}", f"ptr {call.kernel}", f"i64 {call.tasks}", *arguments]):
            place = f"%frame.{number}.{k}"
            self.lines.append(f"  {place} = getelementptr i64, ptr %frame, i64 {k}")
            self.lines.append(f"  store {argument}, ptr {place}, align 8")
        self.lines.append(f'  call void @"run by team"(ptr {call.runner}, ptr %frame, ptr {team})')

    def value(self, type: str, slot: int, offset: int) -> str:
        """The name of the value in a slot, or of the address in it plus an offset."""
        name = self.names.get((slot, offset))
        if name is None:
            name = f"%a{slot}"
            if offset:
                start = self.value(type, slot, 0)
                name = f"{name}.{offset}"
                self.lines.append(f"  {name} = getelementptr i8, ptr {start}, i64 {offset}")
            else:
                self.lines += load_slot("%args", name, type, slot)
            self.names[slot, offset] = name
        return name


def call_table(
    name: str,
    layout: EntryLayout,
    calls: Sequence[Call],
    first: int | None = None,
    counted: Sequence[str] = (),
) -> str:
    """The entry as a loop over a table of calls, after the lines `counted`; all kernels get their arguments
    in a frame.

    A call is the address of its runner, how many tasks it has, the address of its kernel, how many arguments
    it has, and slot and offset of each: words of 8 bytes, also where an address has 4. They are timed if
    `first` is the number of the first of them among all calls that are.
    """
    rows = [_row(call) for call in calls]
    words = sum(WORDS + 2 * len(call.arguments) for call in calls)
    type = f"{{ {', '.join(kind for kind, _ in rows)} }}"
    table = f'@"calls of {name}"'
    slots = FIRST_ARGUMENT + max((len(call.arguments) for call in calls), default=0)
    team = load_slot("%args", "%team", "ptr", layout.team_slot) if layout.is_parallel else []
    ticks = "" if first is None else f", ptr getelementptr (i64, ptr {TICKS}, i64 {first})"
    run = RUN_CALLS if first is None else CLOCK_CALLS
    return "\n".join(
        [
            f"{table} = internal constant {type} {{ {', '.join(' '.join(row) for row in rows)} }}, align 8",
            "",
            _heading(name),
            *counted,
            f"  %frame = alloca [{slots} x i64], align 8",
            f"  %stop = getelementptr i64, ptr {table}, i64 {words}",
            *team,
            f"  call void {run}(ptr {table}, ptr %stop, ptr %args, ptr %frame, "
            f"ptr {'%team' if team else 'null'}{ticks})",
            "  ret void",
            "}",
        ]
    )


def _row(call: Call) -> tuple[str, str]:
    """The type and the value of a call in a table. After each address is a number, which begins a word."""
    places = [f"i64 {number}" for argument in call.arguments for number in argument]
    kind = f"[{len(places)} x i64]"
    addresses = f"ptr {call.runner}, i64 {call.tasks}, ptr {call.kernel}, i64 {len(call.arguments)}"
    return f"{{ ptr, i64, ptr, i64, {kind} }}", f"{{ {addresses}, {kind} [{', '.join(places)}] }}"


def run_calls(*, clocked: bool) -> str:
    """The function that runs a table of calls; a clocked one adds up how long each takes, in ticks of the
    processor's clock.
    """
    first = ["  %started = call i64 @llvm.readcyclecounter()"]
    carried = [
        "  %tick = phi i64 [ %started, %start ], [ %ended, %returned ]",
        "  %ticks = phi ptr [ %first.ticks, %start ], [ %ticks.next, %returned ]",
    ]
    added = [
        "  %ended = call i64 @llvm.readcyclecounter()",
        "  %spent = sub i64 %ended, %tick",
        "  %before = load i64, ptr %ticks, align 8",
        "  %after = add i64 %before, %spent",
        "  store i64 %after, ptr %ticks, align 8",
        "  %ticks.next = getelementptr i64, ptr %ticks, i64 1",
    ]
    return "\n".join(
        [
            f"define internal void {CLOCK_CALLS if clocked else RUN_CALLS}(ptr %calls, ptr %stop, ptr %args, "
            f"ptr %frame, ptr %team{', ptr %first.ticks' if clocked else ''}) #0 {{",
            "start:",
            *store_slot("ptr %team", TEAM_SLOT),
            *(first if clocked else ()),
            "  br label %calls.left",
            "calls.left:",
            "  %call = phi ptr [ %calls, %start ], [ %next, %returned ]",
            *(carried if clocked else ()),
            "  %more.calls = icmp ult ptr %call, %stop",
            "  br i1 %more.calls, label %call.read, label %done",
            "call.read:",
            *load_slot("%call", "%runner", "ptr", 0),
            *load_slot("%call", "%tasks", "i64", 1),
            *load_slot("%call", "%kernel", "ptr", 2),
            *load_slot("%call", "%count", "i64", 3),
            *store_slot("ptr %kernel", KERNEL_SLOT),
            *store_slot("i64 %tasks", TASKS_SLOT),
            f"  %first = getelementptr i64, ptr %call, i64 {WORDS}",
            f"  %first.place = getelementptr i64, ptr %frame, i64 {FIRST_ARGUMENT}",
            "  %next = getelementptr [2 x i64], ptr %first, i64 %count",
            "  br label %arguments.left",
            "arguments.left:",
            "  %argument = phi ptr [ %first, %call.read ], [ %argument.next, %argument.read ]",
            "  %place = phi ptr [ %first.place, %call.read ], [ %place.next, %argument.read ]",
            "  %more.arguments = icmp ult ptr %argument, %next",
            "  br i1 %more.arguments, label %argument.read, label %filled",
            "argument.read:",
            *load_slot("%argument", "%number", "i64", 0),
            *load_slot("%argument", "%offset", "i64", 1),
            "  %base.slot = getelementptr i64, ptr %args, i64 %number",
            "  %base = load i64, ptr %base.slot, align 8",
            "  %value = add i64 %base, %offset",
            "  store i64 %value, ptr %place, align 8",
            "  %place.next = getelementptr i64, ptr %place, i64 1",
            "  %argument.next = getelementptr [2 x i64], ptr %argument, i64 1",
            "  br label %arguments.left",
            "filled:",
            "  %alone = icmp ult i64 %tasks, 2",
            "  br i1 %alone, label %run, label %fork",
            "run:",
            "  call void %runner(ptr %frame)",
            "  br label %returned",
            "fork:",
            '  call void @"run by team"(ptr %runner, ptr %frame, ptr %team)',
            "  br label %returned",
            "returned:",
            *(added if clocked else ()),
            "  br label %calls.left",
            "done:",
            "  ret void",
            "}",
        ]
    )


def clock(calls: int) -> list[str]:
    """The declarations that a clocked entry needs: the ticks of each kernel, and the processor's clock."""
    return [
        f"{TICKS} = global [{calls} x i64] zeroinitializer, align 8",
        "declare i64 @llvm.readcyclecounter()",
    ]
