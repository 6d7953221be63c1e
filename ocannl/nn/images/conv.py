"""Convolutions over one, two or three spatial axes; images are batch, height, width | channels."""

from __future__ import annotations

from collections.abc import Callable

import ocannl as oc
from ocannl.nn.images.layout import Layout
from ocannl.nn.images.windows import Padding, Sizes, Windows, listed, windows_of
from ocannl.nn.layer import Init, Layer
from ocannl.nn.linear import linear
from ocannl.program.arguments.checks import integer
from ocannl.program.tensor_functions.remembered import remembered


@oc.configurable
def conv1d(
    *,
    kernel_size: Sizes = 3,
    stride: Sizes = 1,
    use_padding: bool = True,
    padding: Padding = None,
    padding_mode: str = "zeros",
    dilation: Sizes = 1,
    groups: int = 1,
    out_channels: oc.RowSizes | None = None,
    bias: bool = True,
    spatial: str = "batch",
    init: Init = None,
    label: str = "conv",
) -> Layer:
    """`conv2d` along one axis: batch, position | in -> batch, position | out."""
    size = "kernel_size", kernel_size
    windows = windows_of("w", size, stride, dilation, use_padding, padding, padding_mode, spatial=spatial)
    return _convolution(windows, groups, out_channels, bias, init, label)


@oc.configurable
def conv2d(
    *,
    kernel_size: Sizes = 3,
    stride: Sizes = 1,
    use_padding: bool = True,
    padding: Padding = None,
    padding_mode: str = "zeros",
    dilation: Sizes = 1,
    groups: int = 1,
    out_channels: oc.RowSizes | None = None,
    bias: bool = True,
    spatial: str = "batch",
    init: Init = None,
    label: str = "conv",
) -> Layer:
    """Convolution of images: batch, height, width | in -> batch, height', width' | out,
    with parameters `label.w`: kernel height, kernel width, in -> out and `label.b`: out.

    With padding, height' is `height / stride`, rounded up; the window's middle is at `stride * position`, of
    an even window the cell before its centre. Without, height' is `(height - span) / stride + 1`, rounded
    down, where the window spans `1 + (kernel_size - 1) * dilation`. `padding` gives the cells around the
    image instead, and height counts them: as many on all sides, or for each axis a number or a pair.
    `padding_mode` is that of `nn.pad`. A size that is not known where the block is applied has to divide.

    Sizes are a number or a pair. Without `out_channels`, `out` is inferred from its use. With `groups`, each
    group of output channels sees its group of input channels only: `w` has in / groups input channels. `init`
    is the initial value of `w`. With `spatial="output"`, height and width are the first output axes: batch |
    height, width, in -> batch | height', width', out.
    """
    size = "kernel_size", kernel_size
    windows = windows_of("hw", size, stride, dilation, use_padding, padding, padding_mode, spatial=spatial)
    return _convolution(windows, groups, out_channels, bias, init, label)


@oc.configurable
def conv3d(
    *,
    kernel_size: Sizes = 3,
    stride: Sizes = 1,
    use_padding: bool = True,
    padding: Padding = None,
    padding_mode: str = "zeros",
    dilation: Sizes = 1,
    groups: int = 1,
    out_channels: oc.RowSizes | None = None,
    bias: bool = True,
    spatial: str = "batch",
    init: Init = None,
    label: str = "conv",
) -> Layer:
    """`conv2d` of volumes: batch, depth, height, width | in -> batch, depth', height', width' | out."""
    size = "kernel_size", kernel_size
    windows = windows_of("dhw", size, stride, dilation, use_padding, padding, padding_mode, spatial=spatial)
    return _convolution(windows, groups, out_channels, bias, init, label)


@oc.configurable
def depthwise_separable_conv2d(
    *,
    kernel_size: Sizes = 3,
    stride: Sizes = 1,
    use_padding: bool = True,
    padding: Padding = None,
    padding_mode: str = "zeros",
    dilation: Sizes = 1,
    out_channels: oc.RowSizes | None = None,
    bias: bool = True,
    spatial: str = "batch",
    init: Init = None,
    label: str = "conv",
) -> Layer:
    """Depthwise separable convolution (Chollet, 2017): one of each channel by itself, then one of 1 x 1 over
    the channels: batch, height, width | in -> batch, height', width' | out, with parameters
    `label.depthwise.w`: kernel height, kernel width -> in, `label.pointwise.w`: in -> out and
    `label.pointwise.b`: out.
    """
    size = "kernel_size", kernel_size
    windows = windows_of("hw", size, stride, dilation, use_padding, padding, padding_mode, spatial=spatial)
    spec = f"..., {windows.spec} | ..c..; kh, kw -> ..c.. => ..., oh, ow | ..c.."
    with oc.scope(label):
        depthwise = oc.Block(_windowed(spec, windows, windows.sizes, None, False, init, "depthwise"))
        pointwise = linear(out_dim=out_channels, bias=bias, init=init, label="pointwise")
    layout = windows.layout
    return lambda x: layout.outward(pointwise(layout.inward(depthwise(x))))


def _convolution(
    windows: Windows, groups: int, out_channels: oc.RowSizes | None, bias: bool, init: Init, label: str
) -> Layer:
    x, y = windows.spec, listed("o", windows.letters)
    spec, sizes = convolution_spec(x, y, windows, groups)
    return _windowed(spec, windows, sizes, out_channels, bias, init, label)


def convolution_spec(x: str, y: str, windows: Windows, groups: int) -> tuple[str, dict[str, int]]:
    """The spec of a convolution of `x; w` from spatial axes to others, and the sizes that it is given."""
    kernel, sizes = listed("k", windows.letters), windows.sizes
    if integer(groups, "groups", 1) == 1:
        return f"..., {x} | ..ic..; {kernel}, ..ic.. -> ..oc.. => ..., {y} | ..oc..", sizes
    return f"..., {x} | g&ic; {kernel}, ic -> g&oc => ..., {y} | g&oc", {**sizes, "g": groups}


def _windowed(
    spec: str,
    windows: Windows,
    sizes: dict[str, int],
    out_channels: oc.RowSizes | None,
    bias: bool,
    init: Init,
    label: str,
) -> Layer:
    return weighted(
        lambda x, w: oc.einsum(spec, windows.framed(x), w, use_padding=windows.is_centred, **sizes),
        out_channels,
        bias,
        init,
        label,
        windows.layout,
    )


def weighted(
    sums: Callable[[oc.Tensor, oc.Tensor], oc.Tensor],
    out_channels: oc.RowSizes | None,
    bias: bool,
    init: Init,
    label: str,
    layout: Layout,
) -> Layer:
    """`sums(x, w) + b` of images, with parameters `label.w` and `label.b`."""
    with oc.scope(label):
        w = oc.param("w", init, output=out_channels)
        b = oc.param("b", 0.0, output=out_channels) if bias else 0.0

    @remembered
    def apply(x: oc.Tensor) -> oc.Tensor:
        sum = sums(layout.inward(x), w)
        return layout.outward(sum + b if bias else sum)

    return apply
