"""Nests whose points accumulate into the same element, such as overlapping windows: they run in phases.

In `y[h + i] += ...` points that differ in both `h` and `i` may store to one element. Those that differ in `h`
alone do not: so `i` runs sequentially, with a barrier after each of its values, and `h` is for threads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from xdsl.ir import Block, Region

from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.kernel import BarrierOp, ForOp
from ocannl.dialects.kernel.gpu import THREADS
from ocannl.dialects.kernel.launch import LaunchOp
from ocannl.dialects.loops import LoadOp, NestOp, StoreOp
from ocannl.lowering.loops_to_kernels.draft import Draft, Variables, detached, guarded
from ocannl.lowering.loops_to_kernels.pointwise import best_part
from ocannl.passes.analysis.nests import operations
from ocannl.passes.analysis.schedules.strides import in_memory_order


def in_phases(nest: NestOp) -> LaunchOp | None:
    """A kernel whose blocks go through the clashing points of a nest in phases, if some of them can."""
    serial = phases(nest)
    if serial is None:
        return None
    clashing, sizes, draft = nest.clashing, dict(nest.space.data), Draft.of(nest)
    steps: Variables = []
    room = THREADS
    for name in reversed(in_memory_order(nest, [name for name in nest.space.names if name not in serial])):
        size = sizes[name]
        threads = size if size <= room else best_part(size, room)
        if threads == size:
            draft.block.append((name, size))
        elif name in clashing:
            steps.append(split_in_block(draft, name, threads))
        elif threads == 1:
            draft.grid.append((name, size))
        else:
            draft.split(name, threads)
        room //= threads
    for variables in (draft.block, draft.grid, steps):
        variables.reverse()
    ops = detached(nest)
    draft.substitute(ops)
    ops = guarded(draft.bounds, ops)
    if steps:
        ops = [ForOp(tuple(steps), Region(Block(ops)))]
    turns = tuple((name, size) for name, size in nest.space.data if name in serial)
    return draft.launch(nest, [ForOp(turns, Region(Block([*ops, BarrierOp()])))])


def split_in_block(draft: Draft, name: str, threads: int) -> tuple[str, int]:
    """Splits a variable over threads of a block; returns the loop of each thread, by name and size."""
    size, step = draft.sizes[name], draft.names.fresh(f"{name}_step")
    value = Linear.of({step: threads})
    if threads > 1:
        thread = draft.names.fresh(f"{name}_thread")
        draft.block.append((thread, threads))
        value += Linear.var(thread)
    draft.values[name] = value
    if size % threads:
        draft.bounds.append(Bound(value, size))
    return step, -(-size // threads)


def phases(nest: NestOp) -> set[str] | None:
    """The variables, of fewest points, that have to run sequentially so that the points of all others store
    to different elements. None if no conflicting variable would be left, or if points read what others store.
    """
    ops = operations(nest.body.block)
    stored = {op.node: op.indices for op in ops if isinstance(op, StoreOp)}
    loads = [op for op in ops if isinstance(op, LoadOp) and op.node in stored]
    if any(op.positions or op.indices != stored[op.node] for op in loads):
        return None
    if sum(isinstance(op, StoreOp) for op in ops) != len(stored):
        return None
    sizes = dict(nest.space.data)
    found = [names for names in subsets(nest.clashing) if not nest.clashes(sizes.keys() - names)]
    return min(found, key=lambda names: math.prod(sizes[name] for name in names), default=None)


def subsets(names: set[str]) -> Iterator[set[str]]:
    """The subsets that are neither empty nor all, small ones first."""
    for count in range(1, len(names)):
        yield from map(set, itertools.combinations(sorted(names), count))
