"""Arrays that are no images yet: without an axis for channels, or with pixels in one row."""

from __future__ import annotations

from math import isqrt, prod

import ocannl as oc
from ocannl.dialects.shapes.shape import Dim
from ocannl.dialects.texpr import DataOp
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.program import graph
from ocannl.program.location import here, user_location, warn_at

SPATIAL = {1: "position", 2: "height, width", 3: "depth, height, width"}
MOST_CHANNELS = 4
"""Images in files have no more."""


def check_images(x: oc.Tensor, rank: int) -> None:
    """Raises `ShapeError` for images without `rank` spatial axes among their batch axes. Warns of data whose
    last axis seems to be one of them.
    """
    shape, name = graph.known_shape(x.ir_value), tensor_name(x.ir_value)
    batch, axes = shape.batch, shape.memory_axes
    sizes = [axis.size for axis in axes if isinstance(axis, Dim)]
    if not batch.is_closed or not shape.output.is_closed or len(sizes) < len(axes):
        return
    with_channel = f"{name}[..., None]" if len(shape.output.axes) == 1 else None
    if batch.known < rank:
        form = f"an image is batch, {SPATIAL[rank]} | channels"
        gray = f"{with_channel} has an axis of one channel" if with_channel and len(sizes) == rank else None
        way = _unfolded(sizes, rank) or gray
        raise oc.ShapeError(here(f"{form}, and `{name}` is {x.shape}" + (f"\n  hint: {way}" if way else "")))
    is_square = rank > 1 and batch.known == rank and sizes[-1] == sizes[-2] > MOST_CHANNELS
    if is_square and with_channel and isinstance(x.ir_value.owner, DataOp):
        one = f"one image, of {' x '.join(map(str, sizes[:-1]))} with {sizes[-1]} channels"
        warn_at(
            user_location(),
            f"`{name}` ({x.shape}) is taken for {one}: {with_channel} is {sizes[0]} gray ones",
        )


def _unfolded(sizes: list[int], rank: int) -> str | None:
    """Flat pixels as square images, of one channel or of the colours."""
    if rank != 2 or len(sizes) != 2:
        return None
    for channels in (1, 3):
        side = isqrt(sizes[-1] // channels)
        if side > 1 and prod((side, side, channels)) == sizes[-1]:
            return f"array.reshape(-1, {side}, {side}, {channels}) has these axes"
    return None
