"""The models in PyTorch."""

from __future__ import annotations

from functools import partial

import steps_torch
import torch
from models import Model
from steps_torch import Parts
from torch import Tensor
from torch.nn import functional

tanh_gelu = partial(functional.gelu, approximate="tanh")
# With biases, a layer, no dropout, trained, one direction, the batch first.
ONE_LAYER = (True, 1, 0.0, True, False, True)


class Network(Parts):
    """A model's parameters and running statistics, and the loss of a batch."""

    def __init__(self, problem: Model, dtype: torch.dtype) -> None:
        super().__init__(problem.parameters, problem.heads, dtype)
        self.problem = problem
        self.is_small = problem.precision == "bf16" and dtype != torch.float64
        self.statistics = {
            name.removesuffix(".gain"): (torch.zeros_like(gain), torch.ones_like(gain))
            for name, gain in self.named.items()
            if name.endswith("batch_norm.gain")
        }

    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.is_small):
            scores = getattr(self, self.problem.kind)(x)
        return functional.cross_entropy(scores.float() if self.is_small else scores, target)

    def gpt2(self, ids: Tensor) -> Tensor:
        x = functional.embedding(ids, self.named["embed.w"]) + self.named["place.w"]
        x = self.transformer("decoder", self.problem.layers, x, tanh_gelu)
        return functional.linear(x, self.named["embed.w"]).movedim(-1, 1)

    def vit(self, images: Tensor) -> Tensor:
        patch = self.named["patches.w"].shape[-1]
        x = functional.conv2d(images, self.named["patches.w"], self.named["patches.b"], stride=patch)
        x = x.flatten(2).mT + self.named["place.w"]
        x = self.transformer("encoder", self.problem.layers, x, tanh_gelu, is_causal=False)
        return self.linear("head", x.mean(1))

    def resnet(self, images: Tensor) -> Tensor:
        x = torch.relu(self.normed("stem.conv", "stem", images))
        stages = sum(name.endswith("block0.second.w") for name in self.named)
        for stage in range(stages):
            for block in range(self.problem.layers):
                x = self.residual(f"stage{stage}.block{block}", x)
        return self.linear("head", x.mean((2, 3)))

    def residual(self, name: str, x: Tensor) -> Tensor:
        shortcut, stride = f"{name}.shortcut", 1
        if f"{shortcut}.conv.w" in self.named:
            stride = 2
        inner = torch.relu(self.normed(f"{name}.first.conv", f"{name}.first", x, stride))
        inner = self.normed(f"{name}.second", name, inner)
        return torch.relu(
            inner + (x if stride == 1 else self.normed(f"{shortcut}.conv", shortcut, x, stride))
        )

    def normed(self, window: str, norm: str, x: Tensor, stride: int = 1) -> Tensor:
        """A convolution and its batch norm."""
        w, norm = self.named[f"{window}.w"], f"{norm}.batch_norm"
        x = functional.conv2d(x, w, stride=stride, padding=w.shape[-1] // 2)
        gain, offset = self.named[f"{norm}.gain"], self.named[f"{norm}.offset"]
        return functional.batch_norm(x, *self.statistics[norm], gain, offset, training=True)

    def unet(self, images: Tensor) -> Tensor:
        x, before = images, list[Tensor]()
        for level in range(self.problem.layers):
            x = self.pair(f"down{level}", functional.max_pool2d(x, 2) if level else x)
            before.append(x)
        for level in reversed(range(self.problem.layers - 1)):
            w, b = self.named[f"up{level}.grow.w"], self.named[f"up{level}.grow.b"]
            grown = functional.conv_transpose2d(x, w.transpose(0, 1), b, stride=2)
            x = self.pair(f"up{level}", torch.cat([before[level], grown], 1))
        return self.linear("head", x.movedim(1, -1)).movedim(-1, 1)

    def pair(self, name: str, x: Tensor) -> Tensor:
        for part in (f"{name}.first", f"{name}.second"):
            x = torch.relu(functional.conv2d(x, self.named[f"{part}.w"], self.named[f"{part}.b"], padding=1))
        return x

    def lstm(self, x: Tensor) -> Tensor:
        weights, begin = self.recurrent(x)
        return self.classes(torch.lstm(x, (begin, begin), weights, *ONE_LAYER)[0])

    def gru(self, x: Tensor) -> Tensor:
        weights, begin = self.recurrent(x)
        inside = functional.pad(self.named["gru.b_h"], (2 * begin.shape[2], 0))
        return self.classes(torch.gru(x, begin, [*weights[:3], inside], *ONE_LAYER)[0])

    def rnn(self, x: Tensor) -> Tensor:
        weights, begin = self.recurrent(x)
        return self.classes(torch.rnn_tanh(x, begin, weights, *ONE_LAYER)[0])

    def recurrent(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """The weights of a layer, and the state that it begins with."""
        into, back, bias = (self.named[f"{self.problem.kind}.{name}"] for name in ("w_x", "w_h", "b"))
        weights = [into.flatten(0, -2), back.flatten(0, -2), bias.flatten(), torch.zeros_like(bias.flatten())]
        return weights, x.new_zeros(1, len(x), back.shape[-1])

    def classes(self, hidden: Tensor) -> Tensor:
        return self.linear("head", hidden).movedim(-1, 1)


class Runs(steps_torch.Runs):
    problem: Model

    def new_model(self) -> Network:
        return Network(self.problem, self.dtype)

    def new_optimizer(self) -> torch.optim.Optimizer:
        kind = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[self.problem.optimizer]
        return kind(self.model.parameters, **self.problem.settings)
