"""Nests with few results of long reductions: threads share each reduction and combine partial results."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.kernel import CombineOp, block_reduction
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.loops import NestOp, ReduceOp
from ocannl.lowering.loops_to_kernels.draft import Draft, detached, guarded, split_reduction
from ocannl.lowering.loops_to_kernels.joint_reductions import is_joint, name_alike, one_loop
from ocannl.passes.analysis.nests import operations, points
from ocannl.passes.analysis.schedules.shared_reductions import (
    ReductionLanes,
    choose_lanes,
    long_reductions,
    needed_before,
    shared_size,
    shared_variable,
)
from ocannl.passes.rewrites.indices import substitute_indices

# More points than these occupy the GPU without sharing, if the points, not the reductions, are contiguous.
MOST_POINTS = 2**14


def row_reductions(nest: NestOp) -> LaunchOp | None:
    """A kernel whose threads share the reductions of a nest, if that has few points and long reductions."""
    shared = long_reductions(nest)
    if not shared or nest.clashing:
        return None
    lanes, first = choose_lanes(nest, shared), needed_before(nest, shared)
    if first is None or (not lanes.is_inner and points(nest.space.data) > MOST_POINTS):
        return None
    draft = Draft.of(nest)
    lane = draft.names.fresh("lane")
    place_variables(draft, nest, lanes, lane)
    ops = detached(nest)
    draft.substitute(ops)
    combine = combine_jointly if is_joint(shared, first) else combine_all
    body = combine([op for op in ops if op in first], set(shared), draft, lane, lanes.count)
    epilogue = [op for op in ops if op not in first]
    launch = draft.launch(nest, [*body, *guarded([Bound(Linear.var(lane), 1)], epilogue)])
    add_scratch(launch)
    return launch


def place_variables(draft: Draft, nest: NestOp, lanes: ReductionLanes, lane: str) -> None:
    for name, size in nest.space.data:
        if name != lanes.beside or lanes.beside_count == 1:
            draft.grid.append((name, size))
        elif lanes.beside_count == size:
            draft.block.append((name, size))
        else:
            draft.split(name, lanes.beside_count)
    draft.block.insert(len(draft.block) if lanes.is_inner else 0, (lane, lanes.count))


def combine_all(
    ops: Sequence[Operation], shared: set[ReduceOp], draft: Draft, lane: str, count: int
) -> list[Operation]:
    """Splits the shared reductions over the threads, and adds operations that combine their partial
    results.
    """
    body: list[Operation] = []
    for op in ops:
        body.append(op)
        if isinstance(op, ReduceOp) and op in shared:
            share(op, draft, lane, count)
            body.append(combined(op.accum.data, op.result, lane))
    return body


def combine_jointly(
    ops: Sequence[Operation], shared: set[ReduceOp], draft: Draft, lane: str, count: int
) -> list[Operation]:
    """The same, with one loop for all reductions, none of which needs another one."""
    reduces = [op for op in ops if isinstance(op, ReduceOp) and op in shared]
    space = name_alike(reduces)
    name, size = shared_variable(reduces[0]), shared_size(reduces[0])
    step = draft.names.fresh(f"{name}_step")
    value = Linear.of({step: count, lane: 1})
    for reduce in reduces:
        substitute_indices(operations(reduce.body.block), {name: value})
    space = tuple((step, -(-size // count)) if n == name else (n, s) for n, s in space)
    loop, totals = one_loop(reduces, space, [Bound(value, size)] if size % count else [])
    combines = [
        combined(op.accum.data, total.result, lane) for op, total in zip(reduces, totals, strict=True)
    ]
    return [*(op for op in ops if op not in shared), *loop, *totals, *combines]


def combined(accum: str, value: SSAValue, lane: str) -> CombineOp:
    """The combination of a value that threads have parts of, in place of it."""
    op = CombineOp(accum, value, lane)
    value.replace_all_uses_with(op.result)
    op.operands = [value]
    return op


def share(reduce: ReduceOp, draft: Draft, lane: str, count: int) -> None:
    """Gives each of `count` threads every `count`-th value of a reduction's variable."""
    name, size = shared_variable(reduce), shared_size(reduce)
    step = draft.names.fresh(f"{name}_step")
    value = Linear.of({step: count, lane: 1})
    substitute_indices(operations(reduce.body.block), {name: value})
    split_reduction(reduce, name, step, -(-size // count), [Bound(value, size)] if size % count else [])


def add_scratch(launch: LaunchOp) -> None:
    """Gives the combinations that cross warps an array in shared memory, one for each type."""
    arrays: dict[Attribute, SharedOp] = {}
    for op in list(launch.body.block.ops):
        if isinstance(op, CombineOp) and block_reduction(launch, op.across.data).through_memory:
            type = op.value.type
            if type not in arrays:
                arrays[type] = SharedOp(MemRefType(type, [math.prod([launch.threads])]))
            op.operands = [op.value, arrays[type].result]
    first = launch.body.block.first_op
    for array in arrays.values():
        assert first is not None
        launch.body.block.insert_op_before(array, first)
