"""Gradients of images, whose windows scatter: gathered, over what is read of them."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import Float32Type

from ocannl.dialects.index.linear import Linear, SpaceAttr
from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import (
    Opaque,
    accesses,
    all_steps,
    node_mode,
    operations,
    points,
    used_nodes,
)
from ocannl.passes.analysis.target import TargetDescription
from ocannl.passes.loops.winograd.blocks import Extents, pays
from ocannl.passes.loops.winograd.transforms import OFFSETS, POSITIONS
from ocannl.passes.rewrites.gathered_windows import Scatter, find_scatter, gathered
from ocannl.passes.rewrites.indices import substitute_indices

Range = tuple[int, int]


def gathered_nests(func: FuncOp, nest: NestOp, labels: Names, target: TargetDescription) -> list[NestOp]:
    """Replaces a nest whose windows of 3 x 3 scatter by one that gathers the elements that are read, if it
    pays to compute that by tiles; returns it.
    """
    scatter = find_scatter(nest) if isinstance(nest.parent_op(), FuncOp) and nest.schedule is None else None
    if scatter is None or not is_plain(scatter):
        return []
    ranges = ranges_read(func, scatter)
    if any((stop - start) % POSITIONS for start, stop in ranges.values()):
        return []
    if not pays(extents(scatter, ranges), target):
        return []
    found = gathered(func, scatter, labels)
    for each in found:
        trim(each, ranges)
    return found


def is_plain(scatter: Scatter) -> bool:
    """Whether there are two windows with steps of 1, and numbers in f32."""
    return (
        len(scatter.windows) == 2
        and isinstance(scatter.total.result.type, Float32Type)
        and all(w.stride == w.dilation == 1 and w.offsets == OFFSETS for w in scatter.windows)
    )


def extents(scatter: Scatter, ranges: dict[str, Range]) -> Extents:
    """The sizes of what is gathered: the sum runs over the channels of what moves."""
    sizes = dict(scatter.nest.space.data)
    moving = {name for index in scatter.moving.indices.data for name in index.names}
    batch = tuple((name, size) for name, size in sizes.items() if name in moving - scatter.names)
    outer = math.prod(size for name, size in sizes.items() if name not in moving | scatter.names)
    tiles = tuple((name, (stop - start) // POSITIONS) for name, (start, stop) in ranges.items())
    return Extents((*batch, *tiles), points(scatter.total.space.data), outer, of_kernel=False)


def ranges_read(func: FuncOp, scatter: Scatter) -> dict[str, Range]:
    """For each window, the elements along its axis of the result that something reads, from the first to
    behind the last: all, if they live on.
    """
    node, found = scatter.store.node, dict[str, Range]()
    is_known = node_mode(node) == "local" and not any(
        isinstance(step, Opaque) and node in used_nodes(step) for step in all_steps(func)
    )
    loads = [
        op
        for step in all_steps(func)
        if not isinstance(step, Opaque) and step is not scatter.nest
        for op in accesses(step)
        if isinstance(op, LoadOp) and op.node is node
    ]
    for window in scatter.windows:
        places = [window.position in index.names for index in scatter.store.indices.data]
        axis = places.index(True)
        found[window.position] = (0, memref_shape(node)[axis])
        if is_known and loads and not any(op.positions for op in loads):
            reached = [op.indices.data[axis].extremes(scope_sizes(op)) for op in loads]
            known = [range for range in reached if range is not None]
            if len(known) == len(reached):
                found[window.position] = (min(low for low, _ in known), max(high for _, high in known) + 1)
    return found


def trim(nest: NestOp, ranges: dict[str, Range]) -> None:
    """Leaves out the elements that nothing reads."""
    starts = {name: Linear.of({name: 1}, start) for name, (start, _) in ranges.items()}
    substitute_indices(operations(nest.body.block), starts)
    sizes = {name: stop - start for name, (start, stop) in ranges.items()}
    space = tuple((name, sizes.get(name, size)) for name, size in nest.space.data)
    nest.properties["space"] = SpaceAttr(space)
