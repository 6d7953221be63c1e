"""Several reductions over one space in one loop, so that what they all load is loaded once."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, Region

from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear, Space
from ocannl.dialects.kernel import ForOp
from ocannl.dialects.kernel.own import OwnOp
from ocannl.dialects.loops import LoadOp, ReduceOp, StoreOp, YieldOp
from ocannl.dialects.scalar.accumulation import accumulate, builder_for, neutral_constant
from ocannl.lowering.loops_to_kernels.draft import guarded
from ocannl.passes.analysis.nests import operations, with_reduced
from ocannl.passes.rewrites.common_subexpressions import Eliminator
from ocannl.passes.rewrites.indices import substitute_indices

# The only element of an array of a thread.
HERE = (Linear(),)


def is_joint(reduces: Sequence[ReduceOp], needed: Collection[Operation]) -> bool:
    """Whether reductions can be one loop: they are several, over equal spaces, with only scalars inside, and
    none of what is needed for them needs one of them.
    """
    sizes = {tuple(size for _, size in op.space.data) for op in reduces}
    if len(reduces) < 2 or len(sizes) != 1 or any(op.where is not None for op in reduces):
        return False
    results = {op.result for op in reduces}
    inner = [each for op in needed for each in with_reduced([op])]
    return not any(operand in results for each in inner for operand in each.operands) and not any(
        isinstance(each, ReduceOp) for op in reduces for each in op.body.block.ops
    )


def name_alike(reduces: Sequence[ReduceOp]) -> Space:
    """Gives the variables of all reductions the names that the first one has; returns its space."""
    space = reduces[0].space.data
    for other in reduces[1:]:
        names = {n: Linear.var(own) for (own, _), n in zip(space, other.space.names, strict=True)}
        substitute_indices(operations(other.body.block), names)
    return space


def one_loop(
    reduces: Sequence[ReduceOp], space: Space, where: Sequence[Bound]
) -> tuple[list[Operation], list[LoadOp]]:
    """A loop over a space that accumulates reductions, whose variables have the same names, in registers of
    the thread; and the loads of their results, which take their place.
    """
    before, body, totals = list[Operation](), list[Operation](), list[LoadOp]()
    for reduce in reduces:
        accum, type = reduce.accum.data, reduce.result.type
        own = OwnOp(MemRefType(type, [1]))
        b = builder_for(type)
        start = neutral_constant(b, accum, type)
        before += [own, *b.ops, StoreOp(start, own.result, HERE)]
        old = LoadOp(own.result, HERE)
        b = builder_for(type)
        new = accumulate(b, accum, old.result, reduce.yielded)
        body += [*taken(reduce), old, *b.ops, StoreOp(new, own.result, HERE)]
        total = LoadOp(own.result, HERE)
        reduce.result.replace_all_uses_with(total.result)
        totals.append(total)
    inside = Block(body)
    Eliminator().run(inside)
    ops = guarded(where, detached(inside))
    return [*before, ForOp(space, Region(Block(ops)))], totals


def taken(reduce: ReduceOp) -> list[Operation]:
    """The operations of a reduction, taken out of it, but for what ends it."""
    return [op for op in detached(reduce.body.block) if not isinstance(op, YieldOp)]


def detached(block: Block) -> list[Operation]:
    ops = list(block.ops)
    for op in ops:
        op.detach()
    return ops
