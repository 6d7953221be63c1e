"""`loop-invariant-code-motion`: what does not vary in a reduction is computed before it."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.loops import ReduceOp, YieldOp
from ocannl.passes.analysis.nests import Indexed, functions, nests, points, with_reduced


def hoist_from(reduce: ReduceOp) -> None:
    """Moves invariant operations before `reduce`; first those of reductions inside it, which may go on."""
    for op in reduce.body.block.ops:
        if isinstance(op, ReduceOp):
            hoist_from(op)
    if points(reduce.space.data) == 0:
        return
    block = reduce.parent
    assert block is not None
    variables = frozenset(reduce.space.names)
    varying: set[SSAValue] = set()
    for op in list(reduce.body.block.ops):
        if isinstance(op, YieldOp) or _varies(op, variables, varying):
            varying.update(op.results)
        else:
            op.detach()
            block.insert_op_before(op, reduce)


def _varies(op: Operation, variables: frozenset[str], varying: set[SSAValue]) -> bool:
    """Whether an operation, with its body, depends on variables or varying values."""
    for inner in with_reduced((op,)):
        if any(operand in varying for operand in inner.operands):
            return True
        indices = inner.indices.data if isinstance(inner, Indexed) else ()
        if any(name in variables for index in indices for name, _ in index.terms):
            return True
    return False


@dataclass(frozen=True)
class LoopInvariantCodeMotionPass(ModulePass):
    """Moves operations, loads among them, out of the reductions in which they do not vary.

    It applies to whole values: a product with an invariant factor stays, as to accumulate first would round
    otherwise. Reductions over no points are left alone, because their bodies never run. Nothing moves over a
    store: stores stand directly in a nest, never between a reduction and its body.
    """

    name = "loop-invariant-code-motion"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            for nest in nests(func):
                for inner in nest.body.block.ops:
                    if isinstance(inner, ReduceOp):
                        hoist_from(inner)
