"""Models of real size that are trained by AdamW or by SGD with momentum, and small ones of the same form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from steps import Floats, Problem, norm_shapes, random_parameters, transformer_shapes

QUICK, BF16, TF32 = "_quick", "_bf16", "_tf32"
ADAMW = {"lr": 3e-4, "weight_decay": 0.1}
MOMENTUM = {"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-4}
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class Model(Problem):
    """A model whose targets are ids: of a class for each token, image or cell of an image.

    Attributes:
        kind: what network it is, for which each framework has a function of this name.
        parameters: by the names that they have in OCANNL: linear weights as output row, input row, windows as
            output, height, width, input.
        optimizer: `adamw` or `sgd`, with its settings.
        layers, heads: of a transformer; the blocks of a stage of a residual network; the levels of a U-Net.
    """

    kind: str
    parameters: dict[str, Floats]
    optimizer: str
    settings: dict[str, Any]
    layers: int
    heads: int = 1


def model(kind: str, inputs: NDArray[Any], targets: NDArray[Any], shapes: Shapes, **details: Any) -> Model:
    """A model with parameters of some shapes, and one batch of data."""
    parameters = random_parameters(np.random.default_rng(1), shapes, 0.02)
    return Model(
        name=kind,
        kind=kind,
        inputs=inputs[None],
        targets=targets[None].astype(np.int32),
        parameters=parameters,
        calls=1,
        verified_steps=3,
        **details,
    )


def gpt2(vocabulary: int, layers: int, width: int, heads: int, batch: int, length: int) -> Model:
    """GPT-2 (Radford et al., 2019): a decoder whose embedding also gives the scores; its attention has no
    biases.
    """
    text = np.random.default_rng(2).integers(0, vocabulary, (batch, length + 1)).astype(np.int32)
    shapes: Shapes = {"embed.w": (vocabulary, width), "place.w": (length, width)}
    shapes |= transformer_shapes("decoder", layers, width, 4 * width, heads)
    details = {"optimizer": "adamw", "settings": ADAMW, "layers": layers, "heads": heads}
    return model("gpt2", text[:, :-1], text[:, 1:], shapes, **details)


def vit(size: int, patch: int, layers: int, width: int, heads: int, batch: int) -> Model:
    """A vision transformer (Dosovitskiy et al., 2021) whose head reads the mean of patches; 10 classes."""
    images, classes = pictures(batch, size)
    shapes: Shapes = {
        "patches.w": (width, patch, patch, 3),
        "patches.b": (width,),
        "place.w": ((size // patch) ** 2, width),
        "head.w": (10, width),
        "head.b": (10,),
    }
    shapes |= transformer_shapes("encoder", layers, width, 4 * width, heads)
    details = {"optimizer": "adamw", "settings": ADAMW, "layers": layers, "heads": heads}
    return model("vit", images, classes, shapes, **details)


def resnet(size: int, widths: tuple[int, ...], blocks: int, batch: int) -> Model:
    """A residual network (He et al., 2015) with a stage for each width, of which all but the first halve the
    image; 10 classes. Widths 64, 128, 256, 512 and 2 blocks are ResNet-18.
    """
    images, classes = pictures(batch, size)
    shapes = normed_shapes("stem.conv", "stem", 3, (3, widths[0]))
    for stage, (inner, outer) in enumerate(zip((widths[0], *widths), widths, strict=False)):
        for block in range(blocks):
            name, into = f"stage{stage}.block{block}", inner if block == 0 else outer
            shapes |= normed_shapes(f"{name}.first.conv", f"{name}.first", 3, (into, outer))
            shapes |= normed_shapes(f"{name}.second", name, 3, (outer, outer))
            if block == 0 and stage > 0:
                shapes |= normed_shapes(f"{name}.shortcut.conv", f"{name}.shortcut", 1, (into, outer))
    shapes |= {"head.w": (10, widths[-1]), "head.b": (10,)}
    details = {"optimizer": "sgd", "settings": MOMENTUM, "layers": blocks}
    return model("resnet", images, classes, shapes, **details)


def unet(size: int, widths: tuple[int, ...], batch: int) -> Model:
    """A U-Net (Ronneberger et al., 2015) with padding, which tells one of 4 classes for each cell."""
    images, _ = pictures(batch, size)
    classes = np.random.default_rng(3).integers(0, 4, (batch, size, size))
    shapes: Shapes = {}
    for level, (inner, outer) in enumerate(zip((3, *widths), widths, strict=False)):
        shapes |= pair_shapes(f"down{level}", inner, outer)
    for level, (outer, inner) in enumerate(pairwise(widths)):
        shapes |= {f"up{level}.grow.w": (outer, 2, 2, inner), f"up{level}.grow.b": (outer,)}
        shapes |= pair_shapes(f"up{level}", 2 * outer, outer)
    shapes |= {"head.w": (4, widths[0]), "head.b": (4,)}
    details = {"optimizer": "adamw", "settings": ADAMW, "layers": len(widths)}
    return model("unet", images, classes, shapes, **details)


# The vectors of sums of a recurrent layer: an LSTM has four gates, a GRU three.
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def recurrent(kind: str, features: int, width: int, batch: int, length: int) -> Model:
    """An LSTM (Hochreiter and Schmidhuber, 1997), a GRU (Cho et al., 2014) or a plain recurrent layer, and
    one of 10 classes at each position. Its biases are one vector, but that of a GRU's state in the gate.
    """
    rng = np.random.default_rng(2)
    x = rng.standard_normal((batch, length, features), np.float32)
    gates = (GATES[kind],) if GATES[kind] > 1 else ()
    shapes: Shapes = {
        f"{kind}.w_x": (*gates, width, features),
        f"{kind}.w_h": (*gates, width, width),
        f"{kind}.b": (*gates, width),
        **({"gru.b_h": (width,)} if kind == "gru" else {}),
        "head.w": (10, width),
        "head.b": (10,),
    }
    details = {"optimizer": "sgd", "settings": MOMENTUM, "layers": 1}
    return model(kind, x, rng.integers(0, 10, (batch, length)), shapes, **details)


def pictures(batch: int, size: int) -> tuple[Floats, NDArray[Any]]:
    """Random images, height, width, 3 colours, and a class of 10 for each."""
    rng = np.random.default_rng(2)
    return rng.standard_normal((batch, size, size, 3), np.float32), rng.integers(0, 10, batch)


def normed_shapes(window: str, norm: str, size: int, channels: tuple[int, int]) -> Shapes:
    inner, outer = channels
    return {f"{window}.w": (outer, size, size, inner)} | norm_shapes(f"{norm}.batch_norm", outer)


def pair_shapes(label: str, inner: int, outer: int) -> Shapes:
    """Two convolutions of 3 x 3 with biases."""
    return {
        f"{label}.first.w": (outer, 3, 3, inner),
        f"{label}.first.b": (outer,),
        f"{label}.second.w": (outer, 3, 3, outer),
        f"{label}.second.b": (outer,),
    }


IN_F32: dict[str, Callable[[], Model]] = {
    "gpt2": lambda: gpt2(50257, 12, 768, 12, 4, 64),
    "resnet18": lambda: resnet(32, (64, 128, 256, 512), 2, 32),
    "unet": lambda: unet(64, (32, 64, 128, 256), 8),
    "vit": lambda: vit(32, 4, 6, 384, 6, 16),
    **{kind: lambda kind=kind: recurrent(kind, 256, 256, 32, 64) for kind in GATES},
    f"gpt2{QUICK}": lambda: gpt2(211, 2, 32, 2, 2, 16),
    f"resnet18{QUICK}": lambda: resnet(8, (8, 16), 1, 4),
    f"unet{QUICK}": lambda: unet(8, (4, 8), 2),
    f"vit{QUICK}": lambda: vit(8, 4, 2, 16, 2, 4),
    **{f"{kind}{QUICK}": lambda kind=kind: recurrent(kind, 6, 8, 4, 5) for kind in GATES},
}
# The same with products and activations in bf16, and parameters in f32.
IN_BF16: dict[str, Callable[[], Model]] = {
    f"{name.removesuffix(QUICK)}{BF16}{QUICK * name.endswith(QUICK)}": (
        lambda make=make: replace(make(), precision="bf16")
    )
    for name, make in IN_F32.items()
}
# Batches that fill a GPU, in all precisions.
SIZES_OF_GPUS: dict[str, Callable[[], Model]] = {
    "gpt2_1k": lambda: gpt2(50257, 12, 768, 12, 8, 1024),
    "vit_256": lambda: vit(32, 4, 6, 384, 6, 256),
    "resnet18_256": lambda: resnet(32, (64, 128, 256, 512), 2, 256),
}
ON_GPUS: dict[str, Callable[[], Model]] = {
    f"{name}{suffix}": lambda make=make, precision=precision: replace(make(), precision=precision)
    for name, make in SIZES_OF_GPUS.items()
    for suffix, precision in (("", "f32"), (TF32, "tf32"), (BF16, "bf16"))
}
MODELS = IN_F32 | IN_BF16 | ON_GPUS
LARGE = [name for name in IN_F32 | IN_BF16 if QUICK not in name]
