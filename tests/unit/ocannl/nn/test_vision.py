"""Vision models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.nn.check import Case, check_all
from support.nn.vision import CASES

import ocannl as oc
from ocannl import nn, train


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
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


@pytest.mark.exhaustive
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


@pytest.mark.parametrize(("block", "size"), [(nn.resnet_block, 3), (nn.vgg_block, 2), (nn.conv_bn_relu, 3)])
def test_an_image_of_odd_size(block: Any, size: int):
    """As in PyTorch: a padded convolution has a window at every other cell, a pool whole windows only."""
    settings: dict[str, Any] = {} if block is nn.vgg_block else {"stride": 2}
    result = block(out_channels=4, **settings)(oc.data(np.zeros((2, 5, 5, 3), np.float32)))
    oc.infer(result)
    assert result.shape == f"2,{size},{size}|4"


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
