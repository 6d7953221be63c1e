"""The scheduler: applies the best schedule to each nest and group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.loops import FuncOp, GroupOp, NestOp
from ocannl.dialects.loops.schedule import Schedule, ScheduleAttr
from ocannl.passes.analysis.dataflow.kept_copies import is_kept
from ocannl.passes.analysis.dataflow.loop_invariants import Iterations
from ocannl.passes.analysis.equality.structural_equality import StructuralNumbering
from ocannl.passes.analysis.names import Names, labels_of
from ocannl.passes.analysis.nests import Step, nests_of, points, written_nodes
from ocannl.passes.analysis.patterns.dot_products import find_dot_product
from ocannl.passes.analysis.schedules.schedule_candidates import Choice, Chooser, loads_of
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.schedule.blocked_reductions import (
    Blocking,
    blocked,
    blocked_sum,
    cheapest,
    sum_of_products,
)
from ocannl.passes.loops.schedule.dot_products import CopyKey, DotTiling
from ocannl.passes.loops.schedule.lasting_copies import LastingCopies
from ocannl.passes.loops.schedule.pack import pack
from ocannl.passes.loops.schedule.packed_panels import group_copies
from ocannl.passes.loops.schedule.parallel import parallel_group, parallel_nest
from ocannl.passes.loops.schedule.remainders import Splitting, best_splitting, split_off_remainder
from ocannl.passes.loops.schedule.strips import copied_in_strips, in_strips, transposed_in_strips
from ocannl.passes.loops.schedule.sum_blocks import add_in_blocks
from ocannl.passes.loops.schedule.sum_ranges import best_range, split_in_ranges
from ocannl.passes.loops.schedule.transposed_panels import in_panels


class Scheduler:
    """Gives nests and groups their schedules. Structurally equal nests are costed once."""

    def __init__(self, target: TargetDescription) -> None:
        self.target = target
        self.labels = Names(set())
        """Those of nodes: copies have other ones."""
        self.lasting = LastingCopies(target)
        self.copied: dict[CopyKey, SSAValue] = {}
        """The copies for matrix units that are still equal to their sources."""
        self.structures = StructuralNumbering()
        self.cheapest: dict[tuple[int, tuple[float, ...]], tuple[float, Choice] | None] = {}
        self.blockings: dict[int, tuple[float, Blocking | None, Choice]] = {}
        self.splittings: dict[int, Splitting | None] = {}
        self.ranges: dict[int, int | None] = {}
        self.blocks: dict[tuple[int, Choice], tuple[tuple[str, int], ...]] = {}

    def begin(self, func: FuncOp, unwritten: frozenset[SSAValue], loop: Iterations | None = None) -> None:
        """Goes on with another function, of which copies of some nodes may be kept between runs, or which is
        the body of a loop.
        """
        self.labels, self.copied = labels_of(func), {}
        self.lasting = LastingCopies.of(func, self.target, unwritten, loop)

    def forget_copies(self, step: Step) -> None:
        """Tells that a step has run, which may have written what was copied."""
        written = written_nodes(step) if self.copied else []
        self.copied = {key: copy for key, copy in self.copied.items() if key.source not in written}

    def run(self, step: NestOp | GroupOp, choices: Sequence[Choice | None] | None) -> None:
        if choices is None and isinstance(step, NestOp):
            if self.run_on_matrix_unit(step):
                return
            if sum_of_products(step) is not None:
                self.split(step)
        nests = nests_of(step)
        chosen = choices or [None] * len(nests)
        cycles = sum([self.schedule(nest, choice) for nest, choice in zip(nests, chosen, strict=True)])
        if isinstance(step, GroupOp) and step.schedule is None:
            self.share(step, cycles)

    def split(self, product: NestOp) -> None:
        """Leaves a product of matrices the part of its points, or of its sum, with which it is cheapest."""
        remainder = self.remainder_of(product)
        ranges = self.ranges_of(product)
        Rewriter.insert_op(ranges, InsertPoint.after(remainder or product))
        if remainder is not None:
            self.add_blocks(remainder)
            self.schedule(remainder)
        for part in ranges:
            self.schedule(part)
        self.add_blocks(product)

    def run_on_matrix_unit(self, nest: NestOp) -> bool:
        """Lets an instruction add up the products of a nest, if the target has one for them and that pays."""
        product = None if nest.schedule is not None else find_dot_product(nest, self.target)
        if product is None:
            return False
        for part in DotTiling(nest, product, self.labels, self.lasting.unwritten, self.copied).run():
            for nest in nests_of(part):
                self.schedule(nest, is_shared=not is_kept(part))
            if isinstance(part, GroupOp):
                self.share(part, product.cycles)
            elif part.schedule is not None and not is_kept(part):
                schedule = copied_in_strips(part, part.schedule.data, self.target)
                parallel = parallel_nest(part, schedule, points(part.space.data), self.target)
                part.properties["schedule"] = ScheduleAttr(replace(schedule, parallel=parallel))
        return True

    def add_blocks(self, nest: NestOp) -> None:
        """Schedules the steps before a nest that add up its sum in blocks, if that pays."""
        for part in self.blocks_of(nest):
            self.run(part, None)

    def remainder_of(self, nest: NestOp) -> NestOp | None:
        """The nest behind one that leaves it the remainder of a variable, if that pays."""
        if nest.schedule is not None:
            return None
        key = self.structures.number(nest)
        if key not in self.splittings:
            self.splittings[key] = best_splitting(nest, self.best_of, self.target)
        splitting = self.splittings[key]
        return None if splitting is None else split_off_remainder(nest, splitting)

    def ranges_of(self, nest: NestOp) -> list[NestOp]:
        """The nests to which one leaves all ranges of its sum but the first, if that pays."""
        if nest.schedule is not None or blocked_sum(nest, self.target) is not None:
            return []
        key = self.structures.number(nest)
        if key not in self.ranges:
            found = self.best(nest, key)
            self.ranges[key] = None if found is None else best_range(nest, found[1], self.target)
        size = self.ranges[key]
        return [] if size is None else split_in_ranges(nest, size)

    def blocks_of(self, nest: NestOp) -> list[NestOp | GroupOp]:
        """The steps before a nest that add up its sum in blocks, if that pays."""
        reduction = None if nest.schedule is not None else blocked_sum(nest, self.target)
        if reduction is None:
            return []
        key = self.structures.number(nest)
        found = self.best(nest, key)
        if found is None:
            return []
        if key not in self.blockings:
            self.blockings[key] = cheapest(nest, reduction, found, self.target)
        _, blocking, choice = self.blockings[key]
        return (
            [] if blocking is None else blocked(nest, reduction, blocking, choice, self.labels, self.target)
        )

    def share(self, group: GroupOp, cycles: float) -> None:
        """Lets threads share the points of a group whose nests take so many cycles, if that pays."""
        parallel = parallel_group(group, cycles, self.target)
        if parallel:
            group.properties["schedule"] = ScheduleAttr(Schedule(parallel=parallel))

    def schedule(self, nest: NestOp, choice: Choice | None = None, *, is_shared: bool = True) -> float:
        """Gives a nest a schedule, if it has none: the choice, or else the cheapest by the cost model.
        Returns an estimate of its cycles.

        Packed operands are written by nests before it, or in a group with it, which are scheduled too.
        Threads share the nest if that pays and `is_shared`.
        """
        if nest.schedule is not None:
            return 0.0
        key = self.structures.number(nest)
        found = self.best(nest, key) if choice is None else self.costed(nest, choice)
        add_in_blocks(nest)
        if found is None:
            return 0.0
        lasting = self.best_lasting(nest, key, found[0]) if choice is None else None
        cycles, best = lasting or found
        schedule, copies, group = best.schedule, list[NestOp](), None
        if best.packed:
            loads = loads_of(nest)
            chosen = [loads[k] for k in best.packed]
            lasts = [lasting is not None and self.lasting.part(nest, load) < 1 for load in chosen]
            kept = self.lasting.unwritten if lasting else ()
            schedule, copies = pack(nest, chosen, schedule, self.labels, kept)
            own = [copy for copy, is_lasting in zip(copies, lasts, strict=True) if not is_lasting]
            strips = in_strips(nest, schedule, self.target)
            group, schedule = (None, strips) if strips else group_copies(nest, own, schedule, self.target)
        else:
            schedule = in_strips(nest, schedule, self.target) or schedule
            schedule = in_panels(nest, schedule, self.target)
            schedule = copied_in_strips(nest, schedule, self.target)
            schedule = transposed_in_strips(nest, schedule, self.target)
        parallel = self.parallel(nest, schedule, cycles, (key, best)) if is_shared else ()
        schedule = replace(schedule, parallel=parallel, tuned=choice is not None)
        if schedule.lanes or schedule.rows or schedule.parallel or len(schedule.order) > 1 or schedule.tuned:
            nest.properties["schedule"] = ScheduleAttr(schedule)
        cycles += sum([self.schedule(copy, is_shared=not is_kept(copy)) for copy in copies])
        if group is not None:
            self.share(group, cycles)
        return cycles

    def parallel(
        self, nest: NestOp, schedule: Schedule, cycles: float, place: tuple[int, Choice]
    ) -> tuple[tuple[str, int], ...]:
        """The loops of a nest that threads share: the same for all nests of a structure and a choice."""
        if place not in self.blocks:
            self.blocks[place] = parallel_nest(nest, schedule, cycles, self.target)
        return self.blocks[place]

    def best(self, nest: NestOp, key: int) -> tuple[float, Choice] | None:
        """The cheapest choice, with its cycles; None where there is nothing to choose."""
        return self.best_where(nest, key, ())

    def best_of(self, nest: NestOp) -> tuple[float, Choice]:
        """The same for a nest in which there is something to choose."""
        found = self.best(nest, self.structures.number(nest))
        assert found is not None
        return found

    def best_lasting(self, nest: NestOp, key: int, cycles: float) -> tuple[float, Choice] | None:
        """The cheapest choice with packed copies that outlast the nest, with its cycles, where it takes far
        fewer than the best one without.
        """
        parts = self.lasting.parts(nest)
        found = self.best_where(nest, key, parts) if parts else None
        return found if found is not None and found[0] < self.lasting.pays * cycles else None

    def best_where(self, nest: NestOp, key: int, parts: tuple[float, ...]) -> tuple[float, Choice] | None:
        """The cheapest choice where copies of what is loaded cost only such parts of their cycles, which are
        all of them where none is given, with its cycles.
        """
        if (key, parts) not in self.cheapest:
            kept = {load.node: part for load, part in zip(loads_of(nest), parts, strict=False) if part < 1}
            chooser = Chooser.of(nest, self.target, kept)
            self.cheapest[key, parts] = None if chooser is None else chooser.best()
        return self.cheapest[key, parts]

    def costed(self, nest: NestOp, choice: Choice) -> tuple[float, Choice] | None:
        chooser = Chooser.of(nest, self.target)
        return None if chooser is None else (chooser.cycles(choice), choice)
