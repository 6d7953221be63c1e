"""Vision models, and their references in NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support.nn.batch_norm import batch_norm, in_training, torch_batch_norm
from support.nn.check import Array, Arrays, Case, arrays_of
from support.nn.conv import conv, torch_conv

from ocannl import nn

# References, in terms of the functions of NumPy or PyTorch.


def pooled(x: Any) -> Any:
    """The greatest of each 2 x 2 cells."""
    rows, columns = x.shape[-3] // 2, x.shape[-2] // 2
    cells = x.reshape(*x.shape[:-3], rows, 2, columns, 2, x.shape[-1])
    if isinstance(x, np.ndarray):
        return cells.max((-4, -2))
    return cells.amax((-4, -2))


class Functions:
    """The operations of a reference; `p` are the parameters by name."""

    def __init__(self, p: Any, convolution: Callable[..., Any], norm: Callable[..., Any]) -> None:
        self.p, self.convolution, self.normalized = p, convolution, norm

    def conv(self, name: str, x: Any, stride: int = 1, groups: int = 1, padded: bool = True) -> Any:
        w = self.p[f"{name}.w"]
        w = w if w.ndim == 4 else w[..., None]
        sizes: dict[str, Any] = {"stride": (stride, stride), "dilation": (1, 1)}
        return self.convolution(x, w, **sizes, padded=padded, groups=groups) + self.p.get(f"{name}.b", 0.0)

    def norm(self, name: str, x: Any) -> Any:
        return self.normalized(x, self.p[f"{name}.gain"], self.p[f"{name}.offset"])

    def linear(self, name: str, x: Any) -> Any:
        w = self.p[f"{name}.w"]
        x = x.reshape(-1, w[0].reshape(-1).shape[0])
        return x @ w.reshape(len(w), -1).T + self.p.get(f"{name}.b", 0.0)

    def conv_bn_relu(self, name: str, x: Any, stride: int = 1) -> Any:
        return relu(self.norm(f"{name}.batch_norm", self.conv(f"{name}.conv", x, stride)))

    def resnet_block(self, name: str, x: Any, stride: int = 1, projected: bool = False) -> Any:
        inner = self.conv(f"{name}.second", self.conv_bn_relu(f"{name}.first", x, stride))
        inner = self.norm(f"{name}.batch_norm", inner)
        if projected:
            x = self.norm(f"{name}.shortcut.batch_norm", self.conv(f"{name}.shortcut.conv", x, stride))
        return relu(inner + x)

    def lenet(self, x: Any, padded: bool) -> Any:
        for layer in ("lenet.conv1", "lenet.conv2"):
            x = pooled(relu(self.conv(layer, x, padded=padded)))
        for layer in ("lenet.fc1", "lenet.fc2"):
            x = relu(self.linear(layer, x))
        return self.linear("lenet.logits", x)

    def vgg_block(self, x: Any) -> Any:
        for layer in ("vgg_block.conv1", "vgg_block.conv2"):
            x = self.conv_bn_relu(layer, x)
        return pooled(x)

    def mobile_cnn(self, x: Any) -> Any:
        x = self.conv_bn_relu("mobile_cnn.stem", x, 2)
        for layer, stride in (("layer1", 1), ("layer2", 2), ("layer3", 1), ("layer4", 2)):
            name = f"mobile_cnn.{layer}"
            x = self.conv(f"{name}.conv.depthwise", x, stride, groups=x.shape[-1])
            x = x @ self.p[f"{name}.conv.pointwise.w"].T
            x = relu(self.norm(f"{name}.batch_norm", x))
        return self.linear("mobile_cnn.logits", x.mean((-3, -2)))


def relu(x: Any) -> Any:
    return np.maximum(x, 0) if isinstance(x, np.ndarray) else x.relu()


def in_numpy(p: Arrays) -> Functions:
    return Functions(p, conv, batch_norm)


def in_torch(p: Any) -> Functions:
    def convolution(x: Any, w: Any, **how: Any) -> Any:
        return torch_conv(x, w, None, **how)

    return Functions(p, convolution, torch_batch_norm)


def case(block: Any, x: Array, reference: Callable[[Functions, Any], Any]) -> Case:
    return Case(
        block, [x], lambda p, x: np.asarray(reference(in_numpy(p), x)), lambda p, x: reference(in_torch(p), x)
    )


IMAGES = arrays_of((3, 6, 4, 2))[0]
SQUARE = arrays_of((2, 8, 8, 1))[0]

CASES = {
    "convolution": case(
        in_training(nn.conv_bn_relu(out_channels=3, stride=2)),
        IMAGES,
        lambda f, x: f.conv_bn_relu("conv_bn_relu", x, 2),
    ),
    "residual": case(in_training(nn.resnet_block()), IMAGES, lambda f, x: f.resnet_block("resnet_block", x)),
    "residual, projected": case(
        in_training(nn.resnet_block(out_channels=3)),
        IMAGES,
        lambda f, x: f.resnet_block("resnet_block", x, projected=True),
    ),
    "residual, stride": case(
        in_training(nn.resnet_block(stride=2, out_channels=4)),
        IMAGES,
        lambda f, x: f.resnet_block("resnet_block", x, 2, projected=True),
    ),
    "vgg": case(in_training(nn.vgg_block(out_channels=3)), IMAGES, lambda f, x: f.vgg_block(x)),
    "lenet": case(nn.lenet(num_classes=3), SQUARE, lambda f, x: f.lenet(x, padded=True)),
    "lenet, valid": case(
        nn.lenet(num_classes=3, use_padding=False),
        arrays_of((1, 20, 16, 2))[0],
        lambda f, x: f.lenet(x, padded=False),
    ),
    "mobile": case(
        in_training(nn.mobile_cnn(num_classes=3, width_mult=1 / 16)),
        arrays_of((2, 8, 16, 2))[0],
        lambda f, x: f.mobile_cnn(x),
    ),
}
