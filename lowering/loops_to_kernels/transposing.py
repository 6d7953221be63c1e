"""Nests that transpose: tiles pass through shared memory, so that reads and writes are coalesced."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType

from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear, MapAttr
from ocannl.dialects.index.memref import element_bytes, element_type
from ocannl.dialects.kernel import BarrierOp, CopyOp
from ocannl.dialects.kernel.gpu import BANK_BYTES, THREADS, WARP
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.loops import LoadOp, NestOp, StoreOp
from ocannl.dialects.loops.values import address_of
from ocannl.lowering.loops_to_kernels.draft import Draft, detached, guarded
from ocannl.lowering.loops_to_kernels.pipelining import within_block
from ocannl.passes.analysis.nests import points
from ocannl.passes.analysis.schedules.strides import in_memory_order

# With fewer points coalescing does not pay.
LEAST_POINTS = 2**14
# The sides of a tile, so that a warp reads and writes whole lines.
SIDE = WARP
# Arrays of a block.
MOST_LOADS = 4


def transposing(nest: NestOp) -> LaunchOp | None:
    """A kernel that reads transposed arrays through shared memory, if the nest has some."""
    if nest.clashing or points(nest.space.data) < LEAST_POINTS:
        return None
    *others, column = in_memory_order(nest, list(nest.space.names))
    row = max(others, key=lambda name: len(turned(nest, name, column)), default=None)
    loads = [] if row is None else turned(nest, row, column)
    if row is None or not 0 < len(loads) <= MOST_LOADS:
        return None
    draft = Draft.of(nest)
    draft.grid += [(name, size) for name, size in nest.space.data if name not in (row, column)]
    count = THREADS // SIDE
    by_row = draft.compose(row, [("thread", count), ("reg", SIDE // count)])
    by_column = draft.compose(column, [("thread", SIDE)])
    draft.block += [*by_row["thread"], *by_column["thread"]]
    draft.registers += by_row["reg"]
    arrays, copies = through_shared_memory(draft, loads, row, column)
    ops = detached(nest)
    draft.substitute([op for op in ops if op not in loads])
    return draft.launch(nest, [*arrays, *copies, BarrierOp(), *guarded(draft.bounds, ops)])


def turned(nest: NestOp, row: str, column: str) -> list[LoadOp]:
    """The loads, of nodes that are only read, that are contiguous along `row` and strided along `column`."""
    sizes, ops = dict(nest.space.data), list(nest.body.block.ops)
    stored = {op.node for op in ops if isinstance(op, StoreOp)}
    if min(sizes[row], sizes[column]) < SIDE:
        return []
    loads = [op for op in ops if isinstance(op, LoadOp) and op.node not in stored and not op.positions]
    strides = {op: address_of(op).stride for op in loads}
    return [op for op in loads if abs(strides[op](row)) == 1 and abs(strides[op](column)) > 1]


def through_shared_memory(
    draft: Draft, loads: Sequence[LoadOp], row: str, column: str
) -> tuple[list[SharedOp], list[CopyOp]]:
    """Redirects loads to arrays in shared memory; returns those, and the copies that fill them."""
    grid = dict(draft.grid)
    place = {
        name: Linear.of({n: c for n, c in draft.values[name].terms if n in grid}) + Linear.var(name)
        for name in (row, column)
    }
    where = [Bound(index, draft.sizes[name]) for name, index in place.items() if draft.sizes[name] % SIDE]
    arrays: list[SharedOp] = []
    copies: list[CopyOp] = []
    for load in loads:
        # One word of padding in each row prevents bank conflicts down a column.
        padding = math.ceil(BANK_BYTES / element_bytes(load.node))
        array = SharedOp(MemRefType(element_type(load.node), [SIDE, SIDE + padding]))
        source = tuple(index.substitute(place) for index in load.indices.data)
        target = (Linear.var(column), Linear.var(row))
        copies.append(
            CopyOp((load.node, source), (array.result, target), ((column, SIDE), (row, SIDE)), where)
        )
        load.operands[0] = array.result
        load.properties["indices"] = MapAttr((within_block(draft, column), within_block(draft, row)))
        arrays.append(array)
    return arrays, copies
