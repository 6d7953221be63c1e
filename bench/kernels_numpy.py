"""The kernels in plain NumPy: products, and what takes few calls to write. There are no gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np
from kernels import Floats, Kernel, data_of, views
from peers import Missing

DTYPES = {"f32": np.float32, "f64": np.float64}
EPSILON = np.float32(1e-5)


def softmax(x: Floats) -> Floats:
    exponentials = np.exp(x - x.max(-1, keepdims=True))
    return np.divide(exponentials, exponentials.sum(-1, keepdims=True))


def log_softmax(x: Floats) -> Floats:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def rms_norm(x: Floats) -> Floats:
    return np.divide(x, np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON))


def layer_norm(x: Floats) -> Floats:
    return rms_norm(x - x.mean(-1, keepdims=True))


BLOCKS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "add": lambda x, other: x + other,
    "tanh": lambda x, other: np.tanh(x),
    "softmax": lambda x, other: softmax(x),
    "log_softmax": lambda x, other: log_softmax(x),
    "layer_norm": lambda x, other: layer_norm(x),
    "rms_norm": lambda x, other: rms_norm(x),
    "transpose": lambda x, other: np.ascontiguousarray(x.T),
    "remainder": lambda x, other: np.remainder(x, other),
    "cumsum": lambda x, other: x.cumsum(-1),
    "tril": lambda x, other: np.tril(x),
    "product": np.matmul,
}


class Runs:
    def __init__(self, kernel: Kernel):
        if kernel.backward or kernel.block not in BLOCKS or kernel.precision not in DTYPES:
            raise Missing
        data = data_of(kernel)
        self.block: Callable[[Any, Any], Any] = BLOCKS[kernel.block]
        self.order = list(range(len(kernel.y)))
        dtype = DTYPES[kernel.precision]
        self.x, self.other = data.x.astype(dtype, copy=False), data.other.astype(dtype, copy=False)
        if kernel.product:
            self.x, self.other, self.order = views(kernel, self.x, self.other)

    def first(self) -> None:
        self.call(1)

    def call(self, count: int) -> None:
        for _ in range(count):
            self.y = self.block(self.x, self.other)

    def values(self) -> dict[str, Any]:
        return {"y": self.y.transpose(self.order)}
