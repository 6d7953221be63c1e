"""The block of the networks of the Visual Geometry Group (Simonyan and Zisserman, 2014)."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.images.pool import max_pool2d
from ocannl.nn.images.windows import Sizes
from ocannl.nn.layer import Init, TrainingLayer
from ocannl.nn.networks.conv_bn_relu import conv_bn_relu


@oc.configurable
def vgg_block(
    *,
    num_convs: int = 2,
    kernel_size: Sizes = 3,
    out_channels: int | oc.Dim | None = None,
    init: Init = None,
    label: str = "vgg_block",
) -> TrainingLayer:
    """`conv_bn_relu` several times, with as many channels each, then a pool: batch, height, width | in ->
    batch, height / 2, width / 2 | out. `init` is the initial value of all convolutions.
    """
    channels = oc.Dim("channels") if out_channels is None else out_channels
    with oc.scope(label):
        layers = [
            conv_bn_relu(kernel_size=kernel_size, out_channels=channels, init=init, label=f"conv{k}")
            for k in range(1, num_convs + 1)
        ]
    pool = max_pool2d(label=label)

    def apply(x: oc.Tensor, train_step: oc.TensorLike | None = None) -> oc.Tensor:
        for layer in layers:
            x = layer(x, train_step)
        return pool(x)

    return apply
