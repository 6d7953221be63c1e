"""The calling convention of a routine, `void entry(ptr args)`: slots with addresses and indices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import MapAttr
from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.loops import CollectiveOp, FuncOp, RepeatOp, ScheduledOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.arena import arena_range, arena_ranges, has_own_memory
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import Step, all_steps, declaration, functions, nodes
from ocannl.passes.analysis.schedules.parallel_tasks import task_count


@dataclass(frozen=True)
class EntryLayout:
    """The slots, of 8 bytes each, that a routine's entry `void entry(ptr args)` takes.

    Slot 0 holds the arena's address. `nodes` are the labels of the nodes with memory of their own, whose
    addresses stand from `node_slot` on; `indices` are the static indices, with their values from `index_slot`
    on. A routine with parallel loops has one more: `team_slot` holds the address of four 8-byte numbers, the
    number of threads and the addresses of OpenMP's `GOMP_parallel`, `omp_get_thread_num` and
    `omp_get_num_threads`. One with collectives has a last slot, `engine_slot`, with the address of a
    function: it does the exchange of a number, given the addresses of the target and the source.
    """

    nodes: tuple[str, ...]
    indices: tuple[str, ...]
    arena_bytes: int
    is_parallel: bool = False
    arena_slot: int = 0
    node_slot: int = 1
    exchanges: bool = False

    @cached_property
    def node_slots(self) -> dict[str, int]:
        return {label: slot for slot, label in enumerate(self.nodes, self.node_slot)}

    @property
    def index_slot(self) -> int:
        return self.node_slot + len(self.nodes)

    @property
    def team_slot(self) -> int:
        return self.index_slot + len(self.indices)

    def type_of(self, slot: int) -> str:
        """The type of a slot in LLVM IR."""
        return "i64" if self.index_slot <= slot < self.team_slot else "ptr"

    @property
    def engine_slot(self) -> int:
        return self.team_slot + self.is_parallel

    @property
    def slots(self) -> int:
        return self.engine_slot + self.exchanges


def entry_symbol(routine: str) -> str:
    """The name of a routine's entry in LLVM IR. It has a space, so that no function of the C library, which
    code may call, has it. The names of kernels have a point, those of other functions neither.
    """
    return f"routine {routine}"


def entry_layout(func: FuncOp) -> EntryLayout:
    """The slots of a routine's entry. Raises `OcannlError` for memory that was not planned."""
    steps = all_steps(func)
    for step in steps:
        if type(step) is RepeatOp:
            check_workspace(step)
    arena_bytes = 0
    labels: list[str] = []
    for node in nodes(func):
        if node.mode.data == "local" and node.result.first_use is not None:
            arena_bytes = max(arena_bytes, sum(arena_range(node)))
        elif has_own_memory(node):
            labels.append(node.label.data)
    indices = tuple(n for n, _ in func.indices.data)
    return EntryLayout(
        tuple(labels), indices, arena_bytes, is_parallel(func), exchanges=any(map(exchanges, steps))
    )


def check_workspace(repeat: RepeatOp) -> None:
    """Raises `OcannlError` for a loop whose workspace is smaller than the arena of its body."""
    needed, node = entry_layout(repeat.func).arena_bytes, repeat.workspace
    if needed > (0 if node is None else byte_size(declaration(node))):
        message = f"@{repeat.body.data} needs a workspace of {needed} bytes at least: run plan-memory"
        raise OcannlError(at_line(repeat, message))


def is_parallel(func: FuncOp) -> bool:
    """Whether a step of a routine, or of a body that it repeats, has several tasks."""
    found = all_steps(func)
    return any(
        is_parallel(s.func) if type(s) is RepeatOp else isinstance(s, ScheduledOp) and task_count(s) > 1
        for s in found
    )


def exchanges(step: Step) -> bool:
    """Whether a step is a collective, or repeats one."""
    if type(step) is RepeatOp:
        return any(map(exchanges, all_steps(step.func)))
    return type(step) is CollectiveOp


def collectives(module: ModuleOp) -> list[CollectiveOp]:
    """The collectives of a module, by their numbers."""
    return [step for func in functions(module) for step in all_steps(func) if type(step) is CollectiveOp]


class EntrySlots:
    """The address of each node that a routine uses, as a slot and an offset in bytes.

    `ranges` are the offsets and sizes of nodes in the arena. Raises `OcannlError` for a node without memory.
    """

    def __init__(self, func: FuncOp) -> None:
        self.layout = entry_layout(func)
        used = [node for node in nodes(func) if node.result.first_use is not None]
        slots = self.layout.node_slots
        self.ranges = arena_ranges(node.result for node in used)
        self.starts = {node: (self.layout.arena_slot, start) for node, (start, _) in self.ranges.items()}
        self.starts |= {node.result: (slots[node.label.data], 0) for node in used if has_own_memory(node)}

    def of_element(self, node: SSAValue, element: int) -> tuple[int, int]:
        slot, start = self.starts[node]
        return slot, start + element * element_bytes(node) if element else start

    def of_index(self, name: str) -> tuple[int, int]:
        return self.layout.index_slot + self.layout.indices.index(name), 0


def used_names(step: Operation, ranges: Mapping[str, int | None]) -> tuple[list[SSAValue], list[str]]:
    """The nodes and static indices of a routine that one of its steps uses, in the order of first use."""
    nodes: dict[SSAValue, None] = {}
    indices: dict[str, None] = {}
    block = step.regions[0].block
    for op in step.walk():
        maps = [attribute for attribute in op.properties.values() if isinstance(attribute, MapAttr)]
        if not maps:
            continue
        for operand in op.operands:
            if isinstance(operand.owner, NodeOp) and operand.owner.parent is not block:
                nodes[operand] = None
        for indices_of in maps:
            for index in indices_of.data:
                indices.update(dict.fromkeys(n for n, _ in index.terms if n in ranges))
    return list(nodes), list(indices)
