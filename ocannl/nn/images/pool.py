"""Pooling: the maximum or mean over windows of an image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import ocannl as oc
from ocannl.nn.images.layout import layout_of
from ocannl.nn.images.unpool import places_of_maxima
from ocannl.nn.images.windows import Padding, Sizes, Windows, listed, windows_of
from ocannl.nn.layer import Layer
from ocannl.nn.options import check_positive
from ocannl.program.tensor_functions.remembered import remembered
from ocannl.program.types.casts import floats

MaxPool: TypeAlias = Callable[[oc.Tensor], Any]
"""It gives a tensor, or with `return_indices` a pair of tensors."""


@oc.configurable
def max_pool1d(
    *,
    stride: Sizes = 2,
    window_size: Sizes = 2,
    use_padding: bool = False,
    padding: Padding = None,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    spatial: str = "batch",
    label: str = "max_pool",
) -> MaxPool:
    """`max_pool2d` along one axis: batch, position | channels -> batch, position' | channels."""
    size = "window_size", window_size
    windows = windows_of("w", size, stride, dilation, use_padding, padding, ceil=ceil_mode, spatial=spatial)
    return _max_pool(windows, return_indices, label)


@oc.configurable
def max_pool2d(
    *,
    stride: Sizes = 2,
    window_size: Sizes = 2,
    use_padding: bool = False,
    padding: Padding = None,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    spatial: str = "batch",
    label: str = "max_pool",
) -> MaxPool:
    """The maximum of each window: batch, height, width | channels -> batch, height', width' | channels.

    Without padding, height' is `(height - span) / stride + 1`, rounded down, where the window spans
    `1 + (window_size - 1) * dilation`. With `use_padding`, height' is `height / stride`, rounded up; of a
    window that reaches over the border, the cells inside count. `padding` gives the cells around the image
    instead, and height counts them: as many on all sides, or for each axis a number or a pair. With
    `ceil_mode` the number of windows is rounded up, if the last one begins inside.

    With `return_indices` the result is a pair of that and the places of the maxima, for `nn.max_unpool`: each
    is the number of a cell of the image in the order of memory, that of the first of equal ones. With
    `spatial="output"`, height and width are the first output axes: batch | height, width, channels.
    """
    size = "window_size", window_size
    windows = windows_of("hw", size, stride, dilation, use_padding, padding, ceil=ceil_mode, spatial=spatial)
    return _max_pool(windows, return_indices, label)


@oc.configurable
def max_pool3d(
    *,
    stride: Sizes = 2,
    window_size: Sizes = 2,
    use_padding: bool = False,
    padding: Padding = None,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    spatial: str = "batch",
    label: str = "max_pool",
) -> MaxPool:
    """`max_pool2d` of volumes: batch, depth, height, width | channels -> batch, depth', height', width' |
    channels.
    """
    size = "window_size", window_size
    windows = windows_of("dhw", size, stride, dilation, use_padding, padding, ceil=ceil_mode, spatial=spatial)
    return _max_pool(windows, return_indices, label)


def _max_pool(windows: Windows, indices: bool, label: str) -> MaxPool:
    spec, sizes, pads = _spec(windows), windows.sizes, windows.is_centred
    _check_cells(windows)

    inward, outward = windows.layout.inward, windows.layout.outward

    @remembered
    def apply(x: oc.Tensor) -> oc.Tensor:
        framed = windows.framed(inward(x), "max")
        return outward(oc.einmax(spec, framed, use_padding=pads, **sizes)).named(label)

    return (lambda x: (apply(x), outward(places_of_maxima(windows, inward(x))))) if indices else apply


@oc.configurable
def avg_pool1d(
    *,
    stride: Sizes = 2,
    window_size: Sizes = 2,
    use_padding: bool = False,
    padding: Padding = None,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    spatial: str = "batch",
    label: str = "avg_pool",
) -> Layer:
    """`avg_pool2d` along one axis: batch, position | channels -> batch, position' | channels."""
    size = "window_size", window_size
    windows = windows_of("w", size, stride, 1, use_padding, padding, ceil=ceil_mode, spatial=spatial)
    return _avg_pool(windows, count_include_pad, label)


