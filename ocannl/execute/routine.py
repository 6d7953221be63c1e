"""Compiled routines: their runs, indices and profiles, and the text that was compiled."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.ir.errors import OcannlError
from ocannl.dialects.loops import StepOp
from ocannl.execute.checked_run import checked_run
from ocannl.execute.exclusive import Exclusive
from ocannl.execute.indices.held_index import HeldIndex
from ocannl.execute.indices.index_values import IndexValues, checked_index
from ocannl.execute.memory.merge_buffers import MergeBuffer
from ocannl.execute.memory.node import Node
from ocannl.execute.memory.nodes import ArrayType
from ocannl.execute.memory.of_this_process import OfThisProcess
from ocannl.execute.memory.unwritten import check_written
from ocannl.execute.merging import Merging
from ocannl.execute.recorded_code import with_values
from ocannl.execute.reports.routine_texts import RoutineTexts, Target
from ocannl.execute.turns import Turn
from ocannl.execute.watched_run import show, watched_run
from ocannl.lowering.entry import EntryLayout
from ocannl.lowering.pipelines import PIPELINES, for_target, run_passes
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.program.arguments.checks import integer
from ocannl.program.code import Code
from ocannl.program.eager.engine import ENGINE
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.memory.state import Held
from ocannl.program.mistakes.other_names import NamesApart
from ocannl.program.module.extract import ExtractedRoutine, extract, origin_of
from ocannl.program.tensor import Index, Tensor, TensorLike, as_tensor
from ocannl.program.values import is_memory, memory_key
from ocannl.program.watching import watches_of
from ocannl.runtime.cache.tunings import Tunings
from ocannl.runtime.compile import Executable
from ocannl.runtime.cuda.ptxas import Resources
from ocannl.runtime.device import Memory, Run
from ocannl.runtime.memory import ArgBlock


class Compiler(Target, Protocol):
    """The part of a context that its routines use."""

    memory_for: Callable[[ArrayType, str], Memory]
    mesh: Mapping[str, int]
    turn: Turn

    def compile(
        self,
        code: Code,
        name: str | None = None,
        tunings: Tunings | None = None,
        *,
        trace: bool = False,
        check_nans: bool = False,
    ) -> Routine: ...


@dataclass(frozen=True, slots=True)
class Rerun:
    """Runs of a routine after its first one. They keep its machine code and nodes, but no expressions."""

    call: Callable[[], None]
    keeps: object


class Routine(OfThisProcess, Exclusive, RoutineTexts, NamesApart):
    """Compiled code over the nodes of a context. Calling it runs it once.

    `step[i]` is the value of static index `i` in the next run, `step[i] = 3` sets it, `step(i=3)` sets it by
    name and runs.
    """

    def __init__(
        self,
        context: Compiler,
        code: Code,
        name: str,
        program: ExtractedRoutine,
        executable: Executable,
        nodes: Mapping[str, Node],
        traced: Mapping[str, Node] | None = None,
    ) -> None:
        super().__init__(name)
        self.context = context
        self.code = code
        self.tunings = executable.tunings
        self._program = program
        self._executable = executable
        self._nodes = {**nodes, **(traced or {})}
        self.keys = {origin_of(program, label): label for label in nodes}
        self._written = [
            key for key, label in self.keys.items() if label in executable.interface.facts.writes
        ]
        interface = executable.interface
        self._facts = interface.facts
        self._args = self.bind(interface.layout)
        self._indices = IndexValues(name, interface, self._args.values)
        self._slots, self._surely_valid = self._indices.slots, self._indices.surely_valid
        self._checks = [
            (check, self._nodes[self.keys[least, False]].memory) for check, least in program.checks
        ]
        watches = watches_of(code.statements)
        self._watched = [(watch, self._nodes[self.keys[watch.value, False]].memory) for watch in watches]
        merged = [value.merged for value, is_gradient in self.keys if value.merged and not is_gradient]
        buffers = [node for node in self._nodes.values() if isinstance(node, MergeBuffer)]
        self._merging = Merging(context.turn, [each.context.turn for each in merged], buffers)
        self.run = executable.program.bind(self._args)
        self._ready = False
        self._recording: tuple[frozenset[Tensor], Routine] | None = None
        self._seconds: Mapping[StepOp, float] | None = None
        self._resources: list[Resources] | None = None

    @property
    def _target(self) -> Target:
        return self.context

    @property
    def run(self) -> Run:
        """The compiled code that a call runs."""
        return self._run

    @run.setter
    def run(self, run: Run) -> None:
        self._run = run
        self._call = checked_run(run.call, self._checks) if self._checks else run.call
        if self._merging.is_needed:
            self._call = self._merging.around(self._call)
        if self._watched:
            self._call = watched_run(self._call, self._watched)

    def take_turns(self) -> None:
        """From now on, runs take turns with those of other contexts that read the memory of this one."""
        with self._alone():
            self.run = self._run

    def bind(self, layout: EntryLayout) -> ArgBlock:
        """Arguments for code over this routine's nodes, with slots as given."""
        args = ArgBlock(layout.slots)
        size = max(layout.arena_bytes, 1)
        arena = self.context.memory_for(((size,), np.dtype(np.uint8)), f"the arena of routine {self.name!r}")
        args.set_address(layout.arena_slot, arena.address, arena)
        for slot, label in enumerate(layout.nodes, layout.node_slot):
            memory = self._nodes[label].memory
            args.set_address(slot, memory.address, memory)
        if layout.is_parallel:
            args.set_pointer(layout.team_slot, self.context.team.start())
        return args

    @property
    def rerun(self) -> Rerun:
        """Further runs with the same indices, for a caller that holds the lock."""
        return Rerun(self._call, (self._executable.program, self.run))

    @property
    def indices(self) -> tuple[Index, ...]:
        """The static indices, in the order of their declaration."""
        return self._indices.declared

    def state_roots(self) -> list[Code | Held]:
        """The roots of its state: the memory that the code keeps, and the indices without a range."""
        unranged = [index for index in self.indices if index.range is None]
        return [self.code, *(HeldIndex(self, index) for index in unranged)]

    def __call__(self, **indices: int) -> None:
        """Runs once. Indices that are declared, but that the code does not use, change nothing.

        Raises `UninitializedError` where it would read a node that nobody has written, `OcannlError` for
        values of indices outside of what they select from, while another thread runs it, and after the run
        for ids that are not positions where they must be.
        """
        if self._running:
            raise self._busy()
        self._running = True
        try:
            if indices:
                for name, value in indices.items():
                    self._set_index(name, value)
            if not self._ready:
                self.prepare()
            if RECORDER.living:
                ENGINE.only.settle(self._written, self.context)
            self._call()
        finally:
            self._running = False

    def prepare(self) -> None:
        """Checks the indices, and that the nodes which are read have values. Both stay valid until an index
        is advanced, or set to a value that may be out of range together with others.
        """
        self._indices.check_run()
        check_written(self.name, self._program, self._executable.interface, self._nodes, self.context)
        for label in self._facts.writes:
            if label in self._nodes:
                self._nodes[label].written = True
        self._ready = True

    def _set_index(self, name: str, value: int) -> None:
        if self._indices.set(name, value):
            self._ready = False

    def __getitem__(self, index: Index) -> int:
        # Small routines take no longer than a call more here.
        slot = self._slots.get(index.name) if type(index) is Index else None
        return self._indices.get(checked_index(index).name) if slot is None else self._args.values[slot]

    def __setitem__(self, index: Index, value: int) -> None:
        greatest = self._surely_valid.get(index.name) if type(index) is Index else None
        if greatest is not None and type(value) is int and 0 <= value <= greatest and not self._running:
            self._args.values[self._slots[index.name]] = value
        else:
            with self._alone():
                self._set_index(checked_index(index).name, value)

    def loop(self) -> Iterator[dict[Index, int]]:
        """Runs once for every value of all ranged indices, the last one varying fastest; yields them after
        each run.

        The indices get back the values from before the loop. Raises as a run does.
        """
        ranged = self._indices.ranged
        self._indices.check_loop()
        before = [(self._slots[index.name], self[index]) for index in ranged]
        try:
            yield from self._runs(ranged)
        finally:
            for slot, value in before:
                self._args.values[slot] = value

    def _runs(self, ranged: Sequence[Index]) -> Iterator[dict[Index, int]]:
        """Runs for all values of the indices. It is written for speed: small routines take no longer than
        this loop.
        """
        if not ranged:
            self()
            yield {}
            return
        call, slots, living = self._call, self._args.values, RECORDER.living
        *outer, last = ranged
        place, size = self._slots[last.name], last.range or 0
        if not outer:
            for value in range(size):
                if self._running:
                    raise self._busy()
                self._running = True
                try:
                    slots[place] = value
                    if not self._ready:
                        self.prepare()
                    if living:
                        ENGINE.only.settle(self._written, self.context)
                    call()
                finally:
                    self._running = False
                yield {last: value}
            return
        for values in itertools.product(*(range(index.range or 0) for index in outer)):
            at = dict(zip(outer, values, strict=True))
            fixed = [(self._slots[index.name], value) for index, value in at.items()]
            for value in range(size):
                if self._running:
                    raise self._busy()
                self._running = True
                try:
                    slots[place] = value
                    for slot, outer_value in fixed:
                        slots[slot] = outer_value
                    if not self._ready:
                        self.prepare()
                    if living:
                        ENGINE.only.settle(self._written, self.context)
                    call()
                finally:
                    self._running = False
                yield {**at, last: value}

    def run_loop(
        self, *, epochs: int = 1, advance: Sequence[Index] = (), record: Sequence[TensorLike] = ()
    ) -> dict[Tensor, NDArray[Any]]:
        """The loop over all ranged indices, `epochs` times, without returning to Python.

        `advance` adds 1 to unranged indices after each run. The result holds for each recorded tensor one
        value a run, in an array of shape (runs, *its array's shape), or (runs,) for one number.

        Raises what a call raises, before the first run; for ids that are not positions after the last one.
        """
        epochs = integer(epochs, "the number of epochs")
        with self._alone():
            return self._loop(epochs, advance, [as_tensor(t) for t in record])

    def _loop(
        self, epochs: int, advance: Sequence[Index], recorded: Sequence[Tensor]
    ) -> dict[Tensor, NDArray[Any]]:
        routine = self._keeping(recorded)
        if routine is not self:
            return self._delegate(routine, epochs, advance, recorded)
        ranged = [(self._slots[index.name], index.range or 0) for index in self._indices.ranged]
        runs = epochs * math.prod(size for _, size in ranged)
        self._indices.check_loop(runs, advance)
        if not self._ready:
            self.prepare()
        memories = [self._nodes[self._label_of(t)].memory for t in recorded]
        memories += [least for _, least in self._checks]
        advanced = [self._slots[index.name] for index in advance if index.name in self._slots]
        if RECORDER.living:
            ENGINE.only.settle(self._written, self.context)
        with self._merging.turn():
            found = self.run.loop(epochs=epochs, ranged=ranged, advance=advanced, record=memories)
        self._ready = not advanced
        self._indices.advance_unused(advance, runs)
        if runs:
            show(self._watched)
        for (check, _), leasts in zip(self._checks, found[len(recorded) :], strict=True):
            check.raise_for(float(leasts.min(initial=math.inf)))
        return {t: a.reshape(-1) if self._is_number(t) else a for t, a in zip(recorded, found, strict=False)}

    def _is_number(self, tensor: Tensor) -> bool:
        return math.prod(self._nodes[self._label_of(tensor)].memory.shape) == 1

    def _label_of(self, tensor: Tensor) -> str:
        label = self.keys.get(memory_key(tensor.ir_value))
        if label is None:
            raise OcannlError(
                f"routine {self.name!r} does not compute `{tensor.label}`, so it cannot be recorded"
            )
        return label

    def memory_of(self, tensor: Tensor, *, written: bool = False) -> Memory | None:
        """The memory of a tensor that this routine reads or writes, None for others; with `written`, the
        caller gives it a value before it runs the routine.
        """
        label = self.keys.get(memory_key(tensor.ir_value))
        if label is None:
            return None
        node = self._nodes[label]
        node.written = node.written or written
        return node.memory

    def _keeping(self, recorded: Sequence[Tensor]) -> Routine:
        """This routine, or one of the same code that keeps the recorded expressions in memory too."""
        missing = frozenset(
            t for t in recorded if memory_key(t.ir_value) not in self.keys and not is_memory(t.ir_value)
        )
        if not missing:
            return self
        if self._recording is None or self._recording[0] != missing:
            routine = self.context.compile(with_values(self.code, missing), self.name, self.tunings)
            self._recording = missing, routine
        return self._recording[1]

    def _delegate(
        self, routine: Routine, epochs: int, advance: Sequence[Index], recorded: Sequence[Tensor]
    ) -> dict[Tensor, NDArray[Any]]:
        """Runs the loop on a routine of the same code, with this one's indices."""
        routine.take_indices(self)
        found = routine.run_loop(epochs=epochs, advance=advance, record=recorded)
        self.take_indices(routine)
        return found

    def take_indices(self, other: Routine) -> None:
        """Sets the indices as they are in another routine of the same code."""
        self._indices.take(other._indices)
        self._ready = False

    def lowered(self, target: TargetDescription, pipeline: str = "cpu") -> ModuleOp:
        """The routine scheduled for a CPU; with the schedules that were tuned, if it is the context's."""
        program = extract(self.code.statements, self.name, self.context.numbering.copy())
        is_own = target == self.context.device.target
        find = self.tunings.find if is_own and self.tunings is not None else None
        run_passes(program.module, for_target(PIPELINES[pipeline], target, find))
        return program.module

    def present_arrays(self) -> dict[str, NDArray[Any]]:
        """Copies of the values that the nodes have now, by label. Raises `UninitializedError` where a run
        would read a node that has none.
        """
        check_written(self.name, self._program, self._executable.interface, self._nodes, self.context)
        return {label: node.memory.read() for label, node in self._nodes.items() if node.written}

    def label_of(self, tensor: Tensor) -> str | None:
        """The label of the node of a tensor; None if it has none here."""
        return self.keys.get(memory_key(tensor.ir_value))

    def profile(self, *, runs: int = 10) -> str:
        """Measures how long each kernel takes (the median of some runs), and returns the schedule with it.

        All nodes have the values from before afterwards. Raises as a run does.
        """
        self._seconds = self._measured(integer(runs, "the number of runs", least=1))
        return self.schedule()

    def step_seconds(self, runs: int) -> dict[StepOp, float]:
        """The steps of the routine, or of all stages in order, with the median seconds of each in some runs,
        which leave all nodes as they were. Raises as a run does.
        """
        measured = self._measured(runs)
        return {step: measured[step] for func in self._executable.stages for step in func.steps}

    def _measured(self, runs: int) -> dict[StepOp, float]:
        """The times of all steps, as far as they are known."""
        with self.unchanged(), self._alone(), self._merging.turn():
            return self.run.profile(self._executable.module, runs)

    @contextmanager
    def unchanged(self) -> Generator[Callable[[], None]]:
        """A context after which all nodes have their values from before; its function restores them on the
        way.

        Raises as a run does.
        """
        restore = self.restoring()
        try:
            yield restore
        finally:
            restore()

    def restoring(self) -> Callable[[], None]:
        """A function that gives the nodes that a run writes their present values, or that they have none.
        Raises as a run does.
        """
        written = [self._nodes[label] for label in self._facts.writes if label in self._nodes]
        had_values = [node.written for node in written]
        if not self._ready:
            self.prepare()
        before = [node.memory.read() for node in written]

        def restore() -> None:
            self._ready = False
            for node, values, had_value in zip(written, before, had_values, strict=True):
                node.memory.write(values)
                node.written = had_value

        return restore

    def traced(self) -> Routine:
        """The routine of the same code that keeps the values of all assignments, with indices as here."""
        traced = self.context.compile(self.code, self.name, trace=True)
        traced.take_indices(self)
        return traced

    def __repr__(self) -> str:
        return (
            f"<routine {self.name!r}: {len(self._nodes)} nodes, indices {', '.join(self._slots) or 'none'}>"
        )
