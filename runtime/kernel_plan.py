"""The kernels and exchanges of a routine in the order in which they run, loops unrolled, with places of their
arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

from ocannl.dialects.records import dataclass
from ocannl.lowering.entry import EntryLayout
from ocannl.lowering.kernels.description import Dispatch, Loop, RoutineDescription

Place: TypeAlias = tuple[int, int]
"""The slot of an address among the arguments of a routine, and an offset in bytes."""


@dataclass(frozen=True, slots=True)
class Index:
    """An argument of a kernel: the static index in a slot, or a value of a loop's index if there is none."""

    slot: int | None
    value: int = 0


@dataclass(frozen=True, slots=True)
class KernelRun:
    """One run of a kernel on buffers of some `sizes`, in bytes; `step` is the number of the kernel or loop of
    the routine that it belongs to.
    """

    step: int
    kernel: Dispatch
    buffers: tuple[Place, ...]
    sizes: tuple[int, ...]
    indices: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class ExchangeRun:
    """One run of the collective of a number; `step` is as that of a kernel."""

    step: int
    number: int
    target: Place
    source: Place


@dataclass(frozen=True, slots=True)
class Look:
    """Looks at a flag of so many bytes: where it is 0, the plan goes on at number `stop`."""

    place: Place
    bytes: int
    is_float: bool
    stop: int

    def goes_on(self, found: bytes) -> bool:
        """Whether the flag with these bytes is not 0. Of a float all bits but the sign count."""
        number = int.from_bytes(found, sys.byteorder)
        return (number & (1 << (8 * self.bytes - 1)) - 1 if self.is_float else number) != 0


Plan: TypeAlias = list[KernelRun | ExchangeRun | Look]


def kernel_plan(routines: Sequence[RoutineDescription], layout: EntryLayout) -> Plan:
    """The plan of the last routine, whose arguments have a layout; the others are bodies of loops."""
    routine = routines[-1]
    places = {
        buffer.name: (layout.node_slots[buffer.name], 0)
        if buffer.offset is None
        else (layout.arena_slot, buffer.offset)
        for buffer in routine.buffers
    }
    indices = {name: Index(slot) for slot, name in enumerate(layout.indices, layout.index_slot)}
    planner = _Planner({routine.name: routine for routine in routines})
    planner.add(routine, places, indices)
    return planner.plan


@dataclass
class _Planner:
    routines: Mapping[str, RoutineDescription]
    plan: Plan = field(default_factory=list[KernelRun | ExchangeRun | Look])

    def add(
        self,
        routine: RoutineDescription,
        places: Mapping[str, Place],
        indices: Mapping[str, Index],
        step: int | None = None,
    ) -> None:
        """Adds the steps of a routine, as a part of one step of the outermost one if that is given."""
        loops = {loop.step: loop for loop in routine.loops}
        exchanges = {exchange.step: exchange for exchange in routine.collectives}
        bytes_of = {buffer.name: buffer.bytes for buffer in routine.buffers}
        kernels = iter(routine.kernels)
        for number in range(routine.steps):
            own = number if step is None else step
            if number in loops:
                self.add_loop(loops[number], places, indices, own)
                continue
            if (found := exchanges.get(number)) is not None:
                self.plan.append(ExchangeRun(own, found.number, places[found.target], places[found.source]))
                continue
            kernel = next(kernels)
            buffers = tuple(places[name] for name in kernel.buffers)
            sizes = tuple(bytes_of[name] for name in kernel.buffers)
            given = tuple(indices[name] for name in kernel.indices)
            self.plan.append(KernelRun(own, kernel, buffers, sizes, given))

    def add_loop(
        self, loop: Loop, places: Mapping[str, Place], indices: Mapping[str, Index], step: int
    ) -> None:
        body, own = self.routines[loop.body], dict[str, Place]()
        for buffer in body.buffers:
            if buffer.offset is None:
                own[buffer.name] = places[loop.bound[buffer.name]]
            else:
                assert loop.workspace is not None
                slot, start = places[loop.workspace]
                own[buffer.name] = slot, start + buffer.offset
        looks: dict[int, Look] = {}
        for value in range(loop.count):
            if loop.flag is not None:
                look = Look(places[loop.flag.buffer], loop.flag.bytes, loop.flag.is_float, 0)
                looks[len(self.plan)] = look
                self.plan.append(look)
            self.add(body, own, {**indices, loop.index: Index(None, value)}, step)
        for at, look in looks.items():
            self.plan[at] = replace(look, stop=len(self.plan))
