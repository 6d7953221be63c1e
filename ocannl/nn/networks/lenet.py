"""LeNet-5 (LeCun et al., 1998), with relu and max pooling."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.images.conv import conv2d
from ocannl.nn.images.pool import max_pool2d
from ocannl.nn.layer import Init, Layer
from ocannl.nn.linear import linear
from ocannl.nn.mlp import mlp_layer


@oc.configurable
def lenet(
    *, num_classes: int = 10, use_padding: bool = True, init: Init = None, label: str = "lenet"
) -> Layer:
    """Convolutions to 6 and to 16 channels with windows of 5 x 5, each with relu and max pooling, then layers
    of 120, 84 and `num_classes`: batch, height, width | channels -> batch | num_classes.

    Height and width are 32 in the original, without padding. `init` is the initial value of all weights.
    """
    with oc.scope(label):
        conv1, conv2 = (
            conv2d(kernel_size=5, use_padding=use_padding, out_channels=n, init=init, label=f"conv{k}")
            for k, n in enumerate((6, 16), 1)
        )
        fc1, fc2 = (mlp_layer(hid_dim=n, init=init, label=f"fc{k}") for k, n in enumerate((120, 84), 1))
        logits = linear(out_dim=num_classes, init=init, label="logits")
    pool = max_pool2d()

    def apply(images: oc.Tensor) -> oc.Tensor:
        x = pool(oc.relu(conv1(images)))
        x = pool(oc.relu(conv2(x)))
        features = oc.einsum("..., h, w | c => ... | h, w, c", x)
        return logits(fc2(fc1(features)))

    return apply
