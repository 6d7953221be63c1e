"""Whole modules: a function for each structurally different step of a routine, and an entry for
each routine.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.loops import CollectiveOp, FuncOp, GroupOp, LoadOp, NestOp, RepeatOp, StoreOp
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.lowering.arena import disjoint
from ocannl.lowering.entry import EntryLayout, EntrySlots, collectives, used_names
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.debug_info import DebugInfo
from ocannl.lowering.llvm.machine import Machine
from ocannl.lowering.loops_to_llvm.calls import MOST_CALLS, Call, call_table, clock, direct_calls, run_calls
from ocannl.lowering.loops_to_llvm.environment import Environment
from ocannl.lowering.loops_to_llvm.frame import (
    TEAM,
    call_on_frame,
    exchange_on_frame,
    share_of_tasks,
    signature,
)
from ocannl.lowering.loops_to_llvm.group import GroupEmitter
from ocannl.lowering.loops_to_llvm.kept_copies import count_write, emit_where_stale
from ocannl.lowering.loops_to_llvm.nest import NestEmitter
from ocannl.lowering.loops_to_llvm.repeat import call_arguments, loop_text
from ocannl.lowering.loops_to_llvm.scheduled_nest import emit_nest
from ocannl.lowering.loops_to_llvm.tile_access import NONTEMPORAL
from ocannl.passes.analysis.dataflow.kept_copies import counted_writes, is_kept
from ocannl.passes.analysis.equality.structural_equality import StructuralNumbering
from ocannl.passes.analysis.nests import functions, has_points, uncalled
from ocannl.passes.analysis.schedules.parallel_tasks import task_count
from ocannl.passes.analysis.targets.target import DEFAULT_TARGET, TargetDescription

ATTRIBUTES = 'attributes #0 = { nounwind "prefer-vector-width"="512" }'


def loops_to_llvm(
    module: ModuleOp, *, clocked: bool = False, target: TargetDescription = DEFAULT_TARGET
) -> str:
    """The LLVM IR text of all routines of a module, for a processor; `clocked` ones add up the time of each
    kernel and of each loop, in the order of the text.
    """
    return ModuleEmitter(clocked, target).emit(module)


@dataclass(frozen=True, slots=True)
class Kernel:
    """The function that runs a step, or of one with several tasks, one of these.

    Its arguments are pointers to the `first` elements of nodes that it needs, and static `indices`; then the
    number of the task.
    """

    name: str
    tasks: int
    first: Sequence[int]
    indices: Sequence[str]


@dataclass
class ModuleEmitter:
    """Emits routines; equal steps share a function."""

    clocked: bool = False
    target: TargetDescription = DEFAULT_TARGET
    checks: bool = False
    counts_writes: bool = False
    debug: DebugInfo | None = None
    parts: list[str] = field(default_factory=list[str])
    declarations: set[str] = field(default_factory=set[str])
    structures: StructuralNumbering = field(default_factory=StructuralNumbering)
    known: dict[Hashable, Kernel] = field(default_factory=dict[Hashable, Kernel])
    functions: dict[str, str] = field(default_factory=dict[str, str])
    runners: dict[str, str] = field(default_factory=dict[str, str])
    """The functions that run calls on a frame, by what they do."""
    helpers: dict[str, None] = field(default_factory=dict[str, None])
    names: set[str] = field(default_factory=set[str])
    exchanges: Mapping[Operation, int] = field(default_factory=dict[Operation, int])
    """The numbers of collectives."""
    timed: int = 0
    """The steps of the routines so far."""

    def emit(self, module: ModuleOp) -> str:
        """The text of all routines of a module."""
        entries = uncalled(module) if self.counts_writes else []
        self.exchanges = {step: number for number, step in enumerate(collectives(module))}
        for func in functions(module):
            self.emit_func(func, counted_writes(func) if func in entries else ())
        if self.clocked:
            self.declarations.update(clock(self.timed))
        parts = [*self.parts, *self.helpers, *sorted(self.declarations), ATTRIBUTES]
        return "\n\n".join(parts if self.debug is None else [*parts, self.debug.text()]) + "\n"

    def emit_body(self, env: Environment, step: Operation) -> None:
        match step:
            case NestOp() | GroupOp() if not has_points(step):
                return
            case NestOp():
                if is_kept(step):
                    emit_where_stale(NestEmitter(env, step))
                else:
                    emit_nest(env, step)
            case GroupOp():
                GroupEmitter(env, step).emit()
            case _:
                raise AssertionError(f"{step.name} is no step of a routine for a CPU")

    def emit_func(self, func: FuncOp, written: Sequence[SSAValue] = ()) -> None:
        """Emits the entry of a function, which counts a write of each of the nodes `written`."""
        places, name = EntrySlots(func), func.sym_name.data
        steps = [op for op in operations_of(func.body.block) if not isinstance(op, NodeOp)]
        calls = [self.call(func, step, places) for step in steps]
        counted = [
            line
            for k, node in enumerate(written)
            for line in count_write(f"%w{k}", places.of_element(node, 0)[0])
        ]
        is_direct = len(calls) <= MOST_CALLS and not self.clocked
        calls = [self.with_runner(c, places.layout) if c.is_shared or not is_direct else c for c in calls]
        if is_direct:
            self.parts.append(direct_calls(name, places.layout, calls, counted))
            return
        self.parts.append(
            call_table(name, places.layout, calls, self.timed if self.clocked else None, counted)
        )
        self.helpers |= dict.fromkeys([TEAM, run_calls(clocked=self.clocked)])
        self.timed += len(calls)

    def call(self, func: FuncOp, step: Operation, places: EntrySlots) -> Call:
        """The call of a step's kernel: one for all nests or groups that are equal but for names."""
        if isinstance(step, RepeatOp):
            return self.call_repeat(func, step, places)
        if isinstance(step, CollectiveOp):
            target, source = (step.nodes * 2)[:2] if step.message is not None else step.nodes
            given = [places.of_element(node, 0) for node in (target, source)]
            return Call.of_exchange(self.exchanges[step], [*given, (places.layout.engine_slot, 0)])
        if (
            isinstance(step, NestOp | GroupOp)
            and not self.checks
            and (self.debug is None or self.debug.is_shared)
        ):
            what, nodes = self.structures.number_and_nodes(step)
        else:
            what, nodes = step, used_names(step, func.ranges)[0]
        alone = disjoint(nodes, places.ranges)
        apart = tuple([node in alone for node in nodes])
        kind = what, apart, isinstance(step, NestOp) and is_kept(step)
        kernel = self.known.get(kind)
        if kernel is None:
            kernel = self.known[kind] = self.emit_kernel(func, step, nodes, apart)
        arguments = [places.of_element(n, first) for n, first in zip(nodes, kernel.first, strict=True)]
        return Call(kernel.name, kernel.tasks, arguments + [places.of_index(n) for n in kernel.indices])

    def call_repeat(self, func: FuncOp, step: RepeatOp, places: EntrySlots) -> Call:
        """The call of a function that runs a body's entry, with slots of its own, at each iteration."""
        name = self.function(f"{func.sym_name.data}.repeat {step.body.data}", loop_text(step, places))
        return Call(name, 1, call_arguments(step, places))

    def with_runner(self, call: Call, layout: EntryLayout) -> Call:
        """The call with the function that runs it with arguments in a frame."""
        types = call.types(layout)
        kind, text = "on_frame", call_on_frame
        if call.exchange is not None:
            kind, text = "exchange", exchange_on_frame
        elif call.is_shared:
            kind, text = "share", share_of_tasks
        name = f"{kind}.{signature(types)}"
        if name not in self.runners:
            self.runners[name] = self.function(name, text(types))
            self.helpers |= dict.fromkeys([TEAM] if call.is_shared else [])
        return replace(call, runner=self.runners[name])

    def emit_kernel(
        self, func: FuncOp, step: Operation, nodes: Sequence[SSAValue], apart: Sequence[bool]
    ) -> Kernel:
        """Emits the function of a step; `apart` tells which of its nodes alias no other."""
        label = step.properties["label"]
        assert isinstance(label, StringAttr)
        debug = None if self.debug is None else self.debug.function(label.data, step)
        place_of = None if self.debug is None or debug is None else partial(self.debug.place, debug)
        b = FunctionBuilder(Machine.of(self.target), checks=self.checks, place_of=place_of)
        _, indices = used_names(step, func.ranges)
        pointers = {node: f"%p{k}" for k, node in enumerate(nodes)}
        positions = {name: Position(f"%s{k}") for k, name in enumerate(indices)}
        is_step = isinstance(step, NestOp | GroupOp)
        first = first_elements(step) if is_step and not self.checks else {}
        self.emit_body(Environment(b, pointers, first, positions), step)
        if NONTEMPORAL in b.declarations:
            # Non-temporal stores are ordered before what other threads do next only by a fence.
            b.emit_void("fence seq_cst")
        parameters = [f"ptr{' noalias' if a else ''} %p{k}" for k, a in enumerate(apart)]
        parameters += [f"i64 {positions[name].name}" for name in indices]
        name = f"{func.sym_name.data}.{label.data}"
        tasks = task_count(step) if isinstance(step, NestOp | GroupOp) else 1
        if tasks > 1:
            parameters.append("i64 %task")
        head = "#0" if debug is None else f"#0 !dbg {debug}"
        kernel = self.function(name, f"({', '.join(parameters)}) {head} {{\n{b.text()}\n  ret void\n}}")
        self.declarations |= b.declarations
        return Kernel(kernel, tasks, [first.get(node, 0) for node in nodes], indices)

    def function(self, name: str, rest: str) -> str:
        """The name of the function with this text, emitted unless an equal one was before."""
        if rest not in self.functions:
            # What begins with `llvm.` is an intrinsic.
            name = re.sub(r"^(?=llvm\.)|[^\w.$-]", "_", name, flags=re.ASCII)
            unique, count = name, 1
            while unique in self.names:
                unique, count = f"{name}.{count}", count + 1
            self.names.add(unique)
            self.functions[rest] = f'@"{unique}"'
            self.parts.append(f'define internal void @"{unique}"{rest}')
        return self.functions[rest]


def first_elements(step: NestOp | GroupOp) -> dict[SSAValue, int]:
    """The first element that a step accesses of each node, where it is not element 0.

    A step gets the pointer to it, so that equal steps on other parts of a node are one function.
    """
    first: dict[SSAValue, int] = {}
    for op in step.walk():
        if isinstance(op, LoadOp | StoreOp):
            constant = address_of(op).constant
            first[op.node] = min(constant, first.get(op.node, constant))
    return {node: element for node, element in first.items() if element > 0}
