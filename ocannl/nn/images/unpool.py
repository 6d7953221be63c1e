"""The places of the maxima that pooling finds, and images with values put back there."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import ocannl as oc
from ocannl.nn.images.layout import layout_of
from ocannl.nn.images.padding import spatial_sizes
from ocannl.nn.images.windows import Windows, listed
from ocannl.program.arguments.checks import integer
from ocannl.program.location import here


def places_of_maxima(windows: Windows, x: oc.Tensor) -> oc.Tensor:
    """The number of each window's first maximum, or of its first NaN, among the cells of an image in the
    order of memory. Raises `ShapeError` where the size of the image is not known yet.
    """
    known = spatial_sizes(x, len(windows.axes))
    sizes = [n for n in known if n is not None]
    if len(sizes) < len(known):
        raise oc.ShapeError(here(f"the places of maxima in {x} depend on its size, which is not known yet"))
    x = oc.stop_gradient(x)
    cells = _cells(windows, x, "max")
    greatest = oc.logical_or(oc.eq(cells, cells.max("input", keep=True)), oc.ne(cells, cells))
    # Numbers less than 0, so that padding comes after all of them.
    area = math.prod(sizes)
    numbers = oc.data((np.arange(area, dtype=np.int32) - area).reshape(*sizes, 1), label="places")
    return oc.where(greatest, _cells(windows, numbers, "add"), 0).min("input") + area


def _cells(windows: Windows, x: oc.Tensor, accum: str) -> oc.Tensor:
    """The cells of each window as input axes."""
    outer, inner = listed("o", windows.letters), listed("k", windows.letters)
    spec = f"..., {windows.spec} | ... => ..., {outer} | {inner} -> ..."
    function = oc.einmax if accum == "max" else oc.einsum
    return function(spec, windows.framed(x, accum), use_padding=windows.is_centred, **windows.sizes)


def max_unpool(x: oc.Tensor, indices: oc.Tensor, size: Sequence[int], *, spatial: str = "batch") -> oc.Tensor:
    """Puts the maxima of a pool back where they were found, between zeros: batch, height, width | channels,
    and places as `nn.max_pool2d(return_indices=True)` gives them, to batch, height', width' | channels,
    where `size` has height' and width', or as many sizes as there are spatial axes. `spatial` is that of the
    pool.

    Of values at one place the greatest counts. A place beyond the image is an error of the run. Raises
    `ArgumentError` where `size` has no sizes, and for an unknown `spatial`.
    """
    sizes = [integer(n, "size", 1) for n in size]
    if not sizes:
        raise oc.ArgumentError("size has one number for each spatial axis, found none")
    letters = "".join(map(str, range(len(sizes))))
    layout, axes = layout_of(letters, spatial), listed("n", letters)
    x, indices, area = layout.inward(x), layout.inward(indices), math.prod(sizes)
    spec = f"..., {axes} | ..c..; ..., {axes} | ..c.. => ..., v | ..c.."
    placed = oc.scatter(spec, x, indices, at="v", accum="max", v=area)
    # The ids of the other scatter are checked.
    is_placed = oc.scatter(spec, oc.cast(1, bool), indices, at="v", accum="max", out_of_range="drop", v=area)
    spec = f"..., {axes.replace(', ', '&')} | ... => ..., {axes} | ..."
    extents = {f"n{letter}": n for letter, n in zip(letters, sizes, strict=True)}
    filled = oc.where(is_placed, placed, 0)
    return layout.outward(oc.einsum(spec, filled, use_padding=False, **extents)).named("max_unpool")
