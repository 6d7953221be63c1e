"""Transposed convolutions, the gradients of convolutions with respect to their inputs."""

from __future__ import annotations

from dataclasses import replace

import ocannl as oc
from ocannl.nn.images.conv import convolution_spec, weighted
from ocannl.nn.images.padding import padded
from ocannl.nn.images.windows import Padding, Sizes, Windows, listed, sizes_of, windows_of
from ocannl.nn.layer import Init, Layer


@oc.configurable
def conv_transpose1d(
    *,
    kernel_size: Sizes = 3,
    stride: Sizes = 1,
    use_padding: bool = True,
    padding: Padding = None,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    out_channels: oc.RowSizes | None = None,
    bias: bool = True,
    spatial: str = "batch",
    init: Init = None,
    label: str = "conv",
) -> Layer:
    """`conv_transpose2d` along one axis: batch, position' | in -> batch, position | out."""
    windows = _windows("w", kernel_size, stride, dilation, use_padding, padding, output_padding, spatial)
    return _transposed(windows, groups, out_channels, bias, init, label)


@oc.configurable
def conv_transpose2d(
    *,
    kernel_size: Sizes = 3,
    stride: Sizes = 1,
    use_padding: bool = True,
    padding: Padding = None,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    out_channels: oc.RowSizes | None = None,
    bias: bool = True,
    spatial: str = "batch",
    init: Init = None,
    label: str = "conv",
) -> Layer:
    """Transposed convolution (Dumoulin and Visin, 2016), the gradient of `conv2d` with respect to its input:
    batch, height', width' | in -> batch, height, width | out, with the parameters of `conv2d`.

    With padding, height is `stride * height'`; without, `stride * (height' - 1) + span`. `padding` gives the
    cells that are cut off instead, and `output_padding` those that are added after, as PyTorch has them.
    Raises `ArgumentError` for `output_padding` without `padding`.
    """
    windows = _windows("hw", kernel_size, stride, dilation, use_padding, padding, output_padding, spatial)
    return _transposed(windows, groups, out_channels, bias, init, label)


@oc.configurable
def conv_transpose3d(
    *,
    kernel_size: Sizes = 3,
    stride: Sizes = 1,
    use_padding: bool = True,
    padding: Padding = None,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    out_channels: oc.RowSizes | None = None,
    bias: bool = True,
    spatial: str = "batch",
    init: Init = None,
    label: str = "conv",
) -> Layer:
    """`conv_transpose2d` of volumes: batch, depth', height', width' | in -> batch, depth, height, width |
    out.
    """
    windows = _windows("dhw", kernel_size, stride, dilation, use_padding, padding, output_padding, spatial)
    return _transposed(windows, groups, out_channels, bias, init, label)


def _windows(
    letters: str,
    kernel_size: Sizes,
    stride: Sizes,
    dilation: Sizes,
    use_padding: bool,
    padding: Padding,
    output_padding: Sizes,
    spatial: str,
) -> Windows:
    """Windows over the result; around it, cells are added, or if the number is negative cut off."""
    windows = windows_of(
        letters, ("kernel_size", kernel_size), stride, dilation, use_padding, padding, spatial=spatial
    )
    more = sizes_of("output_padding", output_padding, len(letters), 0)
    if any(more) and padding is None:
        raise oc.ArgumentError("output_padding is added to what `padding` leaves, so that is given too")
    axes = [
        replace(axis, around=(-axis.around[0], extra - axis.around[1]))
        for axis, extra in zip(windows.axes, more, strict=True)
    ]
    return replace(windows, axes=tuple(axes), is_centred=use_padding and padding is None)


def _transposed(
    windows: Windows, groups: int, out_channels: oc.RowSizes | None, bias: bool, init: Init, label: str
) -> Layer:
    spec, sizes = convolution_spec(listed("o", windows.letters), windows.spec, windows, groups)
    around, pads = [axis.around for axis in windows.axes], windows.is_centred
    return weighted(
        lambda x, w: padded(oc.einsum(spec, x, w, use_padding=pads, **sizes), around),
        out_channels,
        bias,
        init,
        label,
        windows.layout,
    )
