"""The entry of a routine `void name(ptr args)`: what its slots hold, and the functions that read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.ir import SSAValue

from ocannl.dialects.assign import OWN_MEMORY, NodeOp
from ocannl.dialects.errors import OcannlError, at_line
from ocannl.dialects.loop_values import element_type
from ocannl.dialects.loops import FuncOp
from ocannl.lowering.loops_to_llvm.types import value_type
from ocannl.passes.nests import steps
from ocannl.passes.tasks import task_count

# What all nests with tasks use. A thread has the same part of one nest and of the next, so that what it reads
# is in its cache where it wrote it.
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


# How many calls one function has at most.
MOST_CALLS = 32
# Where a clocked entry adds up its ticks.
TICKS = '@"kernel ticks"'


@dataclass(frozen=True)
class EntryLayout:
    """What a routine's entry `void name(ptr args)` expects in its slots of 8 bytes.

    Slot 0 holds the arena's address. `nodes` are the labels of the nodes with memory of their own, whose
    addresses stand from `node_slot` on; `indices` are the static indices, with their values from `index_slot`
    on. A routine with parallel loops has one more: `team_slot` holds the address of four 8-byte numbers, the
    number of threads and the addresses of OpenMP's `GOMP_parallel`, `omp_get_thread_num` and
    `omp_get_num_threads`.
    """

    nodes: tuple[str, ...]
    indices: tuple[str, ...]
    arena_bytes: int
    is_parallel: bool = False
    arena_slot: int = 0
    node_slot: int = 1

    @cached_property
    def node_slots(self) -> dict[str, int]:
        return {label: slot for slot, label in enumerate(self.nodes, self.node_slot)}

    @property
    def index_slot(self) -> int:
        return self.node_slot + len(self.nodes)

    @property
    def team_slot(self) -> int:
        return self.index_slot + len(self.indices)

    @property
    def slots(self) -> int:
        return self.team_slot + self.is_parallel


def entry_layout(func: FuncOp) -> EntryLayout:
    """The slots of a routine's entry."""
    arena_bytes = 0
    labels: list[str] = []
    for node in func.body.block.ops:
        if not isinstance(node, NodeOp):
            continue
        if node.mode.data == "local" and node.result.first_use is not None:
            arena_bytes = max(arena_bytes, sum(arena_range(node)))
        elif has_own_memory(node):
            labels.append(node.label.data)
    is_parallel = any(task_count(step) > 1 for step in steps(func))
    return EntryLayout(tuple(labels), tuple(n for n, _ in func.indices.data), arena_bytes, is_parallel)


def has_own_memory(node: NodeOp) -> bool:
    """The node is passed by pointer, and keeps its values between runs."""
    return node.mode.data in OWN_MEMORY


def arena_range(node: NodeOp) -> tuple[int, int]:
    """Offset and size of a local node in the arena, in bytes. Raises `OcannlError` if it has no place."""
    if node.mode.data != "local":
        raise OcannlError(at_line(node, f"{node.mode.data} node `{node.label.data}` is in use"))
    if node.offset is None:
        raise OcannlError(
            at_line(node, f"local node `{node.label.data}` has no place in the arena: run plan-memory")
        )
    size = value_type(node.result.type.get_element_type()).bytes
    for extent in node.result.type.get_shape():
        size *= extent
    return node.offset.data, size


@dataclass(slots=True)
class Part:
    """Some of the calls of an entry, with what they use: the nodes, and pointers to elements of them."""

    lines: list[str] = field(default_factory=list[str])
    nodes: set[SSAValue] = field(default_factory=set[SSAValue])
    elements: set[str] = field(default_factory=set[str])
    calls: int = 0
    frame_slots: int = 0


