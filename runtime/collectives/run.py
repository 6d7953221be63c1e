"""Runs of a routine on all ranks of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.loops import StepOp
from ocannl.dialects.routine import STAGE
from ocannl.passes.analysis.nests import steps_within, uncalled
from ocannl.runtime.collectives.engine import Engine
from ocannl.runtime.collectives.grid import Grid
from ocannl.runtime.collectives.memory import MeshMemory
from ocannl.runtime.cpu.native import ForeignProgram, NativeProgram
from ocannl.runtime.device import Device, Memory, Program, Run
from ocannl.runtime.host.run import Failures
from ocannl.runtime.interface import Exchange, Interface
from ocannl.runtime.memory import ArgBlock


class RankExchanger(Failures, Protocol):
    """The collectives of one rank in a routine."""

    @property
    def address(self) -> int:
        """That of the function that compiled code calls; 0 where none does."""
        ...


class RankProgram(Program, Protocol):
    """A routine of ranks, on a device of one of them."""

    def bind(self, args: ArgBlock, exchanger: Any = None) -> Run: ...


class RankDevice(Device, Protocol):
    """A device of ranks."""

    def program(self, text: str, interface: Interface) -> RankProgram | ForeignProgram: ...


class MeshRun:
    """A routine on a block of arguments for all ranks: memory that they share, and static indices."""

    def __init__(
        self,
        programs: Sequence[RankProgram],
        interface: Interface,
        engine: Engine,
        grid: Grid,
        args: ArgBlock,
        exchanger: Callable[[int, Sequence[Exchange]], RankExchanger],
    ) -> None:
        self.args = args
        self.engine = engine
        self.grid = grid
        self._layout = interface.layout
        self._indices = slice(self._layout.index_slot, self._layout.team_slot)
        self._staged = bool(interface.stages)
        parts = self._parts(interface)
        self._ranks = [
            RankRun(program, interface, grid, rank, args, {n: own[k] for n, own in parts.items()}, exchanger)
            for k, (program, rank) in enumerate(zip(programs, engine.ranks, strict=True))
        ]

    def _parts(self, interface: Interface) -> dict[str, Sequence[Any]]:
        """The memory of each node, and that of the arena under no name, by the ranks of this process."""
        layout = self._layout
        found: dict[str, Sequence[Any]] = {}
        for slot, label in ((layout.arena_slot, ""), *((s, n) for n, s in layout.node_slots.items())):
            memory = self.args.owner(slot)
            assert isinstance(memory, MeshMemory)
            node = interface.nodes[label] if label else None
            splits, stages = ((), ()) if node is None else (node.splits, node.stages)
            written = label in interface.facts.writes
            found[label] = memory.place(splits, label, stages, written=written)
        return found

    def call(self) -> None:
        for rank in self._ranks:
            rank.take(self.args)
        self.engine.together([rank.run.call for rank in self._ranks])
        if self._staged:
            self.engine.flush()

    def loop(
        self,
        *,
        epochs: int,
        ranged: Sequence[tuple[int, int]],
        advance: Sequence[int],
        record: Sequence[Memory],
    ) -> list[NDArray[Any]]:
        memories = [memory for memory in record if isinstance(memory, MeshMemory)]
        calls: list[Callable[[], list[NDArray[Any]]]] = []
        for k, rank in enumerate(self._ranks):
            rank.take(self.args)
            own = [memory.parts[k] for memory in memories]
            slots = [(rank.slot(slot), size) for slot, size in ranged]
            advanced = [rank.slot(slot) for slot in advance]
            calls.append(partial(rank.run.loop, epochs=epochs, ranged=slots, advance=advanced, record=own))
        found = self.engine.together(calls)
        if self._staged:
            self.engine.flush()
        for slot in advance:
            self.args.slots[slot] = self._ranks[0].args.slots[self._ranks[0].slot(slot)]
        return [memory.joined([own[k] for own in found]) for k, memory in enumerate(memories)]

    def profile(self, module: ModuleOp, runs: int) -> dict[StepOp, float]:
        """The seconds of each step on the first rank here; of stages, on the first rank of each, in order."""
        for rank in self._ranks:
            rank.take(self.args)
        found = self.engine.together([partial(rank.profile, module, runs) for rank in self._ranks])
        if not self._staged:
            return found[0]
        self.engine.flush()
        of_stages = [list(dict.fromkeys(steps_within(func))) for func in uncalled(module)]
        most = max(map(len, of_stages))
        padded = [np.array([*own.values(), *[0.0] * (most - len(own))]) for own in found]
        of_ranks = self.engine.all_parts(padded)
        first = [self.grid.group(0, STAGE)[stage] for stage in range(len(of_stages))]
        return {
            step: seconds
            for rank, steps in zip(first, of_stages, strict=True)
            for step, seconds in zip(steps, of_ranks[rank].tolist(), strict=False)
        }


class RankRun:
    """A rank's run of a routine, on arguments of its own."""

    def __init__(
        self,
        program: RankProgram,
        interface: Interface,
        grid: Grid,
        rank: int,
        given: ArgBlock,
        memory: Mapping[str, Any],
        exchanger: Callable[[int, Sequence[Exchange]], RankExchanger],
    ) -> None:
        whole = interface.layout
        if interface.stages:
            interface = interface.stages[grid.place(rank)[STAGE]]
            assert isinstance(program, NativeProgram)
            program = program.entry(interface.name)
        layout = interface.layout
        self._shift = layout.index_slot - whole.index_slot
        self.args = ArgBlock(layout.slots)
        for label, slot in (("", layout.arena_slot), *layout.node_slots.items()):
            self.args.set_address(slot, memory[label].address, memory[label])
        if layout.is_parallel:
            self.args.set_address(layout.team_slot, given.index(whole.team_slot), given)
        self.exchanger = exchanger(rank, interface.exchanges)
        if layout.exchanges:
            self.args.set_address(layout.engine_slot, self.exchanger.address, self.exchanger)
        place = {f"{axis}.rank": at for axis, at in grid.place(rank).items()}
        slots = dict(enumerate(layout.indices, layout.index_slot))
        self._indices = [slot for slot, name in slots.items() if name in interface.ranges]
        for slot, name in slots.items():
            if slot not in self._indices:
                self.args.values[slot] = place[name]
        self.run = program.bind(self.args, self.exchanger)

    def take(self, given: ArgBlock) -> None:
        """Takes static indices from the arguments for all ranks."""
        for slot in self._indices:
            self.args.values[slot] = given.values[slot - self._shift]

    def slot(self, given: int) -> int:
        """The slot of a static index on this rank, given its slot in the arguments for all ranks."""
        return given + self._shift

    def profile(self, module: ModuleOp, runs: int) -> dict[StepOp, float]:
        found = self.run.profile(module, runs)
        self.exchanger.raise_first()
        return found
