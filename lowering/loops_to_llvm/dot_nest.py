"""Emits nests whose products an instruction adds up: loops over blocks of results and along the sum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ocannl.dialects.index.memref import loaded_type
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.lowering.llvm.builder import Position
from ocannl.lowering.llvm.instructions import call
from ocannl.lowering.llvm.types import I64, value_type
from ocannl.lowering.loops_to_llvm.environment import Environment
from ocannl.lowering.loops_to_llvm.tile_access import TileAccess

# The additions to an accumulator before it is added to its result, as in other long sums of products.
BLOCK = 256
# The bytes of a group of neighbours along the sum, and of a result.
WORD = 4


# The first point of a loop, and the one where it stops.
Bounds: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SumLoop:
    """A loop of the sum, of `size` points in steps of `step`."""

    variable: str
    size: int
    step: int = 1


class DotEmitter(ABC):
    """Emits a nest that stores the sums of its only reduction.

    The innermost loops of the sum run inside of those over blocks of results, as long as these add up no more
    than `BLOCK` groups. The others run outside; what is added up inside is added to the results in memory.
    """

    def __init__(self, env: Environment, nest: NestOp) -> None:
        assert nest.schedule is not None
        schedule = nest.schedule.data
        self.env = env
        self.b = env.b
        assert schedule.rows is not None
        assert schedule.lanes is not None
        (self.row, self.height), (self.column, self.width) = schedule.rows, schedule.lanes
        self.name = schedule.dot
        sizes = dict(nest.space.data)
        self.blocks = [(name, sizes[name]) for name in schedule.order or sizes]
        self.reduction, store = nest.body.block.ops
        assert isinstance(self.reduction, ReduceOp)
        assert isinstance(store, StoreOp)
        self.store = store
        loads = [op for op in self.reduction.body.block.ops if isinstance(op, LoadOp)]
        self.left, self.right = sorted(loads, key=lambda op: address_of(op).stride(self.row) == 0)
        *outer, (groups, count), (neighbour, self.depth) = self.reduction.space.data
        self.step = self.step_of(count)
        self.loops = [*(SumLoop(*loop) for loop in outer), SumLoop(groups, count, self.step)]
        env.positions[neighbour] = Position(None, 0)
        self.result = value_type(loaded_type(store.node))

    @property
    @abstractmethod
    def carried(self) -> str:
        """LLVM's type of an accumulator."""

    @abstractmethod
    def step_of(self, groups: int) -> int:
        """The groups along the sum that one step takes, which divide their number."""

    @abstractmethod
    def zeros(self) -> list[str]:
        """The accumulators of a block of results, without products."""

    @abstractmethod
    def add_products(self, values: Sequence[str]) -> list[str]:
        """The accumulators after a step."""

    @abstractmethod
    def store_results(self, values: Sequence[str]) -> None:
        """Stores what was added up in accumulators."""

    @abstractmethod
    def add_results(self, values: Sequence[str]) -> None:
        """Adds what was added up in accumulators to the results in memory."""

    @abstractmethod
    def store_zeros(self) -> None:
        """Sets a block of results in memory to 0."""

    def emit(self) -> None:
        outside, additions = list(self.loops), 1
        while outside and additions * outside[-1].size <= BLOCK:
            additions *= outside.pop().size
        if not outside:
            self.each_sum(self.loops, None, self.store_results)
            return
        inside = self.loops[len(outside) :]
        self.each_block(self.store_zeros)
        if additions == BLOCK:
            self.run(outside, lambda: self.each_sum(inside, None, self.add_results))
        else:
            self.run(outside[:-1], lambda: self.in_parts(outside[-1], inside, BLOCK // additions))

    def run(self, loops: Sequence[SumLoop], body: Callable[[], None]) -> None:
        """Emits `body` inside of some loops."""
        if not loops:
            body()
            return
        with self.env.loop(loops[0].variable, 0, loops[0].size, loops[0].step):
            self.run(loops[1:], body)

    def in_parts(self, cut: SumLoop, inside: Sequence[SumLoop], most: int) -> None:
        """Emits a loop of the sum in parts of at most so many points, with the blocks of results inside."""
        extent = max(1, most // cut.step) * cut.step
        parts = self.b.open_loop(0, cut.size, extent)
        stop = self.b.emit(f"add i64 {parts.index}, {extent}")
        if cut.size % extent:
            stop = call(self.b, "umin", [stop, str(cut.size)], I64)
        bounds = parts.index, stop
        self.each_sum([cut, *inside], bounds, self.add_results)
        self.b.close_loop(parts)

    def each_sum(
        self, loops: Sequence[SumLoop], bounds: Bounds | None, use: Callable[[list[str]], None]
    ) -> None:
        """Emits what adds up each block of results along some loops, the first within bounds, and uses it."""
        self.each_block(lambda: use(self.sums(loops, bounds)))

    def each_block(self, body: Callable[[], None]) -> None:
        """Emits `body` at each block of results."""
        self.run(self.block_loops, body)

    @property
    def block_loops(self) -> list[SumLoop]:
        extents = {self.row: self.height, self.column: self.width}
        return [SumLoop(name, size, extents.get(name, 1)) for name, size in self.blocks]

    def sums(self, loops: Sequence[SumLoop], bounds: Bounds | None) -> list[str]:
        """The accumulators of a block after some loops of the sum, the first of them within bounds."""
        return list(self.accumulate(loops, self.zeros(), bounds, self.add_products))

    def accumulate(
        self,
        loops: Sequence[SumLoop],
        values: Sequence[str],
        bounds: Bounds | None,
        step: Callable[[Sequence[str]], Sequence[str]],
    ) -> Sequence[str]:
        """Some accumulators after the steps of loops, the first of these within bounds."""
        if not loops:
            return step(values)
        own, *inner = loops
        start, stop = (0, own.size) if bounds is None else bounds
        carried = [(self.carried, value) for value in values]
        loop = self.env.open_loop(own.variable, start, stop, own.step, carried)
        results = self.accumulate(inner, loop.phis, None, step)
        self.b.close_loop(loop, results)
        return results

    def access(self, op: LoadOp | StoreOp) -> TileAccess:
        """Accesses around the first row, column and neighbour of a block and a step."""
        return self.env.access(op.node, address_of(op), value_type(loaded_type(op.node)))

    @property
    def row_stride(self) -> int:
        """The elements from one row of results to the next one."""
        return address_of(self.store).stride(self.row)
