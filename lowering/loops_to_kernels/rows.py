"""Few results from long reductions: threads share the points of each reduction and combine what they have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation

from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.kernel import CombineOp, combination
from ocannl.dialects.kernel.launch import MOST_THREADS, WARP, LaunchOp, SharedOp
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.values import address_of
from ocannl.lowering.loops_to_kernels.draft import (
    THREADS,
    Draft,
    detached,
    guarded,
    largest_part,
    split_reduction,
)
from ocannl.passes.analysis.nests import operations, points, substitute_indices, with_reduced

# With more points than these there are threads enough, if they are contiguous and the reductions are not.
MOST_POINTS = 2**14
# A reduction over fewer points is done by one thread.
LEAST_REDUCED = 32
# From this many points on, all warps of a block share a reduction.
LONG = 1024


@dataclass(frozen=True)
class Lanes:
    """The threads that share a reduction, and those beside them in a block, along the own variable `beside`.

    With `is_inner` the former are neighbours in a warp, else the latter.
    """

    count: int
    beside: str | None
    beside_count: int
    is_inner: bool


def row_reductions(nest: NestOp) -> LaunchOp | None:
    """A kernel whose threads share the reductions of a nest, if that has few points and long reductions."""
    shared = [op for op in nest.body.block.ops if isinstance(op, ReduceOp) and is_long(op)]
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
    body = combine_all([op for op in ops if op in first], set(shared), draft, lane, lanes.count)
    rest = [op for op in ops if op not in first]
    launch = draft.launch(nest, [*body, *guarded([Bound(Linear.var(lane), 1)], rest)])
    add_scratch(launch)
    return launch


def is_long(op: ReduceOp) -> bool:
    return points(op.space.data) >= LEAST_REDUCED


def needed_before(nest: NestOp, shared: Sequence[ReduceOp]) -> set[Operation] | None:
    """The operations of a nest that the reductions need, with these; None where a store comes between."""
    needed: set[Operation] = set()
    pending: list[Operation] = list(shared)
    while pending:
        op = pending.pop()
        if op in needed or op.parent is not nest.body.block:
            continue
        needed.add(op)
        for inner in with_reduced((op,)):
            pending += [o.owner for o in inner.operands if isinstance(o.owner, Operation)]
    stored: set[object] = set()
    for op in nest.body.block.ops:
        if isinstance(op, StoreOp):
            stored.add(op.node)
        elif op in needed and any(isinstance(o, LoadOp) and o.node in stored for o in with_reduced((op,))):
            return None
    return needed


def choose_lanes(nest: NestOp, shared: Sequence[ReduceOp]) -> Lanes:
    """Neighbouring threads read what is contiguous: along the reductions, or along a variable of the nest."""
    inner = [op for reduce in shared for op in operations(reduce.body.block)]
    longest, most = max(map(size_of, shared)), max(points(reduce.space.data) for reduce in shared)
    along_reduction = sum(streamed(operations(r.body.block), shared_variable(r)) for r in shared)
    own = [name for name, size in nest.space.data if size > 1]
    best = max(own, key=lambda name: streamed(inner, name), default=None)
    sizes = dict(nest.space.data)
    if best is not None and streamed(inner, best) > along_reduction:
        beside = largest_part(sizes[best], WARP)
        threads = MOST_THREADS if most >= LONG else THREADS
        count = 1 << (min(threads // beside, longest).bit_length() - 1)
        return Lanes(count, best, beside, False)
    if most >= LONG and longest >= THREADS:
        return Lanes(THREADS, None, 1, True)
    beside_name = own[-1] if own else None
    beside = 1 if beside_name is None else largest_part(sizes[beside_name], THREADS // WARP)
    return Lanes(WARP, beside_name, beside, True)


def streamed(ops: Sequence[Operation], name: str) -> int:
    """How much of what is accessed is contiguous along a variable, in elements."""
    total = 0
    for op in ops:
        if isinstance(op, LoadOp | StoreOp) and abs((address := address_of(op)).stride(name)) == 1:
            sizes = scope_sizes(op)
            total += math.prod(sizes.get(moving, 1) for moving, _ in address.terms)
    return total


def shared_variable(reduce: ReduceOp) -> str:
    """The variable of a reduction that its threads share: contiguous if possible, else the largest."""
    inner = operations(reduce.body.block)
    return max(reduce.space.data, key=lambda v: (streamed(inner, v[0]), v[1]))[0]


def size_of(reduce: ReduceOp) -> int:
    return dict(reduce.space.data)[shared_variable(reduce)]


def place_variables(draft: Draft, nest: NestOp, lanes: Lanes, lane: str) -> None:
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
    """Splits the shared reductions over the threads, each followed by what combines them."""
    body: list[Operation] = []
    for op in ops:
        body.append(op)
        if isinstance(op, ReduceOp) and op in shared:
            share(op, draft, lane, count)
            combined = CombineOp(op.accum.data, op.result, lane)
            op.result.replace_all_uses_with(combined.result)
            combined.operands = [op.result]
            body.append(combined)
    return body


def share(reduce: ReduceOp, draft: Draft, lane: str, count: int) -> None:
    """Gives each of `count` threads every `count`-th value of a reduction's variable."""
    name, size = shared_variable(reduce), size_of(reduce)
    step = draft.names.fresh(f"{name}_step")
    value = Linear.of({step: count, lane: 1})
    substitute_indices(operations(reduce.body.block), {name: value})
    split_reduction(reduce, name, step, -(-size // count), [Bound(value, size)] if size % count else [])


def add_scratch(launch: LaunchOp) -> None:
    """Gives combinations between warps a shared array, one for each type."""
    arrays: dict[Attribute, SharedOp] = {}
    for op in list(launch.body.block.ops):
        if isinstance(op, CombineOp) and combination(launch, op.across.data).through_memory:
            type = op.value.type
            if type not in arrays:
                arrays[type] = SharedOp(MemRefType(type, [math.prod([launch.threads])]))
            op.operands = [op.value, arrays[type].result]
    first = launch.body.block.first_op
    for array in arrays.values():
        assert first is not None
        launch.body.block.insert_op_before(array, first)
