"""The kernels in OCANNL, as users write them."""

from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
from kernel_worker import SIZE, data

import ocannl as oc
from ocannl import nn

Block = Callable[[oc.Tensor], oc.Tensor]


def blocks(other: oc.Tensor, ids: oc.Tensor) -> dict[str, Block]:
    return {
        "add": lambda x: x + other,
        "gelu": nn.gelu,
        "tanh": oc.tanh,
        "softmax": lambda x: nn.softmax()(x),
        "log_softmax": lambda x: nn.log_softmax()(x),
        "layer_norm": lambda x: nn.layer_norm()(x),
        "rms_norm": lambda x: nn.rms_norm()(x),
        "batch_norm": lambda x: nn.batch_norm1d()(x, train_step=1),
        "cross_entropy": lambda x: nn.cross_entropy(x, ids),
        "transpose": lambda x: oc.einsum("b | o => o | b", x),
    }


class Compiled:
    version = metadata.version("ocannl")

    def __init__(self, name: str, backward: bool):
        values, other, ids = data()
        rows, columns = SIZE
        self.backward = backward
        self.x = (
            oc.param("x", values, batch=[rows], output=[columns], input=[])
            if backward
            else oc.data(values, label="x")
        )
        block = blocks(oc.data(other, label="other"), oc.data(ids, axes="b", label="ids"))[name]
        self.y = block(self.x)
        code = oc.forward(self.y)
        if backward:
            zeros = sum((oc.set(p.grad, 0) for p in oc.params(self.y).values()), oc.Code())
            code = code + zeros + self.y.backprop
        self.context = oc.Context.cpu()
        self.step = self.context.compile(code, name=name)
        self.context.init_params(self.y, seed=1)
        if backward:
            gradient = other.T if name == "transpose" else np.ones(1) if name == "cross_entropy" else other
            self.context[self.y.grad] = np.ascontiguousarray(gradient)

    def run(self) -> None:
        self.step()

    def values(self) -> dict[str, Any]:
        y = {"y": np.asarray(self.context[self.y])}
        return y | {"x.grad": np.asarray(self.context[self.x.grad])} if self.backward else y


def build(name: str, backward: bool) -> Compiled:
    return Compiled(name, backward)
