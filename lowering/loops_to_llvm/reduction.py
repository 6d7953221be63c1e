"""Emits reductions inside a register tile: accumulators in registers, carried around loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from ocannl.dialects.loops import ReduceOp
from ocannl.lowering.llvm.accumulators import across_lanes, combine, neutral
from ocannl.lowering.llvm.builder import Position
from ocannl.lowering.llvm.instructions import select
from ocannl.lowering.llvm.types import value_type, vector
from ocannl.lowering.loops_to_llvm.pair_sums import PAIR, PairProduct
from ocannl.lowering.loops_to_llvm.tile import Lanes, Segment, Tile, segments
from ocannl.lowering.loops_to_llvm.tile_emitter import TileEmitter
from ocannl.lowering.placement import Level, Reduction

# Accumulators that hide the latency of an addition, and their bytes at most, so that none is spilled.
INDEPENDENT, INDEPENDENT_BYTES = 8, 512
UNROLLED = 4
# The accumulators up to which a long loop takes 4 or 2 points at a time: the instructions of the loop itself
# take the ports of 512-bit multiplications. It has so many points at least.
BY_FOUR, BY_TWO, LONG = 8, 12, 64
# The least lanes that an instruction for pairs has.
LEAST_PAIRS = 4
# With fewer registers, LLVM puts sums into those of broadcast numbers where each of these is multiplied once,
# and stores others between the points of such a body.
MANY_REGISTERS = 32


Accumulate: TypeAlias = Callable[[Sequence[str]], Sequence[str]]


class Accumulation:
    """Emits one reduction.

    Where the lanes are a variable of the reduction, or the schedule has several chains, each group of
    accumulators has its own part of the space; they are combined at the end, in a fixed order.

    A lane takes one number of a factor in each step, or a pair.
    """

    def __init__(self, nest: TileEmitter, op: ReduceOp, reduction: Reduction) -> None:
        self.nest = nest
        self.b = nest.b
        self.op = op
        self.accum = op.accum.data
        self.scalar = value_type(op.result.type)
        self.height = nest.height if reduction.rows else 1
        self.across = across_level(reduction, nest.lane_variable)
        self.pairs = self.pair_product(reduction)
        self.each = 1
        if self.pairs is not None:
            self.each, reduction = PAIR, self.pairs.without_widening(reduction)
            self.across = reduction.levels[-1]
        self.reduction = reduction
        self.groups = 1
        lanes = nest.lanes if reduction.lanes else Lanes()
        if self.across is not None:
            lanes = Lanes.of(max(1, min(self.across.size, nest.lane_extent)))
            lanes = Lanes(lanes.width, lanes.width)
            if self.across is reduction.levels[-1]:
                most = min(INDEPENDENT, INDEPENDENT_BYTES // (lanes.width * self.scalar.bytes))
                most = min(most // self.height, self.across.size // (lanes.width * self.each))
                self.groups = max(1, most)
        elif reduction.levels:
            self.groups = max(1, min(nest.chains, reduction.levels[-1].size))
        self.width = lanes.width
        self.type = vector(self.scalar, self.width if self.width > 1 else 0)
        self.kept = self.groups
        """The groups whose accumulators loops carry."""

    def pair_product(self, reduction: Reduction) -> PairProduct | None:
        """The product whose factors lanes take in pairs, if it has as many as fill a vector of sums."""
        if self.across is None or self.across is not reduction.levels[-1]:
            return None
        width = Lanes.of(max(1, self.nest.lane_extent)).width
        if width < LEAST_PAIRS or self.across.size < PAIR * width:
            return None
        return PairProduct.of(self.nest, reduction)

    @property
    def taken(self) -> int:
        """How many numbers along a loop a vector takes in a step."""
        return self.width * self.each

    @property
    def start(self) -> list[str]:
        return [neutral(self.accum, self.type)] * (self.kept * self.height)

    def emit(self) -> Tile:
        b, levels = self.b, self.reduction.levels
        if not all(level.size for level in levels):
            return Tile([neutral(self.accum, self.scalar)], self.scalar, 0)
        outer = self.nest.lane_variable, self.nest.lanes
        if self.across is not None:
            self.nest.lane_variable = self.across.variable
        rows = self.rows(levels)
        self.nest.lane_variable, self.nest.lanes = outer
        if self.across is None:
            return Tile(rows, self.type, b.depth)
        if self.type.width:
            rows = [across_lanes(b, self.accum, row, self.type) for row in rows]
        return Tile(rows, self.scalar, b.depth)

    def rows(self, levels: Sequence[Level]) -> list[str]:
        """Runs all loops; returns the result of each row, in all lanes."""
        return self.join(self.accumulate(levels, self.start))

    def join(self, values: Sequence[str]) -> list[str]:
        """Combines the accumulators of each row."""
        return [self.join_row(values[row :: self.height]) for row in range(self.height)]

    def join_row(self, parts: Sequence[str]) -> str:
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=False)
            joined = [combine(self.b, self.accum, x, y, self.type) for x, y in pairs]
            parts = [*joined, *parts[len(joined) * 2 :]]
        return parts[0]

    def accumulate(self, levels: Sequence[Level], values: Sequence[str]) -> Sequence[str]:
        """Runs the loops of `levels` on the accumulators `values`."""
        if not levels:
            return self.step(values)
        level, inner = levels[0], levels[1:]
        if level is self.across:
            return self.accumulate_across(level, inner, values)
        if not inner and self.groups > 1 and self.across is None:
            return self.accumulate_in_chains(level, values)

        def body(values: Sequence[str]) -> Sequence[str]:
            self.nest.emit_ops(level.ops)
            return self.accumulate(inner, values)

        # The sums of sums of several points do not fit registers.
        is_last = not inner and not any(isinstance(op, ReduceOp) for op in level.ops)
        unrolled = is_last and level.size <= UNROLLED
        steps = points(level.size) if unrolled else segments(level.size, self.together(level, inner))
        for segment in steps:
            each = partial(self.several, level, body, segment.extent)
            values = self.run(level, segment, each, values, segment.extent)
        return values

    def run(
        self, level: Level, segment: Segment, body: Accumulate, values: Sequence[str], added: int = 1
    ) -> Sequence[str]:
        """Runs a segment of a loop, in whose steps an accumulator adds up so many numbers."""
        return self.nest.run(level.variable, segment, body, values, self.type.text)

    def together(self, level: Level, inner: Sequence[Level]) -> int:
        """How many points of a loop its body has."""
        count = self.height * self.groups
        is_product = self.reduction.product is not None and not inner and self.across is None
        is_tight = (
            self.b.machine.vector_registers < MANY_REGISTERS
            and self.width * self.scalar.bytes <= self.b.machine.vector_bytes
        )
        if not is_product or is_tight or count == 1 or count > BY_TWO or level.size < LONG:
            return 1
        return 4 if count <= BY_FOUR and level.size % 4 == 0 else 2

    def several(self, level: Level, body: Accumulate, extent: int, values: Sequence[str]) -> Sequence[str]:
        """The accumulators after some neighbouring points of a loop."""
        first = self.nest.positions[level.variable]
        for point in range(extent):
            self.nest.positions[level.variable] = Position(first.name, first.offset + point, first.depth)
            values = body(values)
        return values

    def accumulate_in_chains(self, level: Level, values: Sequence[str]) -> Sequence[str]:
        """Runs the innermost loop with an accumulator chain for each group, and then the remainder."""
        for segment in segments(level.size, self.groups):
            own = min(segment.extent, self.kept) * self.height
            body = partial(self.several_groups, level, (), segment.extent, 1)
            values = [*self.run(level, segment, body, values[:own]), *values[own:]]
        return values

    def accumulate_across(self, level: Level, inner: Sequence[Level], values: Sequence[str]) -> Sequence[str]:
        """Runs a vectorized loop with several accumulators, and a masked step for the remainder."""
        nest, width, done = self.nest, self.taken, 0
        for segment in segments(level.size, width * self.groups):
            if segment.extent == width * self.groups:
                nest.lanes = Lanes(width, width)
                body = partial(self.several_groups, level, inner, self.groups, width)
                values = self.run(level, segment, body, values)
                done = segment.stop
        for group, start in enumerate(range(done, level.size, width)):
            nest.lanes = Lanes(width, min(width, level.size - start))
            first = group % self.kept * self.height
            own = slice(first, first + self.height)
            body = partial(self.several_groups, level, inner, 1, width)
            last = self.run(level, Segment(start, 1, width), body, values[own])
            values = [*values[: own.start], *last, *values[own.stop :]]
        return values

    def several_groups(
        self, level: Level, inner: Sequence[Level], count: int, apart: int, values: Sequence[str]
    ) -> Sequence[str]:
        """The accumulators of so many groups after a step of a loop, in which each has a point of its own."""
        results: list[str] = []
        for group in self.neighbours(level, count, apart):
            own = values[group * self.height : (group + 1) * self.height]
            results += self.accumulate(inner, own)
        return results

    def neighbours(self, level: Level, count: int, apart: int) -> Iterator[int]:
        """Goes to so many points of a loop, one after the other."""
        first = self.nest.positions[level.variable]
        for number in range(count):
            offset = first.offset + number * apart
            self.nest.positions[level.variable] = Position(first.name, offset, first.depth)
            self.nest.emit_ops(level.ops)
            yield number

    def step(self, values: Sequence[str]) -> list[str]:
        """The accumulators after the contribution of one point of the reduction's space."""
        return self.active([self.step_row(row, value) for row, value in enumerate(values)], values)

    def active(self, results: Sequence[str], values: Sequence[str]) -> list[str]:
        """The results in the lanes that count, and the values in the others."""
        # Of pairs that do not count, the products are 0.
        if self.across is None or not self.nest.lanes.masked or self.pairs is not None:
            return list(results)
        mask = self.nest.lanes.mask
        return [select(self.b, mask, new, old, self.type) for new, old in zip(results, values, strict=True)]

    def step_row(self, row: int, value: str) -> str:
        nest, type = self.nest, self.type
        if self.pairs is not None:
            return self.pairs.added(nest, row, value, self.width)
        if self.reduction.product is None:
            return combine(self.b, self.accum, value, self.contribution(row), type)
        x, y = (nest.row(nest.values[v], row, type.width) for v in self.reduction.product.operands)
        arguments = f"{type.text} {x}, {type.text} {y}, {type.text} {value}"
        return self.b.emit(f"call {type.text} @llvm.fmuladd.{type.mangled}({arguments})")

    def contribution(self, row: int) -> str:
        return self.nest.row(self.nest.values[self.op.yielded], row, self.type.width)


def across_level(reduction: Reduction, lane_variable: str | None) -> Level | None:
    """The loop of a reduction that is its vector dimension, if it has one.

    A reduction that is the same for all lanes of the nest's tile has lanes of its own.
    """
    for level in reduction.levels:
        if level.variable == lane_variable:
            return level
    is_uniform = lane_variable is not None and not reduction.lanes
    return reduction.levels[-1] if is_uniform and reduction.contiguous else None


def points(size: int) -> list[Segment]:
    return [Segment(start, 1, 1) for start in range(size)]
