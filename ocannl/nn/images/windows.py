"""Windows over the spatial axes of images, in the notation of einsum specs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl.nn.images.image_axes import check_images
from ocannl.nn.images.layout import Layout, layout_of
from ocannl.nn.images.padding import Amounts, Mode, check_mode, padded, spatial_sizes
from ocannl.passes.texpr.infer_shapes.hints import channels_first
from ocannl.program import graph
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.location import here

Sizes: TypeAlias = int | Sequence[int]
"""One number for all spatial axes, or one for each."""
Padding: TypeAlias = int | Sequence[int | Sequence[int]] | None
"""Cells around an image: one number for all spatial axes, or for each a number or a pair before and after."""


def sizes_of(what: str, sizes: Sizes, rank: int, least: int = 1) -> list[int]:
    """One number for each of `rank` axes; `what` names them in a message.

    Raises `ArgumentError` for another number of axes, a size less than `least`, and what is not an integer.
    """
    given = list(sizes) if isinstance(sizes, list | tuple) else [sizes] * rank
    if len(given) != rank:
        raise ArgumentError(f"{what} is a number, or one for each of {rank} axes, found {sizes}")
    return [integer(size, what, least) for size in given]


def amounts_of(padding: Padding, rank: int) -> list[Amounts]:
    """The cells before and after each axis. Raises `ArgumentError` as `sizes_of` does."""
    if isinstance(padding, str):
        ways = '"same" is use_padding=True, "valid" is use_padding=False'
        raise ArgumentError(f"padding is a number of cells, found {padding!r}: {ways}")
    given: list[Any] = list(padding) if isinstance(padding, list | tuple) else [padding] * rank
    if len(given) != rank:
        raise ArgumentError(f"padding is a number, or one or a pair for each of {rank} axes, found {padding}")
    return [cast(Amounts, tuple(sizes_of("padding", each, 2, 0))) for each in given]


def listed(prefix: str, axes: str) -> str:
    """An axis for each letter: `oh, ow`."""
    return ", ".join(prefix + axis for axis in axes)


def windows(axes: str, stride: Sequence[int], dilation: Sequence[int]) -> str:
    """A window `k` at each position `o` of each axis: `2*oh + kh, 2*ow + kw`."""
    steps = zip(axes, stride, dilation, strict=True)
    return ", ".join(f"{_times(s)}o{axis} + {_times(d)}k{axis}" for axis, s, d in steps)


def _times(coefficient: int) -> str:
    return "" if coefficient == 1 else f"{coefficient}*"


def window_sizes(axes: str, sizes: Sequence[int]) -> dict[str, int]:
    """The sizes of the windows, by their names in a spec."""
    return {f"k{axis}": size for axis, size in zip(axes, sizes, strict=True)}


@dataclass(frozen=True)
class AxisWindows:
    """The windows along one axis, and what is around it."""

    size: int
    stride: int
    dilation: int
    around: Amounts

    @property
    def span(self) -> int:
        return 1 + (self.size - 1) * self.dilation

    @property
    def centred(self) -> Amounts:
        """The padding with which the middle of a window is at each cell; of an even one, that before its
        centre.
        """
        return (self.span - 1) // 2, self.span // 2

    def count(self, length: int, ceil: bool) -> int:
        """The number of windows in an axis: whole ones, or with `ceil` also one that begins inside, or in the
        padding before. Not positive where none fits.
        """
        before, after = self.around
        left = length + before + after - self.span
        windows = left // self.stride + 1
        if ceil and left % self.stride and windows * self.stride < length + before:
            windows += 1
        return windows

    def framed(self, length: int, ceil: bool) -> Amounts:
        """The cells to add, or if negative to cut off, so that whole windows fill the axis."""
        before, after = self.around
        windows = self.count(length, ceil)
        if windows < 1:
            return before, after
        return before, (windows - 1) * self.stride + self.span - length - before

    def cells(self, length: int, ceil: bool, count_padding: bool) -> NDArray[np.int32]:
        """How many cells of each window count: those inside, or also those in the padding."""
        before, after = self.around
        starts = np.arange(self.count(length, ceil)) * self.stride
        at = starts[:, None] + np.arange(self.size) * self.dilation
        low, high = (0, length + before + after) if count_padding else (before, before + length)
        return np.asarray(np.sum((at >= low) & (at < high), axis=1), np.int32)


@dataclass(frozen=True)
class Windows:
    """Windows over spatial axes. A window that does not fit as a whole is left out, or with `ceil` reaches
    over the border.
    """

    letters: str
    axes: tuple[AxisWindows, ...]
    is_centred: bool
    """Whether the operation itself pads, around the middle of each window."""
    mode: Mode
    ceil: bool
    layout: Layout

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the windows, by their names in a spec."""
        return window_sizes(self.letters, [axis.size for axis in self.axes])

    @property
    def spec(self) -> str:
        """The windowed axes."""
        return windows(self.letters, [a.stride for a in self.axes], [a.dilation for a in self.axes])

    def framed(self, x: oc.Tensor, accum: str = "add") -> oc.Tensor:
        """`x` with padding that the operation does not do itself, and so many cells that windows fill it.

        Where a size is not known yet, the windows have to fill the axis.
        """
        check_images(x, len(self.axes))
        lengths = spatial_sizes(x, len(self.axes))
        if not self.is_centred:
            self._check(x, lengths)
        amounts = [self._amounts(axis, n) for axis, n in zip(self.axes, lengths, strict=True)]
        return padded(x, amounts, self.mode, accum)

    def _check(self, x: oc.Tensor, lengths: Sequence[int | None]) -> None:
        """Raises `ShapeError` where no window fits in an axis."""
        for place, (axis, length) in enumerate(zip(self.axes, lengths, strict=True)):
            if length is None or axis.count(length, self.ceil) > 0:
                continue
            number = len(x.shape.batch) - len(lengths) + place
            dilated = f", spread over {axis.span}," if axis.dilation > 1 else ""
            around = f"a padding of {axis.around}" if any(axis.around) else "no padding"
            found = f"a window of size {axis.size}{dilated} does not fit in axis {number} of `{x.label}`"
            image = f"  {x.label}: {x.shape}, so size {length}, with {around}"
            way = f"a smaller window fits, or padding={-(-(axis.span - length) // 2)}"
            if turned := channels_first(x.label, graph.known_shape(x.ir_value), length):
                found = f"`{x.label}` seems to have its channels before height and width: {found}"
            raise oc.ShapeError(here(f"{found}\n{image}\n  hint: {turned or way}"))

    def _amounts(self, axis: AxisWindows, length: int | None) -> Amounts:
        if self.is_centred:
            return 0, 0 if length is None else -length % axis.stride
        return axis.around if length is None else axis.framed(length, self.ceil)

    def cells(self, x: oc.Tensor, count_padding: bool) -> int | oc.Tensor:
        """How many cells of each window count, a number if it is the same for all."""
        area = int(np.prod([axis.size for axis in self.axes]))
        lengths = spatial_sizes(x, len(self.axes))
        if count_padding and (not self.ceil or None in lengths):
            return area
        known = [n for n in lengths if n is not None]
        if len(known) < len(lengths):
            raise oc.ShapeError(here(f"which cells of {x} are padding depends on its size, not known yet"))
        counts = np.ones((), np.int32)
        for axis, length in zip(self.axes, known, strict=True):
            counts = np.multiply.outer(counts, axis.cells(length, self.ceil, count_padding))
        if np.all(counts == area):
            return area
        return oc.data(counts[..., None], label="cells")


def windows_of(
    letters: str,
    size: tuple[str, Sizes],
    stride: Sizes,
    dilation: Sizes,
    use_padding: bool,
    padding: Padding,
    mode: str = "zeros",
    ceil: bool = False,
    spatial: str = "batch",
) -> Windows:
    """Windows of a named size over an axis for each letter, of images whose `spatial` axes are in that row.
    Raises `ArgumentError` as `sizes_of` does.
    """
    rank = len(letters)
    around = [(0, 0)] * rank if padding is None else amounts_of(padding, rank)
    steps = sizes_of(*size, rank), sizes_of("stride", stride, rank), sizes_of("dilation", dilation, rank)
    axes = [AxisWindows(*each) for each in zip(*steps, around, strict=True)]
    centres = [axis.centred for axis in axes]
    plain = check_mode(mode) == "zeros" and not ceil
    if padding is None and use_padding and not plain:
        axes = [AxisWindows(a.size, a.stride, a.dilation, a.centred) for a in axes]
    is_centred = plain and (use_padding if padding is None else around == centres)
    return Windows(letters, tuple(axes), is_centred, check_mode(mode), ceil, layout_of(letters, spatial))
