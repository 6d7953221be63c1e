"""Routines on an NVIDIA GPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ocannl.lowering.entry import EntryLayout
from ocannl.lowering.kernels.description import Dispatch, RoutineDescription
from ocannl.runtime.cuda.gpu import Gpu
from ocannl.runtime.cuda.graph import KernelGraph, Launch
from ocannl.runtime.cuda.record import Recorder
from ocannl.runtime.device import Memory
from ocannl.runtime.kernel_arguments import arguments
from ocannl.runtime.memory import ArgBlock


class CudaProgram:
    """A routine whose kernels are loaded: `functions` by their names."""

    def __init__(
        self, device: Gpu, routine: RoutineDescription, layout: EntryLayout, functions: Mapping[str, Any]
    ) -> None:
        self.device = device
        self.routine = routine
        self.layout = layout
        self.functions = functions

    def bind(self, args: ArgBlock) -> CudaRun:
        return CudaRun(self, args)


class BoundLaunch(Launch):
    """A kernel whose arguments are slots of a routine's."""

    def __init__(self, program: CudaProgram, kernel: Dispatch, args: ArgBlock) -> None:
        where = arguments(kernel, program.routine, program.layout)
        self.positions = [slot - program.layout.index_slot for slot in where.indices]
        self.indices = [args.index(slot) for slot in where.indices]
        addresses = [int(args.slots[slot]) + offset for slot, offset in where.buffers]
        values = np.array([*addresses, *self.indices], np.int64)
        super().__init__(program.device, kernel, program.functions[kernel.function], values)

    def take(self, indices: Sequence[int]) -> bool:
        """Sets the kernel's indices from those of the routine; returns whether one of them has changed."""
        now = [indices[position] for position in self.positions]
        if now == self.indices:
            return False
        self.indices = now
        self.values[len(self.values) - len(now) :] = now
        return True


class CudaRun:
    """A routine on a block of arguments: a graph of its kernels, which is launched and not waited for."""

    def __init__(self, program: CudaProgram, args: ArgBlock) -> None:
        self.program = program
        self.device = program.device
        self.args = args
        self.name = program.routine.name
        self.launches = self.new_launches()
        self.call: Callable[[], None] = (
            self.run_one_by_one if self.device.is_synchronous else self.launch_graph
        )
        self.graph: KernelGraph | None = None
        self.indexed: list[tuple[BoundLaunch, Any]] = []
        layout = program.layout
        self.index_slots = args.slots[layout.index_slot : layout.index_slot + len(layout.indices)]
        self.indices: list[int] = self.index_slots.tolist()

    def new_launches(self) -> list[BoundLaunch]:
        """All kernels in order, with the present values of indices."""
        return [BoundLaunch(self.program, kernel, self.args) for kernel in self.program.routine.kernels]

    def launch_graph(self) -> None:
        """Launches all kernels at once, after it has set the arguments of those with a changed index."""
        if not self.launches:
            return
        self.device.enter()
        if self.graph is None:
            self.graph = self.build_graph()
        self.set_indices(self.graph)
        self.device.running[self.name] = None
        self.graph.launch()

    def build_graph(self) -> KernelGraph:
        graph = KernelGraph(self.device)
        for launch in self.launches:
            node = graph.add(launch)
            if launch.positions:
                self.indexed.append((launch, node))
        graph.finish()
        return graph

    def set_indices(self, graph: KernelGraph) -> None:
        indices: list[int] = self.index_slots.tolist()
        if indices != self.indices:
            self.indices = indices
            for launch, node in self.indexed:
                if launch.take(indices):
                    graph.set_arguments(node, launch)

    def run_one_by_one(self) -> None:
        """Launches each kernel alone, and waits for it."""
        self.device.enter()
        indices: list[int] = self.index_slots.tolist()
        for launch in self.launches:
            launch.take(indices)
            launch.alone()

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
        """The median seconds from the end of one kernel to that of the next, in launches of a graph.

        A first one, which warms up, is not counted.
        """
        device = self.device
        device.enter()
        with ExitStack() as stack:
            events = [new_event(device, stack) for _ in range(len(self.launches) + 1)]
            graph = KernelGraph(device)
            graph.add_event(events[0])
            launches = self.new_launches()
            for launch, event in zip(launches, events[1:], strict=True):
                graph.add(launch)
                graph.add_event(event)
            graph.finish()
            spent: list[list[float]] = []
            for _ in range(runs + 1):
                graph.launch()
                device.synchronize(f"routine {self.name!r} failed")
                spent.append([elapsed(device, *pair) for pair in itertools.pairwise(events)])
        return [float(second) for second in np.median(spent[1:], axis=0)]


def new_event(device: Gpu, stack: ExitStack) -> Any:
    """An event that is destroyed with the stack."""
    event = device.ask("cuEventCreate", device.driver.api.CUevent_flags.CU_EVENT_DEFAULT.value)
    stack.callback(device.driver.api.cuEventDestroy, event)
    return event


def elapsed(device: Gpu, start: Any, end: Any) -> float:
    """The seconds between two events."""
    return float(device.ask("cuEventElapsedTime", start, end)) / 1e3
