"""Routines on an NVIDIA GPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.ir.errors import DeviceError
from ocannl.lowering.entry import EntryLayout
from ocannl.runtime.cuda.dependences import dependences
from ocannl.runtime.cuda.gpu import Gpu
from ocannl.runtime.cuda.graph import KernelGraph, Launch
from ocannl.runtime.cuda.record import Recorder
from ocannl.runtime.device import Memory
from ocannl.runtime.kernel_plan import Index, KernelRun, Look, Plan
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

    def bind(self, args: ArgBlock) -> CudaRun:
        return CudaRun(self, args)

    @cached_property
    def dependences(self) -> list[list[int]]:
        """For each kernel the numbers of those that it waits for; of a plan without flags."""
        return dependences([step for step in self.plan if isinstance(step, KernelRun)])


class BoundLaunch(Launch):
    """A kernel whose arguments are slots of a routine's, and indices of loops."""

    def __init__(self, program: CudaProgram, run: KernelRun, args: ArgBlock) -> None:
        self.step = run.step
        self.where = [i if i.slot is None else Index(i.slot - program.layout.index_slot) for i in run.indices]
        self.is_indexed = any(index.slot is not None for index in run.indices)
        self.indices = [
            index.value if index.slot is None else args.index(index.slot) for index in run.indices
        ]
        addresses = [int(args.slots[slot]) + offset for slot, offset in run.buffers]
        values = np.array([*addresses, *self.indices], np.int64)
        super().__init__(program.device, run.kernel, program.functions[run.kernel.function], values)

    def take(self, indices: Sequence[int]) -> bool:
        """Sets the kernel's indices from those of the routine; returns whether one of them has changed."""
        now = [index.value if index.slot is None else indices[index.slot] for index in self.where]
        if now == self.indices:
            return False
        self.indices = now
        self.values[len(self.values) - len(now) :] = now
        return True


class CudaRun:
    """A routine on a block of arguments: a graph of its kernels, which is launched and not waited for.

    Where a loop has a flag, the host launches kernel by kernel, and waits where it looks at the flag.
    """

    def __init__(self, program: CudaProgram, args: ArgBlock) -> None:
        self.program = program
        self.device = program.device
        self.args = args
        self.name = program.name
        self.steps = self.new_steps()
        self.launches = [step for step in self.steps if isinstance(step, BoundLaunch)]
        self.has_flags = len(self.launches) < len(self.steps)
        self.call: Callable[[], None] = (
            self.run_one_by_one if self.device.is_synchronous or self.has_flags else self.launch_graph
        )
        self.graph: KernelGraph | None = None
        self.indexed: list[tuple[BoundLaunch, Any]] = []
        layout = program.layout
        self.index_slots = args.slots[layout.index_slot : layout.index_slot + len(layout.indices)]
        self.indices: list[int] = self.index_slots.tolist()

    def new_steps(self) -> list[BoundLaunch | Look]:
        """All kernels in order, with the present values of indices, and the looks at flags between them."""
        plan = self.program.plan
        return [s if isinstance(s, Look) else BoundLaunch(self.program, s, self.args) for s in plan]

    def launch_graph(self) -> None:
        """Launches all kernels at once, after it has set the arguments of those with a changed index."""
        if not self.launches:
            return
        if self.graph is None:
            self.device.enter()
            self.graph = self.build_graph()
        if self.indexed:
            self.set_indices(self.graph)
        self.device.running[self.name] = None
        self.graph.launch()

    def build_graph(self) -> KernelGraph:
        """A graph of all kernels, in which each waits for those whose memory it needs."""
        graph = KernelGraph(self.device)
        nodes: list[Any] = []
        for launch, before in zip(self.launches, self.program.dependences, strict=True):
            node = graph.add(launch, [nodes[number] for number in before])
            nodes.append(node)
            if launch.is_indexed:
                self.indexed.append((launch, node))
        graph.finish()
        return graph

    def set_indices(self, graph: KernelGraph) -> None:
        indices: list[int] = self.index_slots.tolist()
        if indices != self.indices:
            self.indices = indices
            self.device.enter()
            for launch, node in self.indexed:
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

    def profile(self, module: ModuleOp, runs: int) -> list[float]:
        """The median seconds from the end of one kernel to that of the next, in launches of a graph; those of
        the kernels of a loop together. What two events take by themselves is subtracted.

        A first launch, which warms up, is not counted. Raises `DeviceError` where a loop has a flag.
        """
        if self.has_flags:
            raise DeviceError(f"there are no times of routine {self.name!r}: a loop in it looks at a flag")
        device = self.device
        device.enter()
        with ExitStack() as stack:
            idle, *events = [new_event(device, stack) for _ in range(len(self.launches) + 2)]
            graph = KernelGraph(device)
            graph.add_event(idle)
            graph.add_event(events[0])
            launches = [step for step in self.new_steps() if isinstance(step, BoundLaunch)]
            for launch, event in zip(launches, events[1:], strict=True):
                graph.add(launch)
                graph.add_event(event)
            graph.finish()
            spent: list[list[float]] = []
            for _ in range(runs + 1):
                graph.launch()
                device.synchronize(f"routine {self.name!r} failed")
                spent.append([elapsed(device, *pair) for pair in itertools.pairwise([idle, *events])])
        # A loop without kernels has a time, too.
        found = np.zeros(self.program.steps)
        between, *times = np.median(np.array(spent[1:]), axis=0)
        np.add.at(found, [launch.step for launch in launches], np.maximum(np.array(times) - between, 0))
        return found.tolist()


def new_event(device: Gpu, stack: ExitStack) -> Any:
    """An event that is destroyed with the stack."""
    event = device.ask("cuEventCreate", device.driver.api.CUevent_flags.CU_EVENT_DEFAULT.value)
    stack.callback(device.driver.api.cuEventDestroy, event)
    return event


def elapsed(device: Gpu, start: Any, end: Any) -> float:
    """The seconds between two events."""
    return float(device.ask("cuEventElapsedTime", start, end)) / 1e3
