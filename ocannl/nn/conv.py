"""Convolutions over one, two or three spatial axes; images are batch, height, width | channels."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.layer import Layer
from ocannl.nn.linear import linear
from ocannl.nn.windows import Sizes, listed, sizes_of, window_sizes, windows
from ocannl.program.checks import integer


@oc.configurable
def conv1d(
    *,
    kernel_size: Sizes = 3,
    stride: Sizes = 1,
    use_padding: bool = True,
    dilation: Sizes = 1,
    groups: int = 1,
    out_channels: oc.RowSizes | None = None,
    bias: bool = True,
    label: str = "conv",
) -> Layer:
    """`conv2d` along one axis: batch, position | in -> batch, position | out."""
    spec, sizes = _spec("w", kernel_size, stride, dilation, groups)
    return _convolution(spec, sizes, use_padding, out_channels, bias, label)


@oc.configurable
def conv2d(
    *,
    kernel_size: Sizes = 3,
    stride: Sizes = 1,
    use_padding: bool = True,
    dilation: Sizes = 1,
    groups: int = 1,
    out_channels: oc.RowSizes | None = None,
    bias: bool = True,
    label: str = "conv",
) -> Layer:
    """Convolution of images: batch, height, width | in -> batch, height', width' | out,
    with parameters `label.w`: kernel height, kernel width, in -> out and `label.b`: out.

    With padding, height is `stride * height'`; the window's middle is at `stride * position`, of an even
    window the cell before its centre. Without, height is `stride * (height' - 1) + span` where the window
    spans `1 + (kernel_size - 1) * dilation`. Sizes are a number or a pair. Without `out_channels`, `out` is
    inferred from its use. With `groups`, each group of output channels sees its group of input channels only:
    `w` has in / groups input channels.
    """
    spec, sizes = _spec("hw", kernel_size, stride, dilation, groups)
    return _convolution(spec, sizes, use_padding, out_channels, bias, label)


@oc.configurable
def conv3d(
    *,
    kernel_size: Sizes = 3,
    stride: Sizes = 1,
    use_padding: bool = True,
    dilation: Sizes = 1,
    groups: int = 1,
    out_channels: oc.RowSizes | None = None,
    bias: bool = True,
    label: str = "conv",
) -> Layer:
    """`conv2d` of volumes: batch, depth, height, width | in -> batch, depth', height', width' | out."""
    spec, sizes = _spec("dhw", kernel_size, stride, dilation, groups)
    return _convolution(spec, sizes, use_padding, out_channels, bias, label)


@oc.configurable
def conv_transpose2d(
    *,
    kernel_size: Sizes = 3,
    stride: Sizes = 1,
    use_padding: bool = True,
    dilation: Sizes = 1,
    groups: int = 1,
    out_channels: oc.RowSizes | None = None,
    bias: bool = True,
    label: str = "conv",
) -> Layer:
    """Transposed convolution (Dumoulin and Visin, 2016), the gradient of `conv2d` with respect to its input:
    batch, height', width' | in -> batch, height, width | out, with the sizes and parameters of `conv2d`.
    """
    spec, sizes = _spec("hw", kernel_size, stride, dilation, groups, transposed=True)
    return _convolution(spec, sizes, use_padding, out_channels, bias, label)


@oc.configurable
def depthwise_separable_conv2d(
    *,
    kernel_size: Sizes = 3,
    stride: Sizes = 1,
    use_padding: bool = True,
    dilation: Sizes = 1,
    out_channels: oc.RowSizes | None = None,
    bias: bool = True,
    label: str = "conv",
) -> Layer:
    """Depthwise separable convolution (Chollet, 2017): one of each channel by itself, then one of 1 x 1 over
    the channels: batch, height, width | in -> batch, height', width' | out, with parameters
    `label.depthwise.w`: kernel height, kernel width -> in, `label.pointwise.w`: in -> out and
    `label.pointwise.b`: out.
    """
    steps = sizes_of("stride", stride, 2), sizes_of("dilation", dilation, 2)
    spec = f"..., {windows('hw', *steps)} | ..c..; kh, kw -> ..c.. => ..., oh, ow | ..c.."
    sizes = window_sizes("hw", sizes_of("kernel_size", kernel_size, 2))
    with oc.scope(label):
        depthwise = _convolution(spec, sizes, use_padding, None, False, "depthwise")
        pointwise = linear(out_dim=out_channels, bias=bias, label="pointwise")
    return lambda x: pointwise(depthwise(x))


def _spec(
    axes: str, kernel_size: Sizes, stride: Sizes, dilation: Sizes, groups: int, *, transposed: bool = False
) -> tuple[str, dict[str, int]]:
    """The spec of a convolution of `x; w` over spatial axes, and the sizes that it is given."""
    rank = len(axes)
    large = windows(axes, sizes_of("stride", stride, rank), sizes_of("dilation", dilation, rank))
    small = listed("o", axes)
    x, y = (small, large) if transposed else (large, small)
    sizes = window_sizes(axes, sizes_of("kernel_size", kernel_size, rank))
    kernel = listed("k", axes)
    if integer(groups, "groups", 1) == 1:
        return f"..., {x} | ..ic..; {kernel}, ..ic.. -> ..oc.. => ..., {y} | ..oc..", sizes
    return f"..., {x} | g&ic; {kernel}, ic -> g&oc => ..., {y} | g&oc", {**sizes, "g": groups}


def _convolution(
    spec: str,
    sizes: dict[str, int],
    use_padding: bool,
    out_channels: oc.RowSizes | None,
    bias: bool,
    label: str,
) -> Layer:
    with oc.scope(label):
        w = oc.param("w", output=out_channels)
        b = oc.param("b", 0.0, output=out_channels) if bias else 0.0

    def apply(x: oc.Tensor) -> oc.Tensor:
        sums = oc.einsum(spec, x, w, use_padding=use_padding, **sizes)
        return sums + b if bias else sums

    return apply
