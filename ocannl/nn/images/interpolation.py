"""Images of other sizes, by interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl.dialects.shapes.shape import Dim
from ocannl.nn.images.padding import spatial_sizes
from ocannl.nn.layer import Layer
from ocannl.program.arguments.checks import integer
from ocannl.program.graph import known_shape
from ocannl.program.location import here

MODES = ("nearest", "nearest-exact", "linear", "cubic")
# The parameter of the cubic kernel (Keys, 1981), as in PyTorch.
CUBIC = -0.75


@oc.configurable
def interpolate(
    *,
    size: Sequence[int] | None = None,
    scale: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
    spatial_axes: int = 2,
    label: str = "interpolate",
) -> Layer:
    """Images of another size: batch, height, width | channels -> batch, height', width' | channels, for the
    last batch axes. Either `size` gives the new sizes, one for each axis, or `scale` the factors, one or one
    for each of `spatial_axes`; sizes are rounded down then.

    `mode` is "nearest", "nearest-exact", "linear" (along each axis: bilinear of images) or "cubic"; as
    PyTorch's `F.interpolate`. Centres of corner cells stay where they are with `align_corners`, else the
    corners themselves. Raises `ShapeError` where sizes are not known yet, and where one would be 0.
    """
    if mode not in MODES:
        raise oc.ArgumentError(f"interpolation is {', '.join(MODES)}, found {mode!r}")
    if (size is None) == (scale is None):
        raise oc.ArgumentError("either the `size` or the `scale` of an interpolation is given")
    sizes = None if size is None else [integer(n, "size", 1) for n in size]
    if sizes == []:
        raise oc.ArgumentError("the `size` of an interpolation has one number for each axis, found none")
    rank = len(sizes) if sizes is not None else integer(spatial_axes, "spatial_axes", 1)
    factors: list[Any] = list(scale) if isinstance(scale, list | tuple) else [scale] * rank
    if len(factors) != rank or not all(factor is None or 0 < factor < np.inf for factor in factors):
        raise oc.ArgumentError(f"scale is a positive number, or one for each of {rank} axes, found {scale!r}")

    def apply(x: oc.Tensor) -> oc.Tensor:
        lengths = spatial_sizes(x, rank)
        for place, (length, factor) in enumerate(zip(lengths, factors, strict=True)):
            if length is None:
                raise oc.ShapeError(here(f"interpolation of {x} depends on its size, which is not known yet"))
            count = int(length * factor) if sizes is None else sizes[place]
            if count < 1:
                raise oc.ShapeError(here(f"nothing is left of {length} cells of {x} by the scale {factor}"))
            step = length / count if factor is None else 1 / factor
            line = _Line(length, count, step, align_corners)
            x = _along(x, rank - place - 1, line.taps(mode), length)
        return x.named(label)

    return apply


@dataclass(frozen=True)
class _Line:
    """`count` points along an axis, each so many cells after the one before."""

    length: int
    count: int
    step: float
    align_corners: bool

    def taps(self, mode: str) -> list[tuple[NDArray[Any], NDArray[Any] | None]]:
        """The cells that each point is made of, and their weights; None for 1."""
        at = np.arange(self.count)
        if mode in ("nearest", "nearest-exact"):
            middle = 0.5 if mode == "nearest-exact" else 0.0
            return [(self._inside(np.floor((at + middle) * self.step)), None)]
        if self.align_corners:
            places = at * ((self.length - 1) / max(self.count - 1, 1))
        else:
            places = (at + 0.5) * self.step - 0.5
        if mode == "linear":
            places = np.clip(places, 0, self.length - 1)
        base = np.floor(places)
        offsets, kernel = ((0, 1), _linear) if mode == "linear" else ((-1, 0, 1, 2), _cubic)
        return [(self._inside(base + k), kernel(np.abs(places - base - k))) for k in offsets]

    def _inside(self, cells: NDArray[Any]) -> NDArray[Any]:
        return np.clip(cells, 0, self.length - 1).astype(np.int32)


def _linear(distance: NDArray[Any]) -> NDArray[Any]:
    return np.maximum(1 - distance, 0)


def _cubic(distance: NDArray[Any]) -> NDArray[Any]:
    near = ((CUBIC + 2) * distance - (CUBIC + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * CUBIC - 4 * CUBIC
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _along(
    x: oc.Tensor, after: int, taps: list[tuple[NDArray[Any], NDArray[Any] | None]], length: int
) -> oc.Tensor:
    """Weighted sums of cells along the batch axis of a length with so many after it."""
    others = [f"n{k}" for k in range(after)]
    source, target = ", ".join(["...", "v", *others]), ", ".join(["...", "o", *others])
    times = _repetition(taps, length)
    if times and not _has_basis(x):
        # Each cell is read once so, and its gradient is a sum of neighbours.
        repeated = ", ".join(["...", "v&times", *others])
        return oc.einsum(f"{source} | ..c.. => {repeated} | ..c..", x, times=times)
    parts: list[oc.Tensor] = []
    for cells, weights in taps:
        at = oc.data(cells, axes="b", label="cells")
        part = oc.gather(f"{source} | ..c..; o | => {target} | ..c..", x, at, at="v", out_of_range="drop")
        if weights is not None:
            dtype = np.dtype(np.float32) if x.dtype.kind in "biu" else x.dtype
            factor = oc.data(weights.astype(dtype), axes="b", label="weights")
            part = oc.einsum(f"{target} | ..c..; o | => {target} | ..c..", part, factor)
        parts.append(part)
    return sum(parts[1:], parts[0])


def _repetition(taps: list[tuple[NDArray[Any], NDArray[Any] | None]], length: int) -> int:
    """How many points each cell is, one after the other, if that is all; else 0."""
    cells, weights = taps[0]
    times, rest = divmod(len(cells), length)
    is_plain = len(taps) == 1 and weights is None and times > 0 and not rest
    return times if is_plain and np.array_equal(cells, np.arange(len(cells)) // times) else 0


def _has_basis(x: oc.Tensor) -> bool:
    """Whether a size has a basis, which no part of another axis has."""
    axes = known_shape(x.ir_value).memory_axes
    return any(isinstance(axis, Dim) and axis.basis is not None for axis in axes)