@oc.configurable
def avg_pool2d(
    *,
    stride: Sizes = 2,
    window_size: Sizes = 2,
    use_padding: bool = False,
    padding: Padding = None,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    spatial: str = "batch",
    label: str = "avg_pool",
) -> Layer:
    """The mean of each window, with the shapes of `max_pool2d`. Padding counts as zeros, or not at all
    without `count_include_pad`; cells that only `ceil_mode` reaches do not count.
    """
    size = "window_size", window_size
    windows = windows_of("hw", size, stride, 1, use_padding, padding, ceil=ceil_mode, spatial=spatial)
    return _avg_pool(windows, count_include_pad, label)


@oc.configurable
def avg_pool3d(
    *,
    stride: Sizes = 2,
    window_size: Sizes = 2,
    use_padding: bool = False,
    padding: Padding = None,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    spatial: str = "batch",
    label: str = "avg_pool",
) -> Layer:
    """`avg_pool2d` of volumes: batch, depth, height, width | channels -> batch, depth', height', width' |
    channels.
    """
    size = "window_size", window_size
    windows = windows_of("dhw", size, stride, 1, use_padding, padding, ceil=ceil_mode, spatial=spatial)
    return _avg_pool(windows, count_include_pad, label)


def _avg_pool(windows: Windows, count_padding: bool, label: str) -> Layer:
    spec, sizes, pads = _spec(windows), windows.sizes, windows.is_centred
    if not count_padding:
        _check_cells(windows)

    @remembered
    def apply(x: oc.Tensor) -> oc.Tensor:
        x = windows.layout.inward(x)
        sums = oc.einsum(spec, windows.framed(floats(x)), use_padding=pads, **sizes)
        return windows.layout.outward(sums / windows.cells(x, count_padding)).named(label)

    return apply


@oc.configurable
def smooth_max_pool2d(
    *,
    beta: float = 1.0,
    stride: Sizes = 2,
    window_size: Sizes = 2,
    use_padding: bool = False,
    padding: Padding = None,
    spatial: str = "batch",
    label: str = "smooth_max_pool",
) -> Layer:
    """`log(sum(exp(beta * x))) / beta` over each window, with the shapes of `max_pool2d`; the greater `beta`,
    the closer to the maximum.
    """
    check_positive(beta, "beta")
    windows = windows_of("hw", ("window_size", window_size), stride, 1, use_padding, padding, spatial=spatial)
    _check_cells(windows)
    spec, sizes, pads = _spec(windows, "oh, ow, kh, kw"), windows.sizes, windows.is_centred

    @remembered
    def apply(x: oc.Tensor) -> oc.Tensor:
        framed = windows.framed(windows.layout.inward(x), "max")
        cells = beta * oc.einmax(spec, framed, use_padding=pads, **sizes)
        largest = oc.stop_gradient(oc.einmax("..., kh, kw | ... => ..., 0, 0 | ...", cells))
        total = oc.einsum("..., kh, kw | ... => ..., 0, 0 | ...", oc.exp(cells - largest))
        result = oc.einsum("..., 0, 0 | ... => ... | ...", largest + oc.log(total))
        return windows.layout.outward(result / beta).named(label)

    return apply


@remembered
def global_avg_pool2d(x: oc.Tensor, *, spatial: str = "batch") -> oc.Tensor:
    """Global average pooling (Lin et al., 2013), the mean over the image: batch, height, width | channels ->
    batch | channels; with `spatial="output"` from batch | height, width, channels.
    """
    h, w = oc.Dim("h"), oc.Dim("w")
    x = floats(layout_of("hw", spatial).inward(x))
    return oc.einsum("..., h, w | ... => ... | ...", x, h=h, w=w) / (h * w)


def _check_cells(windows: Windows) -> None:
    """Raises `ArgumentError` where a window is padding alone, which has no maximum and no mean."""
    for axis in windows.axes:
        if max(axis.around) >= axis.span:
            raise oc.ArgumentError(
                f"beside {max(axis.around)} cells of padding, a window over {axis.span} is padding alone"
            )


def _spec(windows: Windows, result: str | None = None) -> str:
    """The spec that takes windows to the axes of `result`, by default one cell for each."""
    return f"..., {windows.spec} | ... => ..., {result or listed('o', windows.letters)} | ..."
