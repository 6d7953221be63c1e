"""Channels of images as cells, and cells as channels."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.layer import Layer
from ocannl.program.arguments.checks import integer


@oc.configurable
def pixel_shuffle(factor: int, *, label: str = "pixel_shuffle") -> Layer:
    """Channels as cells (Shi et al., 2016): batch, height, width | channels * factor * factor -> batch,
    height * factor, width * factor | channels, in PyTorch's order.
    """
    r = integer(factor, "factor", 1)
    spec = "..., h, w | c&i&j => ..., h&i, w&j | c"
    return lambda x: oc.einsum(spec, x, i=r, j=r).named(label)


@oc.configurable
def pixel_unshuffle(factor: int, *, label: str = "pixel_unshuffle") -> Layer:
    """Cells as channels, the inverse of `pixel_shuffle`."""
    r = integer(factor, "factor", 1)
    spec = "..., h&i, w&j | c => ..., h, w | c&i&j"
    return lambda x: oc.einsum(spec, x, i=r, j=r).named(label)
