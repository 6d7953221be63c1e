"""Emits nests: loops over register tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.arith import ExtSIOp, MuliOp
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation

from ocannl.dialects.loops import ReduceOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.lowering.llvm.builder import Position
from ocannl.lowering.llvm.instructions import call
from ocannl.lowering.llvm.types import I64
from ocannl.lowering.loops_to_llvm.blocked_reduction import BlockedAccumulation
from ocannl.lowering.loops_to_llvm.reduction import Accumulation
from ocannl.lowering.loops_to_llvm.task import Block, run_block, task_blocks
from ocannl.lowering.loops_to_llvm.tile import Lanes, Tile, segments, strip_start
from ocannl.lowering.loops_to_llvm.tile_emitter import TileEmitter
from ocannl.lowering.loops_to_llvm.word_sums import emit_word_sum, scaled
from ocannl.lowering.placement import Level
from ocannl.passes.analysis.patterns.word_products import word_product
from ocannl.passes.analysis.schedules.parallel_tasks import Cut, cuts


class NestEmitter(TileEmitter):
    """Emits one nest, or the task of it whose number is in `%task`."""

    def emit(self) -> None:
        if all(level.size for level in self.placement.levels):
            blocks = task_blocks(self.b, cuts(self.nest))
            self.emit_ops(self.placement.root)
            self.emit_strips(blocks)
            self.b.end_body()

    def emit_strips(self, blocks: dict[str, Block]) -> None:
        """Emits all loops for one strip after the other, if the schedule has some."""
        levels, (variable, size) = self.placement.levels, self.schedule.strips or ("", 0)
        of_task = blocks.get(variable) or whole_block(variable, levels, self.schedule)
        if of_task is None:
            self.emit_levels(levels, blocks)
            return
        with self.env.loop(strip_start(variable), of_task.start, of_task.stop, size) as loop:
            end = self.b.emit(f"add i64 {loop.index}, {size}")
            stop = call(self.b, "umin", [end, of_task.stop], I64)
            strip = Block(replace(of_task.cut, block=size), loop.index, stop, self.b.depth)
            self.emit_levels(levels, blocks | {variable: strip})

    def emit_levels(self, levels: Sequence[Level], blocks: Mapping[str, Block]) -> None:
        if not levels:
            return
        level, inner = levels[0], levels[1:]

        def body(_: Sequence[str] = ()) -> Sequence[str]:
            self.emit_ops(level.ops)
            self.emit_levels(inner, blocks)
            return ()

        block = blocks.get(level.variable)
        if block is not None:
            self.run_block(block, body)
            return
        for segment in segments(level.size, self.extent(level.variable)):
            self.set_tile(level.variable, segment.extent)
            if segment.count > 1 and self.reads_apart(level.variable):
                self.run_apart(level.variable, str(segment.start), segment.count, body)
            else:
                self.run(level.variable, segment, body)

    def run_block(self, block: Block, body: Callable[[], object]) -> None:
        """Emits `body` for the tiles of a task's block, and for the remainder where the last block ends."""
        cut, tiles = block.cut, block.cut.block // block.cut.tile
        self.set_tile(cut.variable, cut.tile)
        if tiles == 1 or not self.reads_apart(cut.variable):
            run_block(self.env, block, body)
        elif cut.whole % cut.block == 0:
            self.run_apart(cut.variable, block.start, tiles, body)
        else:
            size = self.b.emit(f"sub i64 {block.stop}, {block.start}")
            for is_smaller in (False, True):
                test = f"icmp {'ne' if is_smaller else 'eq'} i64 {size}, {cut.block}"
                branch = self.b.open_branch(self.b.emit(test))
                if is_smaller:
                    run_block(self.env, block, body)
                else:
                    self.run_apart(cut.variable, block.start, tiles, body)
                self.b.close_branch(branch)
        if cut.remainder:
            branch = self.b.open_branch(self.b.emit(f"icmp eq i64 {block.stop}, {cut.whole}"))
            self.set_tile(cut.variable, cut.remainder)
            self.positions[cut.variable] = Position(None, cut.whole)
            body()
            self.b.close_branch(branch)

    def reads_apart(self, variable: str) -> bool:
        """Whether the tiles of a loop have rows that are apart: those of a large matrix, which is read once,
        are then as many long streams, of which a hardware prefetcher runs ahead.
        """
        matrices = self.rows_ahead.values()
        return (
            variable == self.row_variable and bool(matrices) and all(rows.make_streams for rows in matrices)
        )

    def run_apart(self, variable: str, start: str, tiles: int, body: Callable[[], object]) -> None:
        """Emits `body` for some tiles: the first has the first row of each of as many equal parts, and so
        on.
        """
        with self.env.loop(variable, start, self.b.emit(f"add i64 {start}, {tiles}")):
            self.rows_apart = tiles
            body()
            self.rows_apart = 1

    def extent(self, variable: str) -> int:
        """How many points of a variable are in one tile."""
        if variable == self.row_variable:
            return self.row_extent
        return self.lane_extent if variable == self.lane_variable else 1

    def set_tile(self, variable: str, extent: int) -> None:
        if variable == self.row_variable:
            self.height = extent
        elif variable == self.lane_variable:
            self.lanes = Lanes.of(extent)

    def reduce(self, op: ReduceOp) -> Tile:
        self.fetch_results(op)
        self.begin_tile(op)
        product = word_product(op) if self.lanes.width > 1 else None
        if product is not None:
            words = emit_word_sum(self, op, product, self.placement.reductions[op].rows)
            if words is not None:
                return words
        kind = Accumulation if op.blocks is None else BlockedAccumulation
        return kind(self, op, self.placement.reductions[op]).emit()

    def scalar(self, op: Operation) -> Tile:
        operands = [self.values[operand] for operand in op.operands]
        is_product = isinstance(op, MuliOp) and op.result.type == i32
        # Factors of i32 in 16 bits are sums of pairs.
        if is_product and any(operand.type.element == "i16" for operand in operands):
            both = zip(operands, op.operands, strict=True)
            (sums, _), (scale, byte) = sorted(both, key=lambda found: found[0].type.element != "i16")
            return scaled(self, sums, scale, isinstance(byte.owner, ExtSIOp))
        return super().scalar(op)


def whole_block(variable: str, levels: Sequence[Level], schedule: Schedule) -> Block | None:
    """All whole tiles of a loop, with its remainder; None if there are none."""
    size, tile = (
        next((level.size for level in levels if level.variable == variable), 0),
        schedule.tile(variable),
    )
    whole = size - size % tile
    return Block(Cut(variable, tile, whole, whole, size % tile), "0", str(whole)) if whole else None
