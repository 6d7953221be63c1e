"""Products of warpgroups whose tiles a warp of its own copies, in blocks that walk through all tiles.

There are as many blocks as processors, and each computes one tile after the other (a persistent kernel).
While its warpgroups store the results of a tile, the first steps of the next one are on their way.

NVIDIA, "CUTLASS", `KernelTmaWarpSpecializedCooperative` and `PersistentTileScheduler`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.ir import Block, Operation, Region, SSAValue

from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear, Map, Space, identity_map
from ocannl.dialects.kernel import AwaitOp, FillOp, ForOp, ReleaseOp, RolesOp, WhereOp
from ocannl.dialects.kernel.gpu import GROUP, MOST_ROLE_REGISTERS, REGISTERS_AT_A_TIME, registers_at_start
from ocannl.dialects.kernel.launch import SharedOp
from ocannl.dialects.kernel.mma import WaitProductsOp
from ocannl.dialects.kernel.point import Numbered, PointOp, numbered
from ocannl.dialects.loops import ReduceOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.loops_to_kernels.draft import Draft
from ocannl.lowering.loops_to_kernels.pipelining import Pipeline

# Consumers that share a tile, at least: for fewer threads a warpgroup of copies costs too much.
LEAST_GROUPS = 2
# The arrays of a ring at least: those of the products in flight, and one that is filled meanwhile.
LEAST_STAGES = 3
# Registers of a thread that copies; of one among more than two warpgroups that compute.
COPYING, COPYING_FOR_MANY = 40, 24

Work = Callable[[Sequence[tuple[SSAValue, Map]], Linear, list[Operation]], list[Operation]]


@dataclass(frozen=True)
class RolePipeline:
    """A software pipeline, whose draft has the tiles of a result as its grid, for some processors."""

    pipeline: Pipeline
    processors: int

    @property
    def draft(self) -> Draft:
        return self.pipeline.draft

    @property
    def threads(self) -> int:
        """Those that compute."""
        return math.prod(size for _, size in self.draft.block)

    def fits(self) -> bool:
        """Whether there are enough steps, and hardware copies all tiles."""
        pipeline = self.pipeline
        steps = pipeline.steps * math.prod(size for _, size in pipeline.outer)
        if self.threads < LEAST_GROUPS * GROUP or pipeline.stages < LEAST_STAGES or steps <= pipeline.stages:
            return False
        arrays = [pipeline.array(operand) for operand in pipeline.operands]
        copies = pipeline.copies(arrays, identity_map(name for name, _ in self.space("")), (Linear(),))
        fits = all(copy.is_bulk for copy in copies)
        for copy in copies:
            copy.erase()
        return fits

    def space(self, step: str) -> Space:
        """The steps of a tile."""
        return (*self.pipeline.outer, (step, self.pipeline.steps))

    def launch_body(
        self, accum: str, work: Work, epilogue: Callable[[ReduceOp], Sequence[Operation]]
    ) -> list[Operation]:
        """The shared arrays and both roles; `work` is that of `Pipeline.reduction`, and the epilogue what
        follows the sums of a tile. The grid of the draft is that of the blocks from now on.
        """
        pipeline, draft = self.pipeline, self.draft
        tiles: Space = tuple(draft.grid)
        count = math.prod(size for _, size in tiles)
        workers = min(count, self.processors)
        turn = (draft.names.fresh("turn"), -(-count // workers))
        space = self.space(draft.names.fresh(f"{pipeline.k}_block"))
        stage = numbered((turn, *space) if turn[1] > 1 else space)
        arrays = [pipeline.array(operand) for operand in pipeline.operands]
        copies = pipeline.copies(arrays, identity_map(name for name, _ in space), (stage,))
        fill = FillOp(stage, Region(Block(copies)))
        producer: list[Operation] = [ForOp(space, Region(Block([fill])))]
        reduce = self.sums(accum, work, arrays, space, stage)
        steps = math.prod(size for _, size in space)
        first = stage.substitute({name: Linear() for name, _ in space})
        rest = [ReleaseOp(first + Linear((), k)) for k in range(steps - self.delay, steps)]
        consumer = [reduce, *rest, *epilogue(reduce)]
        bodies = [producer, consumer]
        if turn[1] > 1:
            worker = draft.names.fresh("worker")
            draft.grid[:] = [(worker, workers)]
            at = Numbered(tiles, Linear.of({worker: 1, turn[0]: workers}))
            bodies = [in_turn(turn, at, body) for body in bodies]
        made, found = (Region(Block(body)) for body in bodies)
        return [*arrays, RolesOp(role_registers(self.threads), made, found)]

    @property
    def delay(self) -> int:
        """The steps after which consumers are done with a stage: those whose products are in flight, too."""
        return 1 + self.pipeline.in_flight

    def sums(
        self, accum: str, work: Work, arrays: Sequence[SharedOp], space: Space, stage: Linear
    ) -> ReduceOp:
        """The reduction of the consumers over the steps of a tile."""
        pipeline, number = self.pipeline, numbered(space)
        count = math.prod(size for _, size in space)
        slots: list[tuple[SSAValue, Map]] = [(array.result, (stage,)) for array in arrays]
        tile = work(slots, pipeline.deep(Linear.var(space[-1][0])), [])
        # All but the first steps: the number from the last step on is below theirs.
        later = Bound(number * -1 + Linear((), count - 1), count - self.delay)
        done = [ReleaseOp(stage + Linear((), -self.delay))]
        waits = [WaitProductsOp(pipeline.in_flight)] if pipeline.in_flight else []
        release = WhereOp([later], Region(Block(done)))
        return pipeline.over(space, accum, [*waits, release, AwaitOp(stage), *tile])


def in_turn(turn: tuple[str, int], at: Numbered, ops: Sequence[Operation]) -> list[Operation]:
    """Operations at the point of each turn, if there is one."""
    return [ForOp((turn,), Region(Block([PointOp(at, Region(Block(ops)))])))]


def role_registers(threads: int) -> tuple[int, int]:
    """Registers of the threads that copy, and of as many others that compute."""
    copying = COPYING if threads <= LEAST_GROUPS * GROUP else COPYING_FOR_MANY
    all_threads = threads + GROUP
    left = (registers_at_start(all_threads) * all_threads - GROUP * copying) // threads
    return copying, min(MOST_ROLE_REGISTERS, left // REGISTERS_AT_A_TIME * REGISTERS_AT_A_TIME)
