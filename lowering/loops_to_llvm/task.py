"""Tasks of parallel nests and groups: the bounds of a task's block, from its number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ocannl.dialects.records import dataclass
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.loops_to_llvm.environment import Environment
from ocannl.passes.analysis.schedules.parallel_tasks import Cut


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a loop, of a task or of a strip: from the value `start`, in the scope `depth`, to `stop`."""

    cut: Cut
    start: str
    stop: str
    depth: int = 0


def task_blocks(b: FunctionBuilder, cuts: Sequence[Cut]) -> dict[str, Block]:
    """The blocks of the task `%task`, by variable; the last cut varies fastest."""
    blocks: dict[str, Block] = {}
    number = "%task"
    for cut in reversed(cuts):
        if cut is cuts[0]:
            place = number
        else:
            place = b.emit(f"urem i64 {number}, {cut.count}")
            number = b.emit(f"udiv i64 {number}, {cut.count}")
        blocks[cut.variable] = _block(b, cut, place)
    return blocks


def _block(b: FunctionBuilder, cut: Cut, place: str) -> Block:
    start = b.emit(f"mul i64 {place}, {cut.block}")
    stop = b.emit(f"add i64 {start}, {cut.block}")
    if cut.whole % cut.block:
        fits = b.emit(f"icmp ult i64 {stop}, {cut.whole}")
        stop = b.emit(f"select i1 {fits}, i64 {stop}, i64 {cut.whole}")
    return Block(cut, start, stop)


def run_block(env: Environment, block: Block, body: Callable[[], object]) -> None:
    """Emits `body` for the whole tiles of a block."""
    cut = block.cut
    if cut.block == cut.tile:
        env.positions[cut.variable] = Position(block.start, 0, block.depth)
        body()
        return
    with env.loop(cut.variable, block.start, block.stop, cut.tile):
        body()
