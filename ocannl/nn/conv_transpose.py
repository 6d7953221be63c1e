"""Transposed convolutions, the gradients of convolutions with respect to their inputs."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.conv import convolution_spec
from ocannl.nn.layer import Init, Layer
from ocannl.nn.padding import padded
from ocannl.nn.windows import Padding, Sizes, listed, sizes_of, windows_of


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
    init: Init = None,
    label: str = "conv",
) -> Layer:
    """`conv_transpose2d` along one axis: batch, position' | in -> batch, position | out."""
    return _transposed(
        "w",
        kernel_size,
        stride,
        use_padding,
        padding,
        output_padding,
        dilation,
        groups,
        out_channels,
        bias,
        init,
        label,
    )


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
    init: Init = None,
    label: str = "conv",
) -> Layer:
    """Transposed convolution (Dumoulin and Visin, 2016), the gradient of `conv2d` with respect to its input:
    batch, height', width' | in -> batch, height, width | out, with the parameters of `conv2d`.

    With padding, height is `stride * height'`; without, `stride * (height' - 1) + span`. `padding` gives the
    cells that are cut off instead, and `output_padding` those that are added after, as PyTorch has them.
    Raises `ArgumentError` for `output_padding` without `padding`.
    """
    return _transposed(
        "hw",
        kernel_size,
        stride,
        use_padding,
        padding,
        output_padding,
        dilation,
        groups,
        out_channels,
        bias,
        init,
        label,
    )


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
    init: Init = None,
    label: str = "conv",
) -> Layer:
    """`conv_transpose2d` of volumes: batch, depth', height', width' | in -> batch, depth, height, width |
    out.
    """
    return _transposed(
        "dhw",
        kernel_size,
        stride,
        use_padding,
        padding,
        output_padding,
        dilation,
        groups,
        out_channels,
        bias,
        init,
        label,
    )


def _transposed(
    letters: str,
    kernel_size: Sizes,
    stride: Sizes,
    use_padding: bool,
    padding: Padding,
    output_padding: Sizes,
    dilation: Sizes,
    groups: int,
    out_channels: oc.RowSizes | None,
    bias: bool,
    init: Init,
    label: str,
) -> Layer:
    windows = windows_of(letters, ("kernel_size", kernel_size), stride, dilation, use_padding, padding)
    more = sizes_of("output_padding", output_padding, len(letters), 0)
    if any(more) and padding is None:
        raise oc.ArgumentError("output_padding is added to what `padding` leaves, so that is given too")
    amounts = [(-a.around[0], extra - a.around[1]) for a, extra in zip(windows.axes, more, strict=True)]
    centred = use_padding and padding is None
    spec, sizes = convolution_spec(listed("o", letters), windows.spec, windows, groups)
    with oc.scope(label):
        w = oc.param("w", init, output=out_channels)
        b = oc.param("b", 0.0, output=out_channels) if bias else 0.0

    def apply(x: oc.Tensor) -> oc.Tensor:
        sums = padded(oc.einsum(spec, x, w, use_padding=centred, **sizes), amounts)
        return sums + b if bias else sums

    return apply
