"""The kernels in PyTorch: eager, by `torch.compile`, or in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from kernel_worker import SIZE, data
from torch import Tensor
from torch.nn import functional

Block = Callable[[Tensor], Tensor]


def blocks(other: Tensor, ids: Tensor, gain: Tensor, offset: Tensor) -> dict[str, Block]:
    shape = (SIZE[1],)
    return {
        "add": lambda x: x + other,
        "gelu": functional.gelu,
        "tanh": torch.tanh,
        "softmax": lambda x: functional.softmax(x, -1),
        "log_softmax": lambda x: functional.log_softmax(x, -1),
        "layer_norm": lambda x: functional.layer_norm(x, shape, gain, offset),
        "rms_norm": lambda x: functional.rms_norm(x, shape, gain, 1e-5),
        "batch_norm": lambda x: functional.batch_norm(x, None, None, gain, offset, training=True),
        "cross_entropy": lambda x: functional.cross_entropy(x, ids),
        "transpose": lambda x: x.T.contiguous(),
    }


class Runs:
    version = torch.__version__

    def __init__(self, name: str, backward: bool, compiled: bool, double: bool):
        values, other, ids = data()
        dtype = torch.float64 if double else torch.float32
        self.backward = backward
        self.x = torch.tensor(values, dtype=dtype, requires_grad=backward)
        self.gain = torch.ones(SIZE[1], dtype=dtype, requires_grad=backward)
        self.offset = torch.zeros(SIZE[1], dtype=dtype, requires_grad=backward)
        gradient = torch.tensor(other, dtype=dtype)
        block = blocks(gradient, torch.tensor(ids, dtype=torch.int64), self.gain, self.offset)[name]
        self.block: Block = torch.compile(block) if compiled else block
        self.gradient = gradient.T.contiguous() if name == "transpose" else gradient
        if name == "cross_entropy":
            self.gradient = torch.ones((), dtype=dtype)
        self.run()

    def run(self) -> None:
        if self.backward:
            self.x.grad = self.gain.grad = self.offset.grad = None
            self.y = self.block(self.x)
            self.y.backward(self.gradient)
        else:
            with torch.no_grad():
                self.y = self.block(self.x)

    def values(self) -> dict[str, Any]:
        found = {"y": np.atleast_1d(self.y.detach().numpy())}
        if self.backward:
            assert self.x.grad is not None
            found["x.grad"] = self.x.grad.numpy()
        return found


def build(name: str, backward: bool, compiled: bool = False, double: bool = False) -> Runs:
    return Runs(name, backward, compiled, double)
