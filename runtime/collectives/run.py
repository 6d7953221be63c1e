"""Runs of a routine on all ranks of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ocannl.runtime.collectives.engine import Engine
from ocannl.runtime.collectives.exchanger import Exchanger
from ocannl.runtime.collectives.grid import Grid
from ocannl.runtime.collectives.memory import MeshMemory
from ocannl.runtime.cpu.native import NativeProgram
from ocannl.runtime.device import Memory
from ocannl.runtime.interface import Interface
from ocannl.runtime.memory import ArgBlock


class MeshRun:
    """A routine on a block of arguments for all ranks: memory that they share, and static indices."""

    def __init__(
        self, program: NativeProgram, interface: Interface, engine: Engine, grid: Grid, args: ArgBlock
    ) -> None:
        self.args = args
        self.engine = engine
        self._layout = interface.layout
        self._indices = slice(self._layout.index_slot, self._layout.team_slot)
        parts = self._parts(interface)
        self._ranks = [
            RankRun(program, interface, engine, grid, rank, args, {s: own[k] for s, own in parts.items()})
            for k, rank in enumerate(engine.ranks)
        ]

    def _parts(self, interface: Interface) -> dict[int, Sequence[Any]]:
        """The memory of each slot, by the ranks of this process."""
        layout = self._layout
        found: dict[int, Sequence[Any]] = {}
        for slot, label in ((layout.arena_slot, ""), *((s, n) for n, s in layout.node_slots.items())):
            memory = self.args.owner(slot)
            assert isinstance(memory, MeshMemory)
            found[slot] = memory.place(interface.nodes[label].splits if label else (), label)
        return found

    def call(self) -> None:
        for rank in self._ranks:
            rank.take(self.args)
        self.engine.together([rank.run.call for rank in self._ranks])

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
            calls.append(partial(rank.run.loop, epochs=epochs, ranged=ranged, advance=advance, record=own))
        found = self.engine.together(calls)
        for slot in advance:
            self.args.slots[slot] = self._ranks[0].args.slots[slot]
        return [memory.joined([own[k] for own in found]) for k, memory in enumerate(memories)]

    def profile(self, module: ModuleOp, runs: int) -> list[float]:
        for rank in self._ranks:
            rank.take(self.args)
        return self.engine.together([partial(rank.profile, module, runs) for rank in self._ranks])[0]


class RankRun:
    """A rank's run of a routine, on arguments of its own."""

    def __init__(
        self,
        program: NativeProgram,
        interface: Interface,
        engine: Engine,
        grid: Grid,
        rank: int,
        given: ArgBlock,
        memory: Mapping[int, Any],
    ) -> None:
        layout = interface.layout
        self.args = ArgBlock(layout.slots)
        for slot, own in memory.items():
            self.args.set_address(slot, own.address, own)
        if layout.is_parallel:
            self.args.set_address(layout.team_slot, given.index(layout.team_slot), given)
        self.exchanger = Exchanger(engine, grid, rank, interface.exchanges)
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
            self.args.values[slot] = given.values[slot]

    def profile(self, module: ModuleOp, runs: int) -> list[float]:
        found = self.run.profile(module, runs)
        self.exchanger.raise_first()
        return found
