"""Reductions that several threads of a GPU share, and how they are assigned to threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Operation

from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.kernel.gpu import MOST_THREADS, PROCESSORS, SECTOR_BYTES, THREADS, WARP
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import operations, points, with_reduced
from ocannl.passes.analysis.schedules.divisors import divisors, largest_divisor
from ocannl.passes.analysis.schedules.strides import contiguous, contiguous_elements

# A reduction over fewer points is done by one thread.
LEAST_REDUCED = 32
# From this many points on, all warps of a block share a reduction.
LONG = 1024


@dataclass(frozen=True)
class ReductionLanes:
    """The threads that share a reduction, and those beside them in a block, along the own variable `beside`.

    With `is_inner` the former are neighbours in a warp, else the latter.
    """

    count: int
    beside: str | None
    beside_count: int
    is_inner: bool


def is_long(op: ReduceOp) -> bool:
    return points(op.space.data) >= LEAST_REDUCED


def long_reductions(nest: NestOp) -> list[ReduceOp]:
    """The reductions of a nest that are worth several threads, but for those inside others."""
    return [op for op in nest.body.block.ops if isinstance(op, ReduceOp) and is_long(op)]


def needed_before(nest: NestOp, shared: Iterable[ReduceOp]) -> set[Operation] | None:
    """The operations of a nest in the backward slice of the reductions; None where a store comes between."""
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


def choose_lanes(nest: NestOp, shared: Sequence[ReduceOp]) -> ReductionLanes:
    """Neighbouring threads for coalesced loads: along the reductions, or along a variable of the nest."""
    inner = [op for reduce in shared for op in operations(reduce.body.block)]
    longest, most = max(map(shared_size, shared)), max(points(reduce.space.data) for reduce in shared)
    along_reduction = sum(contiguous_elements(operations(r.body.block), shared_variable(r)) for r in shared)
    own = [name for name, size in nest.space.data if size > 1]
    best = max(own, key=lambda name: contiguous_elements(inner, name), default=None)
    sizes = dict(nest.space.data)
    if best is not None and contiguous_elements(inner, best) > along_reduction:
        beside = beside_count(sizes[best], points(nest.space.data), narrowest(inner, best))
        threads = MOST_THREADS if most >= LONG else THREADS
        count = 1 << (min(threads // beside, longest).bit_length() - 1)
        return ReductionLanes(count, best, beside, False)
    if most >= LONG and longest >= THREADS:
        return ReductionLanes(THREADS, None, 1, True)
    beside_name = own[-1] if own else None
    beside = 1 if beside_name is None else largest_divisor(sizes[beside_name], THREADS // WARP)
    return ReductionLanes(WARP, beside_name, beside, True)


def beside_count(size: int, results: int, least: int) -> int:
    """The neighbours of a variable that a block has side by side: few, so that all processors have blocks,
    but not fewer than are in a sector of memory.
    """
    fitting = [count for count in divisors(size, WARP) if count >= least]
    wide = [count for count in fitting if results // count >= PROCESSORS]
    return max(wide, default=min(fitting, default=largest_divisor(size, WARP)))


def narrowest(ops: Iterable[Operation], name: str) -> int:
    """The elements in a sector of memory of the smallest numbers that are contiguous along a variable."""
    sizes = [element_bytes(op.node) for op in ops if isinstance(op, LoadOp) and contiguous([op], name)]
    return SECTOR_BYTES // min(sizes, default=SECTOR_BYTES)


def shared_variable(reduce: ReduceOp) -> str:
    """The variable of a reduction that its threads share: contiguous if possible, else the largest."""
    inner = operations(reduce.body.block)
    return max(reduce.space.data, key=lambda v: (contiguous_elements(inner, v[0]), v[1]))[0]


def shared_size(reduce: ReduceOp) -> int:
    """The size of the variable that threads share."""
    return dict(reduce.space.data)[shared_variable(reduce)]
