"""Vision models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.nn.check import Array, Arrays, Case, arrays_of, check_all
from unit.ocannl.nn.test_batch_norm import batch_norm, in_training, torch_batch_norm
from unit.ocannl.nn.test_conv import conv, torch_conv

import ocannl as oc
from ocannl import nn, train

# References, in terms of the functions of NumPy or PyTorch.


def pooled(x: Any) -> Any:
    """The greatest of each 2 x 2 cells."""
    rows, columns = x.shape[-3] // 2, x.shape[-2] // 2
    cells = x.reshape(*x.shape[:-3], rows, 2, columns, 2, x.shape[-1])
    if isinstance(x, np.ndarray):
        return cells.max((-4, -2))
    return cells.amax((-4, -2))


class Functions:
    """What a reference is made of; `p` are the parameters by name."""

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
        block,
        [x],
        lambda p, x: np.asarray(reference(in_numpy(p), x)),
        lambda p, x: reference(in_torch(p), x),
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


@check_all(CASES)
def test_against_numpy(case: Case):
    case.check_numpy()


@check_all(CASES)
def test_against_torch(case: Case):
    case.check_torch()


def shapes(result: oc.Tensor) -> dict[str, str]:
    oc.infer(result)
    return {name: str(p.shape) for name, p in oc.params(result).items()}


def test_lenet_has_its_sizes():
    images = oc.data(np.zeros((5, 28, 28, 1), np.float32))
    logits = nn.lenet()(images)
    assert shapes(logits) == {
        "lenet.conv1.w": "5,5,1->6",
        "lenet.conv1.b": "6",
        "lenet.conv2.w": "5,5,6->16",
        "lenet.conv2.b": "16",
        "lenet.fc1.w": "7,7,16->120",
        "lenet.fc1.b": "120",
        "lenet.fc2.w": "120->84",
        "lenet.fc2.b": "84",
        "lenet.logits.w": "84->10",
        "lenet.logits.b": "10",
    }
    assert str(logits.shape) == "5|10"


def test_lenet_of_the_paper():
    logits = nn.lenet(use_padding=False)(oc.data(np.zeros((5, 32, 32, 1), np.float32)))
    assert shapes(logits)["lenet.fc1.w"] == "5,5,16->120"
    assert sum(int(np.prod(p.shape.array)) for p in oc.params(logits).values()) == 61706


def resnet(blocks: int, x: oc.Tensor, train_step: oc.TensorLike | None) -> oc.Tensor:
    x = nn.conv_bn_relu(out_channels=4, label="stem")(x, train_step)
    for k in range(blocks):
        x = nn.resnet_block(label=f"block{k}")(x, train_step)
    return nn.linear(out_dim=3)(nn.global_avg_pool2d(x))


def test_a_deep_stack_takes_its_channels_from_the_stem():
    found = shapes(resnet(10, oc.data(np.zeros((2, 4, 4, 3), np.float32)), oc.index("step_n")))
    kernels = [shape for name, shape in found.items() if name.startswith("block") and name.endswith(".w")]
    assert sorted(set(kernels)) == ["3,3,4->4"]
    assert len(kernels) == 20
    assert found["linear.w"] == "4->3"


def test_a_trained_stack_is_used_with_its_running_statistics():
    rng = np.random.default_rng(3)
    classes = np.arange(12) % 3
    pictures = rng.normal(size=(12, 4, 4, 3)) + 2 * np.eye(3)[classes][:, None, None, :]
    images, ids = oc.data(pictures, label="images"), oc.data(classes, axes="b", label="ids")
    stem, block = nn.conv_bn_relu(out_channels=4), nn.resnet_block(stride=2, out_channels=6)
    head = nn.linear(out_dim=3)

    def model(x: oc.Tensor, train_step: oc.TensorLike | None = None) -> oc.Tensor:
        return head(nn.global_avg_pool2d(block(stem(x, train_step), train_step)))

    loss = nn.cross_entropy(model(images, oc.index("step_n")), ids).named("loss")
    ctx = oc.Context.cpu()
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.05, momentum=0.5))
    ctx.init_params(loss, seed=1)
    for _ in range(60):
        step()
    used = model(images)
    assert np.array_equal(ctx[used].argmax(axis=-1), classes)
    alone = model(oc.data(pictures[:1], label="one"))
    np.testing.assert_allclose(ctx[alone], ctx[used][:1], rtol=1e-9)


@pytest.mark.parametrize("block", [nn.resnet_block, nn.vgg_block, nn.conv_bn_relu])
def test_an_image_of_odd_size(block: Any):
    settings: dict[str, Any] = {} if block is nn.vgg_block else {"stride": 2}
    with pytest.raises(oc.ShapeError, match="does not divide by 2"):
        oc.infer(block(out_channels=4, **settings)(oc.data(np.zeros((2, 5, 5, 3), np.float32))))


@pytest.mark.parametrize(
    ("block", "missing"),
    [
        (nn.conv_bn_relu(), "conv_bn_relu.conv.w"),
        (nn.vgg_block(), "vgg_block.conv1.conv.w"),
        (nn.resnet_block(stride=2), "resnet_block.first.conv.w"),
    ],
    ids=["convolution", "vgg", "residual"],
)
def test_nothing_says_how_many_channels(block: nn.TrainingLayer, missing: str):
    """A kernel is named, not a gain, which takes its size from there."""
    with pytest.raises(oc.ShapeError, match=f"hidden dimension of `{missing}`"):
        oc.infer(block(oc.data(np.zeros((2, 4, 4, 3), np.float32))))
