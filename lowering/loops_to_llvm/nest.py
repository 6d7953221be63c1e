"""Emits nests: loops over register tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ocannl.dialects.loops import ReduceOp
from ocannl.lowering.llvm.builder import Position
from ocannl.lowering.loops_to_llvm.blocked_reduction import BlockedAccumulation
from ocannl.lowering.loops_to_llvm.reduction import Accumulation
from ocannl.lowering.loops_to_llvm.task import Block, run_block, task_blocks
from ocannl.lowering.loops_to_llvm.tile import Lanes, Tile, segments
from ocannl.lowering.loops_to_llvm.tile_emitter import TileEmitter
from ocannl.lowering.placement import Level
from ocannl.passes.analysis.parallel_tasks import cuts


class NestEmitter(TileEmitter):
    """Emits one nest, or the task of it whose number is in `%task`."""

    def emit(self) -> None:
        if all(level.size for level in self.placement.levels):
            blocks = task_blocks(self.b, cuts(self.nest))
            self.emit_ops(self.placement.root)
            self.emit_levels(self.placement.levels, blocks)

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
            self.run(level.variable, segment, body)

    def run_block(self, block: Block, body: Callable[[], object]) -> None:
        """Emits `body` for the tiles of a task's block, and for the remainder where the last block ends."""
        cut = block.cut
        self.set_tile(cut.variable, cut.tile)
        run_block(self.b, block, self.positions, body)
        if cut.remainder:
            branch = self.b.open_branch(self.b.emit(f"icmp eq i64 {block.stop}, {cut.whole}"))
            self.set_tile(cut.variable, cut.remainder)
            self.positions[cut.variable] = Position(None, cut.whole)
            body()
            self.b.close_branch(branch)

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
        kind = Accumulation if op.blocks is None else BlockedAccumulation
        return kind(self, op, self.placement.reductions[op]).emit()
