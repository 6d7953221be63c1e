"""Routines on an NVIDIA GPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.loops import StepOp
from ocannl.lowering.entry import EntryLayout
from ocannl.runtime.cuda.bound_steps import BoundExchange, BoundLaunch, Exchanging
from ocannl.runtime.cuda.dependences import dependences
from ocannl.runtime.cuda.gpu import Gpu
from ocannl.runtime.cuda.graph import KernelGraph
from ocannl.runtime.cuda.record import Recorder
from ocannl.runtime.device import Memory
from ocannl.runtime.interface import the_func
from ocannl.runtime.kernel_plan import ExchangeRun, KernelRun, Look, Plan
from ocannl.runtime.memory import ArgBlock


class CudaProgram:
    """A routine whose kernels are loaded: `functions` by their names. It has so many `steps`: kernels and
    loops.
    """

    def __init__(
        self,
        device: Gpu,
        name: str,
        plan: Plan,
        steps: int,
        layout: EntryLayout,
        functions: Mapping[str, Any],
    ) -> None:
        self.device = device
        self.name = name
        self.plan = plan
        self.steps = steps
        self.layout = layout
        self.functions = functions

    def bind(self, args: ArgBlock, exchanger: Exchanging | None = None) -> CudaRun:
        """`exchanger` is for a routine of several ranks."""
        return CudaRun(self, args, exchanger)

    @cached_property
    def dependences(self) -> list[list[list[int]]]:
        """For each kernel the numbers of those that it waits for; of a plan without flags. It is in parts,
        between which ranks exchange something.
        """
        parts: list[list[KernelRun]] = [[]]
        for step in self.plan:
            if isinstance(step, ExchangeRun):
                parts.append([])
            elif isinstance(step, KernelRun):
                parts[-1].append(step)
        return [dependences(part) for part in parts]


Step: TypeAlias = BoundLaunch | BoundExchange | Look


class CudaRun:
    """A routine on a block of arguments: a graph of its kernels, which is launched and not waited for. Where
    ranks exchange something, that comes between two graphs in the same stream.

    Where a loop has a flag, the host launches kernel by kernel, and waits where it looks at the flag.
    """

    def __init__(self, program: CudaProgram, args: ArgBlock, exchanger: Exchanging | None) -> None:
        self.program = program
        self.device = program.device
        self.args = args
        self.name = program.name
        self.exchanger = exchanger
        self.steps = self.new_steps()
        self.launches = [step for step in self.steps if isinstance(step, BoundLaunch)]
        self.has_flags = any(isinstance(step, Look) for step in self.steps)
        self.call: Callable[[], None] = (
            self.run_one_by_one if self.device.is_synchronous or self.has_flags else self.launch_parts
        )
        self.parts: list[KernelGraph | BoundExchange] = []
        """The graphs and exchanges that a run launches, once they are built."""
        self.indexed: list[tuple[BoundLaunch, KernelGraph, Any]] = []
        layout = program.layout
        self.index_slots = args.slots[layout.index_slot : layout.index_slot + len(layout.indices)]
        self.indices: list[int] = self.index_slots.tolist()

    def new_steps(self) -> list[Step]:
        """All kernels in order, with the present values of indices, and what is between them."""
        return [self.bound(step) for step in self.program.plan]

    def bound(self, step: KernelRun | ExchangeRun | Look) -> Step:
        if isinstance(step, Look):
            return step
        if isinstance(step, ExchangeRun):
            assert self.exchanger is not None, "routines of ranks are bound with what exchanges"
            return BoundExchange(step, self.exchanger, self.args)
        program = self.program
        return BoundLaunch(self.device, step, program.functions, program.layout, self.args)

    def launch_parts(self) -> None:
        """Launches all kernels at once, after it has set the arguments of those with a changed index."""
        if not self.steps:
            return
        if not self.parts:
            self.device.enter()
            self.parts = self.build_parts()
        if self.indexed:
            self.set_indices()
        self.device.running[self.name] = None
        for part in self.parts:
            part.launch()

    def build_parts(self) -> list[KernelGraph | BoundExchange]:
        """Graphs of kernels, in which each waits for those whose memory it needs, and exchanges."""
        launches = iter(self.launches)
        exchanges = iter([step for step in self.steps if isinstance(step, BoundExchange)])
        parts: list[KernelGraph | BoundExchange] = []
        for waiting in self.program.dependences:
            if waiting:
                parts.append(self.graph_of(list(itertools.islice(launches, len(waiting))), waiting))
            parts += itertools.islice(exchanges, 1)
        return parts

    def graph_of(self, launches: Sequence[BoundLaunch], waiting: Sequence[Sequence[int]]) -> KernelGraph:
        graph = KernelGraph(self.device, self.program)
        nodes: list[Any] = []
        for launch, before in zip(launches, waiting, strict=True):
            node = graph.add(launch, [nodes[number] for number in before])
            nodes.append(node)
            if launch.is_indexed:
                self.indexed.append((launch, graph, node))
        graph.finish()
        return graph

    def set_indices(self) -> None:
        indices: list[int] = self.index_slots.tolist()
        if indices != self.indices:
            self.indices = indices
            self.device.enter()
            for launch, graph, node in self.indexed:
                if launch.take(indices):
                    graph.set_arguments(node, launch)

    def run_one_by_one(self) -> None:
        """Launches each kernel alone; waits for it if the device is synchronous, else at flags of loops."""
        self.device.enter()
        self.device.running[self.name] = None
        indices: list[int] = self.index_slots.tolist()
        at = 0
        while at < len(self.steps):
            step, at = self.steps[at], at + 1
            if isinstance(step, BoundLaunch):
                step.take(indices)
                step.alone() if self.device.is_synchronous else step.start()
            elif isinstance(step, BoundExchange):
                step.launch()
            elif not self.goes_on(step):
                at = step.stop

    def goes_on(self, look: Look) -> bool:
        """Whether the flag of a loop is not 0, after all kernels so far."""
        slot, offset = look.place
        found = np.empty(look.bytes, np.uint8)
        self.device.read(int(self.args.slots[slot]) + offset, found)
        return look.goes_on(found.tobytes())

    def loop(
        self,
        *,
        epochs: int,
        ranged: Sequence[tuple[int, int]],
        advance: Sequence[int],
        record: Sequence[Memory],
    ) -> list[NDArray[Any]]:
        """Launches the routine for all values of its ranged indices, and waits for all of it."""
        values = self.args.slots
        slots = np.array([slot for slot, _ in ranged], np.intp)
        before = values[slots]
        runs = epochs * prod(size for _, size in ranged)
        recorders = [Recorder(self.device, memory, runs) for memory in record]
        try:
            for _ in range(epochs):
                for point in itertools.product(*(range(size) for _, size in ranged)):
                    values[slots] = point
                    self.call()
                    for recorder in recorders:
                        recorder.keep()
                    for slot in advance:
                        values[slot] += 1
        finally:
            values[slots] = before
        self.device.synchronize()
        return [recorder.finish() for recorder in recorders]

    def profile(self, module: ModuleOp, runs: int) -> dict[StepOp, float]:
        """The median seconds from the end of one kernel to that of the next, in launches of a graph; those of
        the kernels of a loop together. What two events take by themselves is subtracted.

        A first launch, which warms up, is not counted. Raises `DeviceError` where a loop has a flag.
        """
        if self.has_flags:
            raise DeviceError(f"there are no times of routine {self.name!r}: a loop in it looks at a flag")
        device = self.device
        device.enter()
        with ExitStack() as stack:
            idle, *events = [new_event(device, stack) for _ in range(len(self.steps) + 2)]
            parts = self.timed_parts(idle, events)
            spent: list[list[float]] = []
            for _ in range(runs + 1):
                for part in parts:
                    part.launch()
                device.synchronize(f"routine {self.name!r} failed")
                spent.append([elapsed(device, *pair) for pair in itertools.pairwise([idle, *events])])
        # A loop without kernels has a time, too.
        found = np.zeros(self.program.steps)
        between, *times = np.median(np.array(spent[1:]), axis=0)
        owners = [step.step for step in self.steps if not isinstance(step, Look)]
        np.add.at(found, owners, np.maximum(np.array(times) - between, 0))
        return dict(zip(the_func(module).steps, found.tolist(), strict=True))

    def timed_parts(self, idle: Any, events: Sequence[Any]) -> list[KernelGraph | BoundExchange]:
        """Parts of a run, kernels one after the other, with an event after each step; the first two come
        before all steps.
        """
        graph = KernelGraph(self.device, self.program)
        graph.add_event(idle)
        graph.add_event(events[0])
        parts: list[KernelGraph | BoundExchange] = [graph]
        for step, event in zip(self.new_steps(), events[1:], strict=True):
            if isinstance(step, BoundExchange):
                graph = KernelGraph(self.device, self.program)
                parts += [step, graph]
            elif isinstance(step, BoundLaunch):
                graph.add(step)
            graph.add_event(event)
        for part in parts:
            if isinstance(part, KernelGraph):
                part.finish()
        return parts


def new_event(device: Gpu, stack: ExitStack) -> Any:
    """An event that is destroyed with the stack."""
    event = device.ask("cuEventCreate", device.driver.api.CUevent_flags.CU_EVENT_DEFAULT.value)
    stack.callback(device.driver.api.cuEventDestroy, event)
    return event


def elapsed(device: Gpu, start: Any, end: Any) -> float:
    """The seconds between two events."""
    return float(device.ask("cuEventElapsedTime", start, end)) / 1e3
