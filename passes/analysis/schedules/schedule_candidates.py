"""The candidate schedules of a nest, ranked by the cost model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from xdsl.ir import SSAValue

from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.costs.cost import length
from ocannl.passes.analysis.costs.far_arrays import is_far
from ocannl.passes.analysis.costs.live_values import most_live
from ocannl.passes.analysis.costs.tile_cost import TileCost, chains, rows_that_stay
from ocannl.passes.analysis.costs.tile_heights import MOST_OF_PRODUCT, best_height
from ocannl.passes.analysis.fusion.mergeable_loops import mergeable_loops
from ocannl.passes.analysis.nests import operations
from ocannl.passes.analysis.patterns.sums import is_contraction
from ocannl.passes.analysis.schedules.loop_order import MUCH_LESS, LoopOrder
from ocannl.passes.analysis.schedules.nest_facts import ScopeFacts, computed_bytes, nest_facts
from ocannl.passes.analysis.targets.target import TargetDescription

# The widest tile outside of reductions, in vectors, and the arithmetic at a point that still allows it.
# Beyond, tiles have two, of which the one's operations run while the other's are waited for.
WIDEST, WIDEST_WORK, OF_MUCH_WORK = 4, 40, 2
# The instructions beside a reduction for which the accumulators of a wide tile stay in registers.
FEW_OPERATIONS = 4
# How many times as many vectors as registers may wait for their use, some of them in memory.
MOST_WAITING = 2
# The edge of a small tile that is transposed in registers; a larger one fills whole vectors.
TRANSPOSED = 8
# Accumulators enough to keep the multipliers busy; more of them cost code. In products of matrices, whose sum
# is one loop, they save loads where a row has several vectors.
ACCUMULATORS, OF_PRODUCT = 16, 24
# The cycles that a tile may take more where so many fewer come.
NEARLY = 1.05
# Rows of memory that are read at the same time as fast as one, though they may meet in one set of a cache.
STREAMS = 8


@dataclass(frozen=True)
class Choice:
    """The schedule of a nest before operands are packed and threads have their shares.

    `packed` are the loads that read packed copies, by their number in the nest.
    """

    schedule: Schedule
    packed: tuple[int, ...] = ()


def loads_of(nest: NestOp) -> list[LoadOp]:
    return [op for op in operations(nest.body.block) if type(op) is LoadOp]


class Chooser:
    """The candidate schedules of one nest, and the cheapest of them."""

    def __init__(
        self,
        nest: NestOp,
        facts: ScopeFacts,
        target: TargetDescription,
        merged: tuple[tuple[str, ...], ...],
        kept: Mapping[SSAValue, float] | None = None,
    ) -> None:
        self.nest = nest
        self.facts = facts
        self.target = target
        self.merged = merged
        self.kept = kept or {}
        reductions = [scope for scope in facts.walk() if scope is not facts]
        self.dominant = max(reductions, key=lambda s: s.points * max(1, s.work), default=None)
        accesses = max(a.bytes for scope in facts.walk() for a in scope.accesses)
        self.element_bytes = max(accesses, computed_bytes(nest))
        self.elements = max(1, target.vector_bytes // self.element_bytes)
        self.in_turn = bool(nest.clashing)
        self.loops = LoopOrder(facts, self.dominant, target)
        self.work = sum(scope.work for scope in facts.walk())
        self.beside = sum([length(op) for op in operations_of(nest.body.block)])

    @staticmethod
    def of(
        nest: NestOp, target: TargetDescription, kept: Mapping[SSAValue, float] | None = None
    ) -> Chooser | None:
        """None for a nest in which there is nothing to choose. Copies of the nodes `kept`, which several runs
        share, cost each of them only that part of their cycles.
        """
        merged = mergeable_loops(nest)
        facts = nest_facts(nest, merged)
        if not facts.accesses or not all(size for scope in facts.walk() for size in scope.space.values()):
            return None
        return Chooser(nest, facts, target, merged, kept)

    def best(self) -> tuple[float, Choice]:
        """The cheapest choice, with its cycles; of a product of large matrices, one whose tile goes along the
        same loops and takes hardly more, where far fewer bytes come from beyond the second-level cache then.
        """
        costed = [(*self.cost(tile), tile) for tile in self.candidates()]
        cheapest = cycles, packed, tile = min(costed, key=lambda found: found[0])
        if self.is_large_product():
            traffic, loops = self.loops.traffic(self.loops.order(tile), tile), tile.tile_loops
            less = [
                (cost, loads, other)
                for cost, loads, other in costed
                if cost <= NEARLY * cycles
                and other.tile_loops == loops
                and MUCH_LESS * self.loops.traffic(self.loops.order(other), other) < traffic
            ]
            cycles, packed, tile = min(less, key=lambda found: found[0], default=cheapest)
        return cycles, self.choice(tile, packed)

    def ranked(self) -> list[Choice]:
        """The choices of all candidates, the cheapest first."""
        costed = sorted(
            ((self.cost(tile), tile) for tile in self.candidates()), key=lambda found: found[0][0]
        )
        return [self.choice(tile, packed) for (_, packed), tile in costed]

    def cycles(self, choice: Choice) -> float:
        return self.cost(choice.schedule)[0]

    def cost(self, tile: Schedule) -> tuple[float, list[LoadOp]]:
        """The cycles with a tile, and the loads that are then worth a packed copy."""
        cost = TileCost(tile, self.target, self.element_bytes, self.facts.space, self.kept)
        return cost.nest(self.facts), cost.packed

    def choice(self, tile: Schedule, packed: Sequence[LoadOp]) -> Choice:
        schedule = Schedule(
            self.loops.order(tile), tile.rows, tile.lanes, merged=self.merged, chains=self.chains(tile)
        )
        loads = loads_of(self.nest) if packed else []
        return Choice(schedule, tuple(sorted(loads.index(load) for load in packed)))

    def chains(self, schedule: Schedule) -> int:
        """The accumulator chains of the dominant reduction, if the lanes are variables of
        the nest; else 1.
        """
        if self.dominant is None or schedule.lanes is None or schedule.lanes[0] not in self.dominant.varies:
            return 1
        accumulators = max(1, schedule.lanes[1] // self.elements) * (schedule.rows or ("", 1))[1]
        last = list(self.dominant.space.values())[-1]
        return min(last, chains(accumulators * len(self.facts.inner), self.target))

    def candidates(self) -> Iterator[Schedule]:
        """The tiles to be costed, the plain loops first, which would transpose element by element."""
        if not self.transposes():
            yield Schedule()
        for lanes in self.lanes():
            yield Schedule(lanes=lanes)
            for rows in self.rows(lanes):
                yield Schedule(rows=rows, lanes=lanes)
        for rows, lanes in itertools.permutations(self.facts.space, 2):
            for edge in (TRANSPOSED, self.elements):
                crossing = self.crossing(rows, lanes, edge)
                if crossing and self.has_registers(edge, crossing) and self.is_apart(rows, lanes):
                    yield Schedule(rows=(rows, edge), lanes=(lanes, edge))

    def transposes(self) -> bool:
        """Whether a nest is a copy that is read and written along different loops."""
        accesses, sizes = self.facts.accesses, self.facts.space
        along = {name for a in accesses for name in sizes if a.strides.get(name) == 1}
        is_copy = len(accesses) == 2 and self.dominant is None and not any(a.scattered for a in accesses)
        return is_copy and len(along) == 2 and all(sizes[name] >= TRANSPOSED for name in along)

    def has_registers(self, edge: int, crossing: int) -> bool:
        """Whether a reduction has registers for the accumulators of a square tile. Without one, operands that
        are transposed may be stored until they are used, but few of them.
        """
        if self.dominant is not None:
            return edge * max(1, edge // self.elements) <= self.target.accumulators
        return edge <= TRANSPOSED or crossing * edge <= MOST_WAITING * self.target.vector_registers

    def lanes(self) -> Iterator[tuple[str, int]]:
        spaces = self.facts.space | self.reduced
        for name, size in spaces.items():
            if size == 1 or not self.is_apart(name):
                continue
            for vectors in (1, 2, 4, 8, 16):
                width = self.elements * vectors
                if vectors > min(self.widest(name), self.target.accumulators):
                    break
                if size <= width:
                    yield name, 1 << (size - 1).bit_length()
                    break
                yield name, width

    @cached_property
    def reduced(self) -> dict[str, int]:
        """The loops of the dominant reduction, and of those in the nest around it."""
        if self.dominant is None:
            return {}
        sizes, others = self.dominant.around | self.dominant.space, self.facts.around | self.facts.space
        return {name: size for name, size in sizes.items() if name not in others}

    def widest(self, name: str) -> int:
        """The vectors that a tile may have along a loop."""
        if self.dominant is not None and name in self.dominant.varies:
            is_wide = self.streams and self.beside <= FEW_OPERATIONS and not self.finds_extremes
            return ACCUMULATORS if is_wide else 4
        registers = self.target.vector_registers
        most = WIDEST if self.work <= WIDEST_WORK else OF_MUCH_WORK
        live = 0 if self.dominant is not None else most_live(self.nest.body.block)
        return most if live * most < MOST_WAITING * registers else max(1, registers // live)

    @property
    def finds_extremes(self) -> bool:
        """Whether the dominant reduction takes a mask for each vector: x86-64 compares floats and selects, so
        that NaN stays, and has few registers for masks.
        """
        assert self.dominant is not None
        op = self.dominant.op
        is_extreme = isinstance(op, ReduceOp) and op.accum.data in ("max", "min")
        return is_extreme and not self.target.compared

    @cached_property
    def streams(self) -> bool:
        """Whether an operand of the dominant reduction does not fit in the second-level cache."""
        assert self.dominant is not None
        sizes = self.dominant.around | self.dominant.space
        footprints = (self.loops.footprint(access, sizes.keys()) for access in self.dominant.accesses)
        return max(footprints, default=0) > self.target.l2_bytes

    @cached_property
    def reads_one_stream(self) -> bool:
        """Whether the weights of a product with a vector are blocks of bytes, each with a scale, that come
        from beyond the caches, and take several instructions: rows of a tile would save few loads beside
        these, and memory is read the fastest in its order.
        """
        assert self.dominant is not None
        has_much_work = not self.target.sums_words and self.target.vector_bytes < LINE
        if not has_much_work or not self.streams or len(self.reduced) == 1:
            return False
        return any(element_bytes(load.node) == 1 and is_far(load) for load in loads_of(self.nest))

    def rows(self, lanes: tuple[str, int]) -> Iterator[tuple[str, int]]:
        """The variables and heights of tiles of accumulators for which there are registers, beside a vector
        of each operand.
        """
        lane_name, width = lanes
        vectors = max(1, width // self.elements)
        if self.dominant is None or vectors > 2 or (lane_name in self.reduced and self.reads_one_stream):
            return
        is_reused = self.has_factors
        most = MOST_OF_PRODUCT if is_reused else math.inf
        numbers = (
            (ACCUMULATORS, OF_PRODUCT) if is_reused and vectors > 1 and self.is_plain else (ACCUMULATORS,)
        )
        room = self.target.accumulators // vectors // self.facts.accumulators
        budgets = [min(room, n // vectors // len(self.facts.inner)) for n in numbers]
        if lane_name in self.reduced and (self.streams or not is_reused):
            budgets = [min(budget, STREAMS) for budget in budgets]
        for name in self.row_variables:
            size = self.facts.space[name]
            if (
                size > 1
                and name != lane_name
                and name in self.dominant.varies
                and budgets[0] > 1
                and self.is_apart(name, lane_name)
                and not self.is_turned(name, lane_name)
            ):
                # Threads share the parts of a merged loop that whole tiles fill.
                own = budgets[:1] if "*" in name else [*budgets, min(budgets[0], self.rows_that_stay(name))]
                for height in dict.fromkeys(best_height(size, budget, most) for budget in own):
                    yield name, height

    def is_large_product(self) -> bool:
        """Whether a nest stores products of matrices that the second-level cache does not hold."""
        return self.has_factors and self.is_plain and self.streams

    @cached_property
    def is_plain(self) -> bool:
        """Whether a nest stores a sum that is one loop, with little arithmetic beside it and not in turn."""
        assert self.dominant is not None
        return len(self.dominant.space) == 1 and self.beside <= FEW_OPERATIONS and not self.in_turn

    def rows_that_stay(self, name: str) -> int:
        """The rows of a tile that the first-level cache holds at the same time."""
        assert self.dominant is not None
        along = [a for a in self.dominant.accesses if a.strides.get(name)]
        found = [rows_that_stay(a.bytes * a.strides[name], self.target) for a in along]
        return max(1, min(found, default=1))

    @cached_property
    def row_variables(self) -> list[str]:
        """The variables along which rows may go, the best ones first."""
        return sorted(self.facts.space, key=self.row_distance)

    def row_distance(self, name: str) -> tuple[bool, int]:
        """The distance in memory between the rows of a tile, by which ties between tiles are broken; last
        come positions of windows that overlap and move by larger steps: borders of an image may split these.
        """
        assert self.dominant is not None
        strides = [abs(access.strides.get(name, 0)) for access in self.dominant.accesses]
        return self.is_stepping(name), max(strides, default=0)

    def is_stepping(self, name: str) -> bool:
        """Whether windows of a sum of products that overlap, in what is read or where it is added, move along
        a variable by steps of more than one element.
        """
        assert self.dominant is not None
        op = self.dominant.op
        assert isinstance(op, ReduceOp)
        sizes = dict(self.nest.space.data) | dict(op.space.data)
        return is_contraction(op) and any(
            1 < abs(index.coefficient(name)) < sizes.get(offset, 0) * abs(step)
            for scope in self.facts.walk()
            for access in scope.accesses
            for index in access.op.indices.data
            for offset, step in index.terms
            if offset != name
        )

    def is_apart(self, *loops: str) -> bool:
        """Whether points that differ only in these loops never store to the same cell."""
        return not self.in_turn or not self.nest.clashes(name for loop in loops for name in loop.split("*"))

    @cached_property
    def has_factors(self) -> bool:
        """Whether a nest adds up products, whose operands may be copied."""
        op = None if self.dominant is None else self.dominant.op
        return isinstance(op, ReduceOp) and is_contraction(op)

    def is_turned(self, row_name: str, lane_name: str) -> bool:
        """Whether whole vectors are contiguous along the rows, and none along the lanes, nor could a copy be:
        with lanes along the rows, nothing would be transposed.
        """
        has_vectors = self.facts.space[row_name] >= self.elements and self.is_apart(row_name)
        is_turned = has_vectors and self.is_along(row_name) and not self.is_along(lane_name)
        return is_turned and not self.has_factors

    def is_along(self, name: str) -> bool:
        """Whether an access is contiguous along a loop."""
        return any(access.strides.get(name) == 1 for scope in self.facts.walk() for access in scope.accesses)

    def crossing(self, row_name: str, lane_name: str, edge: int) -> int:
        """How many accesses are contiguous along the rows only, so that square tiles are transposed in
        registers.
        """
        too_small = min(self.facts.space[row_name], self.facts.space[lane_name]) < edge
        if too_small or self.is_turned(row_name, lane_name):
            return 0
        return sum(
            access.strides.get(row_name) == 1
            and access.strides.get(lane_name, 0) > 1
            and access.scattered.isdisjoint((row_name, lane_name))
            for access in self.facts.accesses
        )


# The choice for each nest of a step; None leaves it to the cost model.
Choices: TypeAlias = tuple[Choice | None, ...]
# Finds the choices for a step by its text.
FindChoices: TypeAlias = Callable[[str], Choices | None]


def no_choices(text: str) -> None:
    """Leaves everything to the cost model."""
