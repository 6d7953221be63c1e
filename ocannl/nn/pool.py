"""Pooling: the maximum or mean over windows of an image."""

from __future__ import annotations

import math

import ocannl as oc
from ocannl.nn.layer import Layer
from ocannl.nn.windows import Sizes, sizes_of, window_sizes, windows


@oc.configurable
def max_pool2d(
    *, stride: Sizes = 2, window_size: Sizes = 2, use_padding: bool = False, label: str = "max_pool"
) -> Layer:
    """The maximum of each window: batch, height, width | channels -> batch, height', width' | channels, where
    height is `stride * (height' - 1) + window_size`.

    With padding, height is `stride * height'`; of a window that reaches over the border, the cells inside
    count.
    """
    spec, sizes = _spec(stride, window_size, "oh, ow")
    return lambda x: oc.einmax(spec, x, use_padding=use_padding, **sizes).named(label)


@oc.configurable
def avg_pool2d(
    *, stride: Sizes = 2, window_size: Sizes = 2, use_padding: bool = False, label: str = "avg_pool"
) -> Layer:
    """The mean of each window, with the shapes of `max_pool2d`; padding counts as zeros."""
    spec, sizes = _spec(stride, window_size, "oh, ow")
    area = math.prod(sizes.values())
    return lambda x: (oc.einsum(spec, x, use_padding=use_padding, **sizes) / area).named(label)


@oc.configurable
def smooth_max_pool2d(
    *,
    beta: float = 1.0,
    stride: Sizes = 2,
    window_size: Sizes = 2,
    use_padding: bool = False,
    label: str = "smooth_max_pool",
) -> Layer:
    """`log(sum(exp(beta * x))) / beta` over each window, with the shapes of `max_pool2d`; the greater `beta`,
    the closer to the maximum.
    """
    spec, sizes = _spec(stride, window_size, "oh, ow, kh, kw")

    def apply(x: oc.Tensor) -> oc.Tensor:
        cells = beta * oc.einmax(spec, x, use_padding=use_padding, **sizes)
        largest = oc.stop_gradient(oc.einmax("..., kh, kw | ... => ..., 0, 0 | ...", cells))
        total = oc.einsum("..., kh, kw | ... => ..., 0, 0 | ...", oc.exp(cells - largest))
        result = oc.einsum("..., 0, 0 | ... => ... | ...", largest + oc.log(total))
        return (result / beta).named(label)

    return apply


def global_avg_pool2d(x: oc.Tensor) -> oc.Tensor:
    """Global average pooling (Lin et al., 2013), the mean over the image: batch, height, width | channels ->
    batch | channels.
    """
    h, w = oc.Dim("h"), oc.Dim("w")
    return oc.einsum("..., h, w | ... => ... | ...", x, h=h, w=w) / (h * w)


def _spec(stride: Sizes, window_size: Sizes, result: str) -> tuple[str, dict[str, int]]:
    """The spec that takes windows to the axes of `result`, and the sizes that it is given."""
    sizes = window_sizes("hw", sizes_of("window_size", window_size, 2))
    return f"..., {windows('hw', sizes_of('stride', stride, 2), (1, 1))} | ... => ..., {result} | ...", sizes
