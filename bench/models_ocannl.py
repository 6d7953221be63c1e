"""The models in OCANNL."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import steps_ocannl
from models import GATES, Model

import ocannl as oc
from ocannl import nn, train

tanh_gelu = partial(nn.gelu, approximate="tanh")


def transformer_settings(problem: Model, width: int) -> tuple[int, int, int, int, int]:
    """Layers, heads, the features of a head twice, and those of the layers between."""
    each = width // problem.heads
    return problem.layers, problem.heads, each, each, 4 * width


def gpt2(problem: Model, ids: oc.Tensor, train_step: oc.TensorLike) -> oc.Tensor:
    vocabulary, width = problem.parameters["embed.w"].shape
    embed = nn.embedding(num=vocabulary, dim=width, label="embed")
    place = nn.learned_positions(label="place")
    decode = nn.decoder_only(*transformer_settings(problem, width), activation=tanh_gelu)
    return embed.w @ decode(place(embed(ids)))


def vit(problem: Model, images: oc.Tensor, train_step: oc.TensorLike) -> oc.Tensor:
    width, patch, *_ = problem.parameters["patches.w"].shape
    into = nn.conv2d(kernel_size=patch, stride=patch, use_padding=False, out_channels=width, label="patches")
    place = nn.learned_positions(label="place")
    encode = nn.transformer_encoder(*transformer_settings(problem, width), activation=tanh_gelu)
    patches = oc.einsum("b, h, w | c => b, h&w | c", into(images))
    n = oc.Dim("n")
    mean = oc.einsum("b, n | c => b | c", encode(place(patches)), n=n) / n
    return nn.linear(out_dim=10, label="head")(mean)


def resnet(problem: Model, images: oc.Tensor, train_step: oc.TensorLike) -> oc.Tensor:
    widths = [len(w) for name, w in problem.parameters.items() if name.endswith("block0.second.w")]
    x = nn.conv_bn_relu(out_channels=widths[0], label="stem")(images, train_step)
    for stage, width in enumerate(widths):
        for block in range(problem.layers):
            grows = block == 0 and stage > 0
            settings = {"stride": 2, "out_channels": width} if grows else {}
            x = nn.resnet_block(**settings, label=f"stage{stage}.block{block}")(x, train_step)
    return nn.linear(out_dim=10, label="head")(nn.global_avg_pool2d(x))


def unet(problem: Model, images: oc.Tensor, train_step: oc.TensorLike) -> oc.Tensor:
    widths = [len(problem.parameters[f"down{level}.second.b"]) for level in range(problem.layers)]
    x, before = images, list[oc.Tensor]()
    for level, width in enumerate(widths):
        x = pair(f"down{level}", width, nn.max_pool2d()(x) if level else x)
        before.append(x)
    for level in reversed(range(len(widths) - 1)):
        grow = nn.conv_transpose2d(
            kernel_size=2, stride=2, use_padding=False, out_channels=widths[level], label=f"up{level}.grow"
        )
        both = oc.concat("b, h, w | c; b, h, w | d => b, h, w | c^d", before[level], grow(x))
        x = pair(f"up{level}", widths[level], both)
    return nn.linear(out_dim=4, label="head")(x)


def pair(label: str, width: int, x: oc.Tensor) -> oc.Tensor:
    for part in ("first", "second"):
        x = oc.relu(nn.conv2d(out_channels=width, label=f"{label}.{part}")(x))
    return x


def recurrent(problem: Model, x: oc.Tensor, train_step: oc.TensorLike) -> oc.Tensor:
    layer = {"lstm": nn.lstm, "gru": nn.gru, "rnn": nn.rnn}[problem.kind]
    width = problem.parameters[f"{problem.kind}.b"].shape[-1]
    return nn.linear(out_dim=10, label="head")(layer(width)(x))


NETWORKS = {"gpt2": gpt2, "vit": vit, "resnet": resnet, "unet": unet} | dict.fromkeys(GATES, recurrent)
AXES = {"gpt2": "bbb"} | dict.fromkeys(GATES, "bbbo")
OPTIMIZERS = {"adamw": train.adamw, "sgd": train.sgd}


class Runs(steps_ocannl.Runs):
    def __init__(self, problem: Model, device: str = "cpu"):
        self.problem, self.device = problem, device
        self.batch_n, self.step_n = oc.index("batch_n", problem.batches), oc.index("step_n")
        is_small = problem.precision == "bf16"
        x = oc.data(
            problem.inputs,
            label="inputs",
            axes=AXES.get(problem.kind, "bbbbo"),
            dtype=oc.bfloat16 if is_small and problem.kind != "gpt2" else None,
        )
        targets = oc.data(problem.targets, label="targets", axes="b" * problem.targets.ndim)
        with oc.precision(oc.float32, compute=oc.bfloat16) if is_small else nullcontext():
            scores = NETWORKS[problem.kind](problem, x[self.batch_n], self.step_n)
        scores = oc.cast(scores, oc.float32) if is_small else scores
        self.loss = nn.cross_entropy(scores, targets[self.batch_n]).named("loss")
        self.optimizer = OPTIMIZERS[problem.optimizer](**problem.settings)
        self.code = self.optimizer.step(self.loss)

    def reset(self) -> None:
        for name, param in oc.params(self.loss).items():
            self.context[param] = self.problem.parameters[name]
        for memory in self.optimizer.state_roots():
            self.context[memory] = 0.0
