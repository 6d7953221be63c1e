"""Routines that keep the values of all assignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ocannl.dialects.ir.errors import OcannlError
from ocannl.execute.memory.node import Node
from ocannl.execute.reports.trace import Seen, Step, Trace, check_finite
from ocannl.execute.routine import Compiler, Routine
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.code import Code
from ocannl.program.module.extract import ExtractedRoutine
from ocannl.program.text.unnamed import expression_of
from ocannl.runtime.assignments import Assignment
from ocannl.runtime.collectives.device import MeshDevice
from ocannl.runtime.collectives.memory import MeshMemory
from ocannl.runtime.compile import Executable
from ocannl.runtime.device import Memory


class TracedRoutine(Routine):
    """A routine whose `trace` has the values of all assignments of the last run. With `check_nans`, a run
    raises `OcannlError` at the first that is NaN or infinite, and leaves memory as it was.
    """

    def __init__(
        self,
        context: Compiler,
        code: Code,
        name: str,
        program: ExtractedRoutine,
        executable: Executable,
        nodes: Mapping[str, Node],
        traced: Mapping[str, Node],
        assignments: Sequence[Assignment],
        check_nans: bool,
    ) -> None:
        super().__init__(context, code, name, program, executable, nodes, traced)
        self._assignments = assignments
        self._check_nans = check_nans
        self._read = [kept.memory for one in assignments for kept in one.read if kept.memory in nodes]
        self._labels_of_checks = frozenset(self.keys[least, False] for _, least in program.checks)
        self._trace: Trace | None = None

    @property
    def trace(self) -> Trace:
        """The values of the last run. Raises `ArgumentError` before the first one."""
        if self._trace is None:
            raise ArgumentError(f"routine {self.name!r} has not run yet, so there is no trace of it")
        return self._trace

    def set_indices(self, indices: Mapping[str, int]) -> None:
        """Sets static indices by name, as a call does."""
        with self._alone():
            for name, value in indices.items():
                self._set_index(name, value)

    def debugged(self, indices: Mapping[str, int]) -> Trace:
        """The trace of a run at values of static indices; memory is as before afterwards."""
        self.set_indices(indices)
        with self.unchanged():
            self()
        return self.trace

    def __call__(self, **indices: int) -> None:
        """Runs once, as any routine does, and notes what it has computed."""
        self.set_indices(indices)
        restore = self.restoring() if self._check_nans else None
        before = self._values_of(self._read)
        super().__call__()
        self._trace = self._traced(before)
        if restore is not None:
            try:
                check_finite(self._trace, self._labels_of_checks)
            except OcannlError:
                restore()
                raise

    def _traced(self, before: Mapping[str, Seen]) -> Trace:
        """The values after a run."""
        kept = [kept.memory for one in self._assignments for kept in (one.written, *one.read)]
        found = self._values_of(kept)
        steps = [
            Step(one, found[one.written.memory], expression_of(one.label, self._program.values))
            for one in self._assignments
        ]
        device = self.context.device
        ranks = device.grid.ranks if isinstance(device, MeshDevice) else 1
        return Trace(self.name, steps, before, found, ranks)

    def _values_of(self, labels: Iterable[str]) -> dict[str, Seen]:
        """The values of memory, each once, in order: all ranks of a mesh take part."""
        return {label: _seen(self._nodes[label].memory) for label in dict.fromkeys(labels)}


def _seen(memory: Memory) -> Seen:
    if not isinstance(memory, MeshMemory):
        return Seen(memory.read())
    ranks, value = memory.read_apart()
    return Seen(value, ranks)
