"""Gradients of images, whose windows scatter: gathered, over what is read of them."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import Float32Type

from ocannl.dialects.loops import FuncOp, NestOp
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import points
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.winograd.blocks import Extents, pays
from ocannl.passes.loops.winograd.transforms import OFFSETS, POSITIONS
from ocannl.passes.rewrites.gathered_windows import Scatter, find_scatter, gathered


def gathered_nests(func: FuncOp, nest: NestOp, labels: Names, target: TargetDescription) -> list[NestOp]:
    """Replaces a nest whose windows of 3 x 3 scatter by one that gathers the elements that are read, if it
    pays to compute that by tiles; returns it.
    """
    is_free = isinstance(nest.parent_op(), FuncOp) and nest.schedule is None
    scatter = find_scatter(func, nest) if is_free else None
    if scatter is None or not is_plain(scatter):
        return []
    if any(len(window.elements(0)) % POSITIONS for window in scatter.windows):
        return []
    return gathered(func, scatter, labels).sums if pays(extents(scatter), target) else []


def is_plain(scatter: Scatter) -> bool:
    """Whether there are two windows with steps of 1, and numbers in f32."""
    return (
        len(scatter.windows) == 2
        and isinstance(scatter.total.result.type, Float32Type)
        and all(w.stride == w.dilation == 1 and w.offsets == OFFSETS for w in scatter.windows)
    )


def extents(scatter: Scatter) -> Extents:
    """The sizes of what is gathered: the sum runs over the channels of what moves."""
    sizes = dict(scatter.nest.space.data)
    moving = {name for index in scatter.moving.indices.data for name in index.names}
    batch = tuple((name, size) for name, size in sizes.items() if name in moving - scatter.names)
    outer = math.prod(size for name, size in sizes.items() if name not in moving | scatter.names)
    tiles = tuple((w.position, len(w.elements(0)) // POSITIONS) for w in scatter.windows)
    return Extents((*batch, *tiles), points(scatter.total.space.data), outer, of_kernel=False)
