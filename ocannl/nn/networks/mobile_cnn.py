"""A small network of separable convolutions, after MobileNets (Howard et al., 2017)."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.images.conv import depthwise_separable_conv2d
from ocannl.nn.images.pool import global_avg_pool2d
from ocannl.nn.layer import Init, TrainingLayer
from ocannl.nn.linear import linear
from ocannl.nn.networks.conv_bn_relu import conv_bn_relu
from ocannl.nn.normalization.batch_norm import batch_norm2d

STEM_CHANNELS = 32
STRIDES_AND_CHANNELS = ((1, 64), (2, 128), (1, 128), (2, 256))


@oc.configurable
def mobile_cnn(
    *, num_classes: int = 1000, width_mult: float = 1.0, init: Init = None, label: str = "mobile_cnn"
) -> TrainingLayer:
    """A convolution of stride 2, four separable ones with batch norms and relu, the mean over the image, and
    a linear layer: batch, height, width | channels -> batch | num_classes.

    The numbers of channels are scaled by `width_mult`; `init` is the initial value of all weights.
    """

    def scaled(channels: int) -> int:
        return max(1, round(channels * width_mult))

    with oc.scope(label):
        stem = conv_bn_relu(stride=2, out_channels=scaled(STEM_CHANNELS), init=init, label="stem")
        layers = [
            _separable(stride, scaled(channels), init, f"layer{k}")
            for k, (stride, channels) in enumerate(STRIDES_AND_CHANNELS, 1)
        ]
        logits = linear(out_dim=num_classes, init=init, label="logits")

    def apply(x: oc.Tensor, train_step: oc.TensorLike | None = None) -> oc.Tensor:
        x = stem(x, train_step)
        for layer in layers:
            x = layer(x, train_step)
        return logits(global_avg_pool2d(x))

    return apply


@oc.configurable
def _separable(stride: int, out_channels: int, init: Init, label: str) -> TrainingLayer:
    with oc.scope(label):
        conv = depthwise_separable_conv2d(stride=stride, out_channels=out_channels, bias=False, init=init)
        norm = batch_norm2d()
    return lambda x, train_step=None: oc.relu(norm(conv(x), train_step))
