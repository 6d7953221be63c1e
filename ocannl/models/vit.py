"""The vision transformer (Dosovitskiy et al., 2021)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import ocannl as oc
from ocannl import nn
from ocannl.models.encoder import attention, feed, is_for, norm_of
from ocannl.models.model import Array, Config, setting

PATCHES = "b, h&i, w&j | c => b, h, w | i, j, c"


def vit(config: Config) -> Callable[..., oc.Tensor]:
    """A function of images, batch, height, width | channels, to features of the class and of patches, batch,
    1 + patches | features; or to scores of classes, where the model was saved for these.
    """
    width, size, channels = (setting(config, name) for name in ("hidden_size", "image_size", "num_channels"))
    patch, count = setting(config, "patch_size"), (size // setting(config, "patch_size")) ** 2
    with oc.scope("embeddings"):
        token = oc.param("cls_token", 0.0, batch=[1, 1], input=[], output=width)
        positions = oc.param("position_embeddings", 0.0, batch=[1, count + 1], input=[], output=width)
        with oc.scope("patch_embeddings"):
            project = nn.linear(in_dim=[patch, patch, channels], out_dim=width, label="projection")
    layers = [layer(config, number) for number in range(setting(config, "num_hidden_layers"))]
    norm = norm_of(config, "layernorm")
    head = None
    if is_for(config, "ForImageClassification"):
        labels = len(setting(config, "id2label", {0: 0, 1: 1}))
        head = nn.linear(in_dim=width, out_dim=labels, label="classifier")

    def model(images: oc.TensorLike | Array) -> oc.Tensor:
        images = oc.data(images, axes="bbbo") if isinstance(images, np.ndarray) else oc.as_tensor(images)
        cells = oc.einsum(PATCHES, images, i=patch, j=patch)
        patches = oc.einsum("b, h, w | d => b, h&w | d", project(cells))
        first = oc.repeat(token, "one s d -> (b one) s d", b=images.shape.array[0])
        x = oc.concat("b, s | d; b, t | d => b, s^t | d", first, patches) + positions
        for each in layers:
            x = each(x)
        x = norm(x)
        return x if head is None else head(oc.einsum("b, 0 | d => b | d", x))

    return model


@oc.configurable
def layer(config: Config, number: int) -> nn.Layer:
    """Attention and a feed-forward block, each after a norm."""
    with oc.scope(f"encoder.layer.{number}"):
        before, after = norm_of(config, "layernorm_before"), norm_of(config, "layernorm_after")
        attend, forward = attention(config, inner="attention"), feed(config)

    def apply(x: oc.Tensor) -> oc.Tensor:
        x = x + attend(before(x))
        return x + forward(after(x))

    return apply


def vit_weights(config: Config, name: str, array: Array) -> dict[str, Array]:
    """The weights of patches have their channels last."""
    return {name: np.moveaxis(array, 1, -1) if name.endswith("projection.weight") else array}
