"""Convolution, batch normalization and relu, the layer of most vision models."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.images.conv import conv2d
from ocannl.nn.images.windows import Sizes
from ocannl.nn.layer import Init, TrainingLayer
from ocannl.nn.normalization.batch_norm import batch_norm2d


@oc.configurable
def conv_bn_relu(
    *,
    kernel_size: Sizes = 3,
    stride: Sizes = 1,
    out_channels: oc.RowSizes | None = None,
    init: Init = None,
    label: str = "conv_bn_relu",
) -> TrainingLayer:
    """A padded convolution without bias, batch normalization and relu: batch, height, width | in -> batch,
    height / stride, width / stride | out. `init` is the initial value of the convolution's weights.
    """
    with oc.scope(label):
        conv = conv2d(
            kernel_size=kernel_size, stride=stride, out_channels=out_channels, bias=False, init=init
        )
        norm = batch_norm2d()
    return lambda x, train_step=None: oc.relu(norm(conv(x), train_step))
