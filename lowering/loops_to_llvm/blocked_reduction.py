"""Emits sums in blocks: accumulators in registers start from 0 in each block, totals are on the stack."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.ir import Attribute, Block, SSAValue

from ocannl.dialects.loops import ReduceOp, SumBlocks
from ocannl.dialects.scalar.accumulation import add_exactly, builder_for, corrected
from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.lowering.llvm.accumulators import combine
from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.instructions import call, emit_formula
from ocannl.lowering.llvm.types import I64, ValueType
from ocannl.lowering.loops_to_llvm.reduction import Accumulate, Accumulation
from ocannl.lowering.loops_to_llvm.tile import Lanes, Segment, segments
from ocannl.lowering.loops_to_llvm.tile_emitter import TileEmitter
from ocannl.lowering.placement import Level, Reduction

# The points that a step adds in pairs at most, and the bytes of their sums, in registers; and the bytes of
# neighbours that a step reads at most: LLVM loads the first vector of all points before the second one, which
# leads the hardware's prefetchers astray where these are far from each other.
MOST_PAIRED, PAIRED_BYTES, SIDE_BY_SIDE = 8, 1024, 512
# The operations of a sum of which several points are worth their code.
LIGHT = 6

Formula: TypeAlias = Callable[[ArithBuilder, SSAValue, SSAValue], Sequence[SSAValue]]


class BlockedAccumulation(Accumulation):
    """Emits a sum whose accumulators are added to totals in time.

    The loop `blocked` has an inner loop for each block, of as many points as `block` says. Accumulators with
    numbers that are in no total yet are `pending`.
    """

    def __init__(self, nest: TileEmitter, op: ReduceOp, reduction: Reduction) -> None:
        super().__init__(nest, op, reduction)
        assert op.blocks is not None
        self.blocks: SumBlocks = op.blocks.data
        self.blocked: Level | None = None
        self.block = 0
        self.pending = False
        self.totals = Totals(self.b, op.result.type, self.type, self.blocks.compensated)
        if self.blocks.compensated and reduction.levels and reduction.product is None and is_light(op):
            self.add_in_pairs(reduction.levels)

    def add_in_pairs(self, levels: Sequence[Level]) -> None:
        """Lets each step add up some points before it adds them to an accumulator, so that blocks are longer
        and totals cost little.
        """
        bytes = self.height * self.width * self.scalar.bytes
        most = min(MOST_PAIRED, 2 ** (PAIRED_BYTES // bytes - 1))
        last = levels[-1]
        if self.across is not None:
            most = min(most, max(1, SIDE_BY_SIDE // (self.width * self.scalar.bytes)))
        if most > 1 and self.across in (None, last):
            size = last.size if self.across is None else last.size // self.width
            self.groups, self.kept = max(1, min(most, size)), 1

    def rows(self, levels: Sequence[Level]) -> list[str]:
        if not levels or self.numbers(levels) <= self.blocks.size:
            return super().rows(levels)
        self.blocked, self.block = self.first_blocked(levels)
        self.totals.open(self.height)
        self.add_blocks(levels)
        return self.totals.results()

    def numbers(self, levels: Sequence[Level]) -> int:
        """How many numbers an accumulator adds up in some inner loops."""
        split, parts = self.reduction.levels[-1], self.groups
        if self.across is not None:
            split, parts = self.across, self.groups * self.taken
        return math.prod([-(-level.size // parts) if level is split else level.size for level in levels])

    def first_blocked(self, levels: Sequence[Level]) -> tuple[Level, int]:
        """The outermost loop of which a block has all points or several, and how many it may have."""
        size = self.blocks.size
        for place, level in enumerate(levels):
            each = self.numbers(levels[place + 1 :])
            if 2 * each <= size or self.numbers(levels[place:]) <= size:
                return level, size // each
        return levels[-1], size

    def add_blocks(self, levels: Sequence[Level]) -> None:
        """Runs some inner loops, and adds their blocks to the totals."""
        level, inner = levels[0], levels[1:]
        if level is not self.blocked:
            self.add_points(level, inner)
            return
        self.pending = False
        values = self.accumulate(levels, self.start)
        if self.pending:
            self.totals.add(self.join(values))

    def add_points(self, level: Level, inner: Sequence[Level]) -> None:
        """Runs a loop of whose points each has blocks of its own."""
        is_across = level is self.across

        def body(_: Sequence[str]) -> Sequence[str]:
            self.nest.emit_ops(level.ops)
            self.add_blocks(inner)
            return ()

        for segment in segments(level.size, self.taken if is_across else 1):
            if is_across:
                self.nest.lanes = Lanes(self.taken, segment.extent)
            self.nest.run(level.variable, segment, body)

    def several_groups(
        self, level: Level, inner: Sequence[Level], count: int, apart: int, values: Sequence[str]
    ) -> Sequence[str]:
        if self.kept == self.groups:
            return super().several_groups(level, inner, count, apart, values)
        waiting: list[tuple[int, Sequence[str]]] = []
        for _ in self.neighbours(level, count, apart):
            found = 1, [self.contribution(row) for row in range(self.height)]
            while waiting and waiting[-1][0] == found[0]:
                found = 2 * found[0], self.sums(waiting.pop()[1], found[1])
            waiting.append(found)
        results = values
        for _, rows in reversed(waiting):
            results = self.sums(results, rows)
        return self.active(results, values)

    def sums(self, values: Sequence[str], others: Sequence[str]) -> list[str]:
        """The sums of two values of each row."""
        return [combine(self.b, "add", x, y, self.type) for x, y in zip(values, others, strict=True)]

    def run(
        self, level: Level, segment: Segment, body: Accumulate, values: Sequence[str], added: int = 1
    ) -> Sequence[str]:
        if level is not self.blocked:
            return super().run(level, segment, body, values, added)
        steps = max(1, self.block // added)
        if segment.count <= steps:
            self.pending = True
            return super().run(level, segment, body, values, added)
        b, extent = self.b, steps * segment.extent
        blocks = b.open_loop(segment.start, segment.stop, extent)
        stop = b.emit(f"add i64 {blocks.index}, {extent}")
        if segment.count % steps:
            stop = call(b, "umin", [stop, str(segment.stop)], I64)
        initial = [(self.type.text, value) for value in values]
        loop = self.nest.env.open_loop(level.variable, blocks.index, stop, segment.extent, initial)
        results = body(loop.phis)
        b.close_loop(loop, results)
        self.totals.add(self.join(results))
        b.close_loop(blocks)
        return values


def is_light(op: ReduceOp) -> bool:
    return len(list(op.body.block.ops)) <= LIGHT and not any(inner.regions for inner in op.body.block.ops)


def with_error(b: ArithBuilder, total: SSAValue, error: SSAValue) -> list[SSAValue]:
    return [corrected(b, total, error)]


class Totals:
    """The totals of some rows, on the stack, of an element type in lanes; beside them, where they are
    compensated, the sums of what their additions rounded off (Ogita, Rump and Oishi, "Accurate Sum and Dot
    Product", 2005).
    """

    def __init__(self, b: FunctionBuilder, element: Attribute, type: ValueType, compensated: bool) -> None:
        self.b = b
        self.element = element
        self.type = type
        self.compensated = compensated
        self.totals: list[str] = []
        self.errors: list[str] = []

    def open(self, rows: int) -> None:
        """Starts from 0."""
        self.totals = [self.b.allocate(self.type.text) for _ in range(rows)]
        self.errors = [self.b.allocate(self.type.text) for _ in range(rows * self.compensated)]
        for place in (*self.totals, *self.errors):
            self.b.emit_void(f"store {self.type.text} zeroinitializer, ptr {place}")

    def add(self, values: Sequence[str]) -> None:
        """Adds a value to the total of each row."""
        for row, value in enumerate(values):
            total = self.load(self.totals[row])
            if self.compensated:
                total, rounded_off = self.emit(add_exactly, total, value)
                error = self.load(self.errors[row])
                self.store(combine(self.b, "add", error, rounded_off, self.type), self.errors[row])
            else:
                total = combine(self.b, "add", total, value, self.type)
            self.store(total, self.totals[row])

    def results(self) -> list[str]:
        totals = [self.load(place) for place in self.totals]
        errors = [self.load(place) for place in self.errors]
        pairs = zip(totals, errors, strict=True)
        return [self.emit(with_error, *pair)[0] for pair in pairs] if errors else totals

    def emit(self, make: Formula, x: str, y: str) -> list[str]:
        """The results of a formula of two floats."""
        made = builder_for(self.element)
        block = Block(arg_types=[made.type] * 2)
        results = make(made, *block.args)
        values: dict[SSAValue, str] = dict(zip(block.args, (x, y), strict=True))
        emit_formula(self.b, made.ops, values, self.type.width)
        return [values[result] for result in results]

    def load(self, place: str) -> str:
        return self.b.emit(f"load {self.type.text}, ptr {place}")

    def store(self, value: str, place: str) -> None:
        self.b.emit_void(f"store {self.type.text} {value}, ptr {place}")
