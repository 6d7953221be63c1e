"""Programs whose collectives are published, and engines that count the bytes that ranks send."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

import ocannl as oc
from ocannl import nn, train
from ocannl.models.gpt2 import gpt2
from ocannl.program.meshes.sharding import Shard
from ocannl.runtime.collectives.engine import Bytes
from ocannl.runtime.collectives.threads import Copies

WIDTH, LAYERS, POSITIONS, BATCH = 64, 2, 16, 8


class Trained(NamedTuple):
    """A loss, and a step that lowers it."""

    loss: oc.Tensor
    step: oc.Code


def perceptron(weights: Shard | None = None, rows: int = 16) -> Trained:
    """A step of training over some rows, whose gradients are too large to be gathered whole."""
    x = oc.data(np.ones((rows, 256), np.float32), label="x", shard={"batch": "data"})
    y = oc.data(np.ones((rows, 8), np.float32), label="y", shard={"batch": "data"})
    hidden = oc.relu(oc.param("into", output=256, shard=weights) @ x)
    hidden = oc.relu(oc.param("middle", output=256, shard=weights) @ hidden)
    loss = nn.mse(oc.param("out", output=8, shard=weights) @ hidden, y).named("loss")
    return Trained(loss, train.grad_update(loss) + train.adam_update(loss, learning_rate=0.01))


def transformer(*, batch: bool = False, heads: bool = False) -> Trained:
    """A step of a small GPT-2: the batch over "data", heads and hidden features over "model"."""
    sizes = {"n_embd": WIDTH, "n_head": 4, "n_layer": LAYERS, "n_positions": POSITIONS, "vocab_size": 40}
    model = gpt2({**sizes, "activation_function": "gelu_new"})
    ids = np.zeros((BATCH, POSITIONS), np.int32)
    placement: Shard | None = {("batch", 0): "data"} if batch else None
    x, y = (oc.data(ids, axes="bb", label=label, shard=placement) for label in ("x", "y"))
    loss = nn.cross_entropy(model(x), y)
    for name, param in oc.params(loss).items():
        if heads and name.endswith("c_attn.w"):
            oc.shard(param, {("output", 1): "model"})
        elif heads and name.endswith("c_fc.w"):
            oc.shard(param, {"output": "model"})
    return Trained(loss, train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.01))


def sequence_parallel() -> Trained:
    """Layers by heads and hidden features, with positions in parts between them."""
    parts: Shard = {("batch", 1): "model"}
    zeros = np.zeros((BATCH, POSITIONS, WIDTH), np.float32)
    h = oc.data(zeros, axes="bbo", label="x", shard=parts)
    for _ in range(LAYERS):
        layers = (
            nn.multi_head_attention(num_heads=4, d_k=WIDTH // 4, d_v=WIDTH // 4),
            nn.feed_forward(d_ff=4 * WIDTH),
        )
        for layer in layers:
            h = oc.shard(h + layer(oc.shard(nn.layer_norm()(h), {})), parts)
    loss = oc.mean(h**2).named("loss")
    for name, param in oc.params(loss).items():
        if name.endswith(("w_q", "w_k", "w_v")):
            oc.shard(param, {("output", 0): "model"})
        elif name.endswith("into.w"):
            oc.shard(param, {"output": "model"})
    return Trained(loss, train.grad_update(loss))


class Sent:
    """The bytes and the messages that ranks have sent to others, by the copies of the engine."""

    def __init__(self) -> None:
        self.bytes, self.messages = 0, 0
        self._lock = Lock()

    def note(self, group: Sequence[int], target: Bytes) -> None:
        with self._lock:
            self.bytes += target.nbytes * (len(group) - 1) // len(group)
            self.messages += len(group) - 1


@contextmanager
def counted() -> Generator[Sent]:
    """Counts what ranks that are threads copy from each other."""
    sent, finish = Sent(), Copies.finish

    def counting(self: Copies) -> None:
        sent.note(self.group, self.target)
        finish(self)

    with patch.object(Copies, "finish", counting):
        yield sent
