"""The scheduler: applies the best schedule to each nest and group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ocannl.dialects.loops import GroupOp, NestOp
from ocannl.dialects.loops.schedule import Schedule, ScheduleAttr
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import nests_of
from ocannl.passes.analysis.schedule_candidates import Choice, Chooser, loads_of
from ocannl.passes.analysis.structural_equality import StructuralNumbering
from ocannl.passes.analysis.target import TargetDescription
from ocannl.passes.loops.schedule.blocked_reductions import Blocking, blocked, blocked_sum, cheapest
from ocannl.passes.loops.schedule.pack import pack
from ocannl.passes.loops.schedule.packed_panels import group_copies
from ocannl.passes.loops.schedule.parallel import parallel_group, parallel_nest
from ocannl.passes.loops.schedule.sum_blocks import add_in_blocks
from ocannl.passes.loops.schedule.transposed_panels import in_panels


class Scheduler:
    """Gives nests and groups their schedules. Structurally equal nests are costed once."""

    def __init__(self, target: TargetDescription) -> None:
        self.target = target
        self.labels = Names(set())
        """Those of nodes: copies have other ones."""
        self.structures = StructuralNumbering()
        self.cheapest: dict[int, tuple[float, Choice] | None] = {}
        self.blockings: dict[int, tuple[Blocking | None, Choice]] = {}
        self.blocks: dict[tuple[int, Choice | None], tuple[tuple[str, int], ...]] = {}

    def run(self, step: NestOp | GroupOp, choices: Sequence[Choice | None] | None) -> None:
        if choices is None and isinstance(step, NestOp):
            for part in self.blocks_of(step):
                self.run(part, None)
        nests = nests_of(step)
        chosen = choices or [None] * len(nests)
        cycles = sum([self.schedule(nest, choice) for nest, choice in zip(nests, chosen, strict=True)])
        if isinstance(step, GroupOp) and step.schedule is None:
            self.share(step, cycles)

    def blocks_of(self, nest: NestOp) -> list[NestOp | GroupOp]:
        """The steps before a nest that add up its sum in blocks, if that pays."""
        reduction = None if nest.schedule is not None else blocked_sum(nest, self.target)
        key = self.structures.number(nest)
        found = None if reduction is None else self.best(nest, key)
        if reduction is None or found is None:
            return []
        if key not in self.blockings:
            self.blockings[key] = cheapest(nest, reduction, found, self.target)
        blocking, choice = self.blockings[key]
        return [] if blocking is None else blocked(nest, reduction, blocking, choice, self.labels)

    def share(self, group: GroupOp, cycles: float) -> None:
        """Lets threads share the points of a group whose nests take so many cycles, if that pays."""
        parallel = parallel_group(group, cycles, self.target)
        if parallel:
            group.properties["schedule"] = ScheduleAttr(Schedule(parallel=parallel))

    def schedule(self, nest: NestOp, choice: Choice | None = None) -> float:
        """Gives a nest a schedule, if it has none: the choice, or else the cheapest by the cost model.
        Returns an estimate of its cycles.

        Packed operands are written by nests before it, or in a group with it, which are scheduled too.
        """
        if nest.schedule is not None:
            return 0.0
        key = self.structures.number(nest)
        found = self.best(nest, key) if choice is None else self.costed(nest, choice)
        add_in_blocks(nest)
        if found is None:
            return 0.0
        cycles, best = found
        schedule, copies, group = best.schedule, list[NestOp](), None
        if best.packed:
            loads = loads_of(nest)
            schedule, copies = pack(nest, [loads[k] for k in best.packed], schedule, self.labels)
            group, schedule = group_copies(nest, copies, schedule, self.target)
        else:
            schedule = in_panels(nest, schedule, self.target)
        if (key, choice) not in self.blocks:
            self.blocks[key, choice] = parallel_nest(nest, schedule, cycles, self.target)
        schedule = replace(schedule, parallel=self.blocks[key, choice], tuned=choice is not None)
        if schedule.lanes or schedule.rows or schedule.parallel or len(schedule.order) > 1 or schedule.tuned:
            nest.properties["schedule"] = ScheduleAttr(schedule)
        cycles += sum([self.schedule(copy) for copy in copies])
        if group is not None:
            self.share(group, cycles)
        return cycles

    def best(self, nest: NestOp, key: int) -> tuple[float, Choice] | None:
        """The cheapest choice, with its cycles; None where there is nothing to choose."""
        if key not in self.cheapest:
            chooser = Chooser.of(nest, self.target)
            self.cheapest[key] = None if chooser is None else chooser.best()
        return self.cheapest[key]

    def costed(self, nest: NestOp, choice: Choice) -> tuple[float, Choice] | None:
        chooser = Chooser.of(nest, self.target)
        return None if chooser is None else (chooser.cycles(choice), choice)
