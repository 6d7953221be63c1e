"""Residual networks (He et al., 2015)."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.images.conv import conv2d
from ocannl.nn.layer import Init, TrainingLayer
from ocannl.nn.networks.conv_bn_relu import conv_bn_relu
from ocannl.nn.normalization.batch_norm import batch_norm2d


@oc.configurable
def resnet_block(
    *,
    stride: int = 1,
    out_channels: int | oc.Dim | None = None,
    init: Init = None,
    label: str = "resnet_block",
) -> TrainingLayer:
    """A residual block, two convolutions added to a shortcut: batch, height, width | in -> batch, height /
    stride, width / stride | out.

    The shortcut is `x` itself, with as many channels, unless there is a stride or `out_channels`: then it is
    a convolution of one cell, and a batch norm. Without `out_channels`, `out` is inferred. `init` is the
    initial value of all convolutions.
    """
    channels = oc.Dim("channels") if out_channels is None else out_channels
    with oc.scope(label):
        first = conv_bn_relu(stride=stride, out_channels=channels, init=init, label="first")
        second = conv2d(out_channels=channels, bias=False, init=init, label="second")
        norm = batch_norm2d()
        same = stride == 1 and out_channels is None
        shortcut = _identity if same else _projection(stride, channels, init)

    def apply(x: oc.Tensor, train_step: oc.TensorLike | None = None) -> oc.Tensor:
        inner = norm(second(first(x, train_step)), train_step)
        return oc.relu(inner + shortcut(x, train_step)).named(label)

    return apply


def _identity(x: oc.Tensor, train_step: oc.TensorLike | None = None) -> oc.Tensor:
    return x


@oc.configurable
def _projection(stride: int, channels: int | oc.Dim, init: Init) -> TrainingLayer:
    with oc.scope("shortcut"):
        conv = conv2d(kernel_size=1, stride=stride, out_channels=channels, bias=False, init=init)
        norm = batch_norm2d()
    return lambda x, train_step=None: norm(conv(x), train_step)
