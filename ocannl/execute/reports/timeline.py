"""When a context compiled and ran its routines, in a file that Perfetto and Chrome's `about:tracing` show.

Source: "Trace Event Format", Google, 2016: complete events (`"ph": "X"`), in microseconds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from pathlib import Path
from threading import get_native_id
from typing import Any
from weakref import WeakSet

from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ocannl.dialects.ir.errors import DeviceError, location_text
from ocannl.dialects.kernel import LaunchOp
from ocannl.dialects.loops import CollectiveOp, GroupOp, NestOp, RepeatOp, StepOp
from ocannl.execute.files.replace_file import check_folder, replacing
from ocannl.execute.routine import Routine
from ocannl.passes.analysis.costs.work import bytes_moved, flops
from ocannl.program.arguments.errors import ArgumentError
from ocannl.runtime.device import Device, Memory, Run

DIVIDED_RUNS = 100
"""So many runs of a routine are divided into kernels: viewers are slow with files of 100 MB."""
PROFILED_RUNS = 3


@dataclass(frozen=True)
class Span:
    """Something that a thread does for some time, by the clock of `time.perf_counter`."""

    name: str
    kind: str
    start: float
    seconds: float
    thread: int = field(default_factory=get_native_id)
    details: dict[str, Any] = field(default_factory=dict[str, Any])

    def event(self) -> dict[str, Any]:
        where = {"pid": os.getpid(), "tid": self.thread}
        times = {"ts": 1e6 * self.start, "dur": 1e6 * self.seconds}
        return {"name": self.name, "cat": self.kind, "ph": "X", **times, **where, "args": self.details}


class TimedRun:
    """A routine on its arguments, whose runs are noted with their times."""

    def __init__(self, run: Run, name: str, device: Device) -> None:
        self.run = run
        self.name = name
        self.device = device
        self.spans: list[Span] = []

    @property
    def call(self) -> Callable[[], None]:
        return self._call

    def _call(self) -> None:
        with self._clock(self.name, "run"):
            self.run.call()

    def loop(
        self,
        *,
        epochs: int,
        ranged: Sequence[tuple[int, int]],
        advance: Sequence[int],
        record: Sequence[Memory],
    ) -> list[NDArray[Any]]:
        with self._clock(f"{self.name}.run_loop(epochs={epochs})", "loop"):
            return self.run.loop(epochs=epochs, ranged=ranged, advance=advance, record=record)

    def profile(self, module: ModuleOp, runs: int) -> dict[StepOp, float]:
        return self.run.profile(module, runs)

    @contextmanager
    def _clock(self, name: str, kind: str) -> Generator[None]:
        start = time.perf_counter()
        try:
            yield
            self.device.synchronize()
        finally:
            self.spans.append(Span(name, kind, start, time.perf_counter() - start))


class Timeline:
    """The routines of a context; while it records, also when they were compiled, and their runs."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.routines = WeakSet[Routine]()
        self.compiled: list[Span] | None = None
        self._timed: dict[Routine, TimedRun] = {}

    @contextmanager
    def recording(self, path: Path) -> Generator[None]:
        """A context at whose end the file is written. Raises `ArgumentError` inside of another, and where
        there is no folder for the file.
        """
        if self.compiled is not None:
            raise ArgumentError("this context is being traced already")
        check_folder(path)
        self.compiled = []
        for routine in self.routines:
            self._time(routine)
        try:
            yield
        finally:
            timed, self._timed = self._timed, {}
            for routine, run in timed.items():
                routine.run = run.run
            compiled, self.compiled = self.compiled, None
            found = [*compiled, *(span for each in timed.items() for span in _spans(*each))]
            with replacing(path) as aside:
                aside.write_text(json.dumps({"traceEvents": [span.event() for span in found]}), "utf-8")

    def add(self, routine: Routine, start: float) -> None:
        """Adds a routine whose compilation began at `start`."""
        self.routines.add(routine)
        if self.compiled is not None:
            self.compiled += _compilation(routine, start)
            self._time(routine)

    def _time(self, routine: Routine) -> None:
        self._timed[routine] = timed = TimedRun(routine.run, routine.name, self.device)
        routine.run = timed


def _compilation(routine: Routine, start: float) -> Iterator[Span]:
    """The compilation of a routine and its passes, which are in the order in which they ran."""
    yield Span(f"compile {routine.name}", "compile", start, time.perf_counter() - start)
    for name, seconds in routine.compile_seconds.items():
        yield Span(name, "pass", start, seconds)
        start += seconds


def _spans(routine: Routine, timed: TimedRun) -> Iterator[Span]:
    """The runs of a routine, the first ones with their kernels. How a run is divided was measured apart."""
    yield from timed.spans
    runs = list(islice((span for span in timed.spans if span.kind == "run"), DIVIDED_RUNS))
    if not runs:
        return
    try:
        seconds = routine.step_seconds(PROFILED_RUNS)
    except DeviceError:  # loops that the host of a GPU drives have no profile
        return
    for run in runs:
        for number, (_, own) in enumerate(groupby(seconds.items(), _func_of)):
            yield from _kernels(replace(run, thread=run.thread + number), [*own])


def _func_of(timed: tuple[StepOp, float]) -> Operation | None:
    """The function of a step: each stage has one, whose kernels are shown as those of another thread."""
    return timed[0].parent_op()


def _kernels(run: Span, timed: Sequence[tuple[StepOp, float]]) -> Iterator[Span]:
    start, slower = run.start, run.seconds / max(sum(median for _, median in timed), 1e-9)
    for step, median in timed:
        details: dict[str, Any] = {"line": location_text(step), "median us": 1e6 * median}
        if isinstance(step, NestOp | GroupOp):
            details |= {"flops": flops(step), "bytes": bytes_moved(step)}
        yield Span(_name(step), "kernel", start, slower * median, run.thread, details)
        start += slower * median


def _name(step: StepOp) -> str:
    match step:
        case NestOp() | GroupOp() | LaunchOp():
            return step.label.data
        case RepeatOp():
            return f"@{step.body.data}"
        case CollectiveOp():
            return step.head
        case _:
            raise AssertionError(f"{step.name} is no step of a scheduled routine")
