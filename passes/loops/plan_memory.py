"""`plan-memory`: the local nodes of a routine share one arena."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import IntAttr, IntegerAttr, ModuleOp, i8, i64
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.memref import array_type
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import FuncOp, RepeatOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.dataflow.liveness import lifetimes
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.names import labels_of
from ocannl.passes.analysis.nests import all_steps, functions


class Arena:
    """An allocator: best fit, into the smallest gap that holds a block, or at the end."""

    def __init__(self) -> None:
        self.end = 0
        self.gaps: list[tuple[int, int]] = []
        """Start and end of the free blocks, in order, never adjacent."""

    def take(self, size: int) -> int:
        fitting = [(end - start, i) for i, (start, end) in enumerate(self.gaps) if end - start >= size]
        if not fitting:
            return self._extend(size)
        _, i = min(fitting)
        start, end = self.gaps[i]
        self.gaps[i : i + 1] = [(start + size, end)] if end - start > size else []
        return start

    def _extend(self, size: int) -> int:
        """Takes a block at the end, with the gap there if there is one."""
        start = self.end
        if self.gaps and self.gaps[-1][1] == self.end:
            start, _ = self.gaps.pop()
        self.end = start + size
        return start

    def give(self, start: int, size: int) -> None:
        """Frees a block, joined with the gaps beside it."""
        end = start + size
        i = next((i for i, gap in enumerate(self.gaps) if gap[0] >= end), len(self.gaps))
        before = after = i
        if i > 0 and self.gaps[i - 1][1] == start:
            start, before = self.gaps[i - 1][0], i - 1
        if i < len(self.gaps) and self.gaps[i][0] == end:
            end, after = self.gaps[i][1], i + 1
        self.gaps[before:after] = [(start, end)]


def plan(func: FuncOp) -> int:
    """Gives every local node an offset, and returns the size of the arena."""
    give_workspaces(func)
    arena = Arena()
    ending: dict[int, list[tuple[int, int]]] = {}
    freed = 0
    for value, lifetime in lifetimes(func).items():
        node = value.owner
        assert isinstance(node, NodeOp)
        if node.mode.data != "local":
            continue
        while freed < lifetime.first:
            for start, size in ending.pop(freed, ()):
                arena.give(start, size)
            freed += 1
        size = aligned(byte_size(node))
        start = arena.take(size)
        node.properties["offset"] = IntAttr(start)
        ending.setdefault(lifetime.last, []).append((start, size))
    return arena.end


def give_workspaces(func: FuncOp) -> None:
    """Declares a local node for the arena of each body that the function repeats, if it has none."""
    labels = labels_of(func)
    for step in all_steps(func):
        if not isinstance(step, RepeatOp) or step.workspace is not None:
            continue
        arena = step.func.attributes.get("arena")
        if isinstance(arena, IntegerAttr) and (size := arena.value.data):
            name = step.body.data
            node = NodeOp(
                labels.fresh(f"{name}.arena"), "local", f"arena of @{name}", array_type(i8, (size,))
            )
            node.result.name_hint = "arena"
            derive([node], step.location)
            Rewriter.insert_op(node, InsertPoint.before(all_steps(func)[0]))
            step.operands = [*step.operands, node.result]


def aligned(size: int) -> int:
    return max(1, -(-size // LINE)) * LINE


@dataclass(frozen=True)
class PlanMemoryPass(ModulePass):
    """Static memory planning: places each local node at an offset in the arena of its function, whose size in
    bytes is the attribute `arena`. Best fit by liveness, in the order of first use (compare Pisarchyk and
    Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).

    Two nodes share bytes only if the last step that touches the one is before the first that touches the
    other. The arena of a body is a local node of each function that repeats it, which only the loop touches.
    Offsets are multiples of a cache line. Nodes that no nest touches get none.
    """

    name = "plan-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            func.attributes["arena"] = IntegerAttr(plan(func), i64)
