"""`loop-invariant-code-motion`: operations that do not vary in a reduction are moved before it."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.loops import ReduceOp, YieldOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import Indexed, functions, nests, points, with_reduced


def hoist_from(reduce: ReduceOp) -> None:
    """Moves invariant operations before `reduce`; inner reductions first, so that their operations may move
    on.
    """
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
    """Whether an operation, or one in its body, depends on the variables or on varying values."""
    for inner in with_reduced((op,)):
        if any(operand in varying for operand in inner.operands):
            return True
        indices = inner.indices.data if isinstance(inner, Indexed) else ()
        if any(name in variables for index in indices for name, _ in index.terms):
            return True
    return False


@dataclass(frozen=True)
class LoopInvariantCodeMotionPass(ModulePass):
    """Loop-invariant code motion: moves operations, loads included, out of the reductions in which they do
    not vary (Aho, Lam, Sethi and Ullman, "Compilers", section 9.5).

    Only whole values move: a product with an invariant factor stays, as accumulating first would round
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