class Entry:
    """The function `void name(ptr args)` of a routine: it calls one kernel after the other.

    Long ones are in parts, functions of their own: LLVM takes more than twice as long for a function with
    twice as many calls that share pointers.
    """

    def __init__(self, func: FuncOp) -> None:
        self.layout = entry_layout(func)
        owners = [
            op for op in func.body.block.ops if isinstance(op, NodeOp) and op.result.first_use is not None
        ]
        self.owners: dict[SSAValue, NodeOp] = {owner.result: owner for owner in owners}
        self.pointers: dict[SSAValue, str] = {node: f"%n{k}" for k, node in enumerate(self.owners)}
        self.parts: list[Part] = []
        self.open_part()

    def open_part(self) -> None:
        self.part = Part()
        self.parts.append(self.part)

    def arguments(self, nodes: Sequence[SSAValue], first: Sequence[int], indices: Sequence[str]) -> list[str]:
        """What a kernel is called with next, with types: pointers to its nodes, or to elements of them."""
        if self.part.calls == MOST_CALLS:
            self.open_part()
        self.part.calls += 1
        return [
            *(f"ptr {self.pointer(node, element)}" for node, element in zip(nodes, first, strict=True)),
            *(f"i64 %index.{name}" for name in indices),
        ]

    def pointer(self, node: SSAValue, element: int) -> str:
        part, start = self.part, self.pointers[node]
        part.nodes.add(node)
        if not element:
            return start
        name = f"{start}.{element}"
        if name not in part.elements:
            part.elements.add(name)
            type = value_type(element_type(node)).element
            part.lines.append(f"  {name} = getelementptr {type}, ptr {start}, i64 {element}")
        return name

    def call(self, kernel: str, arguments: Sequence[str]) -> None:
        self.part.lines.append(f"  call void {kernel}({', '.join(arguments)})")

    def run_by_team(self, share: str, arguments: Sequence[str]) -> None:
        """Has all threads run their shares of a kernel's tasks: they find its arguments in a frame."""
        lines = self.part.lines
        number = self.part.calls
        for k, argument in enumerate(["ptr %team", *arguments]):
            place = f"%frame.{number}.{k}"
            lines.append(f"  {place} = getelementptr i64, ptr %frame, i64 {k}")
            lines.append(f"  store {argument}, ptr {place}, align 8")
        lines.append(f'  call void @"run by team"(ptr {share}, ptr %frame, ptr %team)')
        self.part.frame_slots = max(self.part.frame_slots, 1 + len(arguments))

    def text(self, name: str) -> str:
        """The function, and those of its parts if there are several."""
        if len(self.parts) == 1:
            return self.function(f'void @"{name}"', self.part)
        names = [f'@"{name} part {k}"' for k in range(len(self.parts))]
        parts = [self.function(f"internal void {n}", p) for n, p in zip(names, self.parts, strict=True)]
        calls = [f"  call void {n}(ptr %args)" for n in names]
        whole = "\n".join([f'define void @"{name}"(ptr %args) #0 {{', *calls, "  ret void", "}"])
        return "\n\n".join([*parts, whole])

    def function(self, head: str, part: Part) -> str:
        frame = [f"  %frame = alloca [{part.frame_slots} x i64], align 8"] if part.frame_slots else []
        lines = [*frame, *self.loads(part), *part.lines]
        return "\n".join([f"define {head}(ptr %args) #0 {{", *lines, "  ret void", "}"])

    def loads(self, part: Part) -> list[str]:
        """The addresses and numbers that the calls of a part need, from the slots."""
        layout = self.layout
        used = [(name, self.owners[node]) for node, name in self.pointers.items() if node in part.nodes]
        lines: list[str] = []
        if not all(has_own_memory(owner) for _, owner in used):
            lines.append("  %arena = load ptr, ptr %args, align 8")
        for name, owner in used:
            if has_own_memory(owner):
                lines += load_slot("%args", name, "ptr", layout.node_slots[owner.label.data])
            else:
                lines.append(f"  {name} = getelementptr i8, ptr %arena, i64 {arena_range(owner)[0]}")
        for slot, name in enumerate(layout.indices, layout.index_slot):
            lines += load_slot("%args", f"%index.{name}", "i64", slot)
        if layout.is_parallel:
            lines += load_slot("%args", "%team", "ptr", layout.team_slot)
        return lines


class ClockedEntry(Entry):
    """An entry that adds up how long each kernel takes, in ticks of the processor's clock."""

    def __init__(self, func: FuncOp) -> None:
        self.count = 0
        super().__init__(func)

    def open_part(self) -> None:
        super().open_part()
        self.tick()

    def call(self, kernel: str, arguments: Sequence[str]) -> None:
        super().call(kernel, arguments)
        self.add_up()

    def run_by_team(self, share: str, arguments: Sequence[str]) -> None:
        super().run_by_team(share, arguments)
        self.add_up()

    def tick(self) -> None:
        self.part.lines.append(f"  %tick{self.count} = call i64 @llvm.readcyclecounter()")

    def add_up(self) -> None:
        k = self.count
        self.count += 1
        self.tick()
        self.part.lines += [
            f"  %spent{k} = sub i64 %tick{self.count}, %tick{k}",
            f"  %ticks{k} = getelementptr i64, ptr {TICKS}, i64 {k}",
            f"  %before{k} = load i64, ptr %ticks{k}, align 8",
            f"  %after{k} = add i64 %before{k}, %spent{k}",
            f"  store i64 %after{k}, ptr %ticks{k}, align 8",
        ]

    def declarations(self) -> list[str]:
        """The ticks of each kernel, and the clock."""
        return [
            f"{TICKS} = global [{self.count} x i64] zeroinitializer, align 8",
            "declare i64 @llvm.readcyclecounter()",
        ]


def load_slot(block: str, name: str, type: str, number: int) -> list[str]:
    return [
        f"  {name}.slot = getelementptr i64, ptr {block}, i64 {number}",
        f"  {name} = load {type}, ptr {name}.slot, align 8",
    ]


def share_of_tasks(kernel: str, nodes: int, indices: int, tasks: int) -> str:
    """The body of a function that runs a thread's share of the tasks of a kernel with so many arguments.

    They stand in the frame that it gets, after the team.
    """
    types = ["ptr"] * nodes + ["i64"] * indices
    arguments = [(type, f"%a{k}") for k, type in enumerate(types)]
    loads = [
        line for k, (type, name) in enumerate(arguments) for line in load_slot("%frame", name, type, k + 1)
    ]
    passed = ", ".join([*(f"{type} {name}" for type, name in arguments), "i64 %task"])
    return "\n".join(
        [
            "(ptr %frame) #0 {",
            *load_slot("%frame", "%team", "ptr", 0),
            *loads,
            f'  %share = call {{ i64, i64 }} @"share of thread"(ptr %team, i64 {tasks})',
            "  %start = extractvalue { i64, i64 } %share, 0",
            "  %stop = extractvalue { i64, i64 } %share, 1",
            "  %some = icmp ult i64 %start, %stop",
            "  br i1 %some, label %run, label %done",
            "run:",
            "  %task = phi i64 [ %start, %0 ], [ %task.next, %run ]",
            f"  call void {kernel}({passed})",
            "  %task.next = add i64 %task, 1",
            "  %more = icmp ult i64 %task.next, %stop",
            "  br i1 %more, label %run, label %done",
            "done:",
            "  ret void",
            "}",
        ]
    )
