"""The kernels in OCANNL, as users write them."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from kernels import Kernel, data_of

import ocannl as oc
from ocannl import nn

DTYPES = {"bf16": oc.bfloat16, "f64": np.float64}
CONVOLUTION = "..., h + i, w + j | c; o, i, j | c => ..., h, w | o"
BLOCKS: dict[str, Callable[[oc.Tensor, oc.Tensor, oc.Tensor], oc.Tensor]] = {
    "add": lambda x, other, ids: x + other,
    "gelu": lambda x, other, ids: nn.gelu(x),
    "tanh": lambda x, other, ids: oc.tanh(x),
    "softmax": lambda x, other, ids: nn.softmax()(x),
    "log_softmax": lambda x, other, ids: nn.log_softmax()(x),
    "layer_norm": lambda x, other, ids: nn.layer_norm()(x),
    "rms_norm": lambda x, other, ids: nn.rms_norm()(x),
    "batch_norm": lambda x, other, ids: nn.batch_norm1d()(x, train_step=1),
    "cross_entropy": lambda x, other, ids: nn.cross_entropy(x, ids),
    "transpose": lambda x, other, ids: oc.einsum("b | o => o | b", x),
    "remainder": lambda x, other, ids: x % other,
    "cumsum": lambda x, other, ids: oc.cumsum(x),
    "tril": lambda x, other, ids: oc.tril(x),
    "convolution": lambda x, other, ids: oc.einsum(CONVOLUTION, x, other, use_padding=True),
}


def product(spec: str, x: oc.Tensor, other: oc.Tensor, ids: oc.Tensor) -> oc.Tensor:
    """The last axis of each is its output, as `oc.data` has it."""
    left, right, result = (f"{', '.join(part[:-1])} | {part[-1]}" for part in re.split(",|->", spec))
    return oc.einsum(f"{left}; {right} => {result}", x, other)


class Runs:
    def __init__(self, kernel: Kernel, device: str = "cpu"):
        self.device = device
        self.kernel, self.data = kernel, data_of(kernel)
        *batch, columns = kernel.x
        dtype = DTYPES.get(kernel.precision, np.float32)
        x, other = (array.astype(dtype, copy=False) for array in (self.data.x, self.data.other))
        self.x = (
            oc.param("x", self.data.x, batch=batch, output=[columns], input=[])
            if kernel.backward
            else oc.data(x, label="x")
        )
        other = oc.data(other, label="other")
        ids = oc.data(self.data.ids, axes="b", label="ids")
        block = partial(product, kernel.product) if kernel.product else BLOCKS[kernel.block]
        self.y = block(self.x, other, ids)
        self.code = oc.forward(self.y)
        if kernel.backward:
            zeros = sum((oc.set(p.grad, 0) for p in oc.params(self.y).values()), oc.Code())
            self.code = self.code + zeros + self.y.backprop

    def first(self) -> None:
        self.context = oc.Context(self.device, tf32=self.device == "cuda" and self.kernel.precision == "tf32")
        self.routine = self.context.compile(self.code, name=self.kernel.block)
        self.context.init_params(self.y, seed=1)
        if self.kernel.backward:
            gradient = self.data.gradient
            self.context[self.y.grad] = gradient.reshape(()) if gradient.size == 1 else gradient
        self.routine()

    def call(self, count: int) -> None:
        for _ in range(count):
            self.routine()
        self.context.synchronize()

    def values(self) -> dict[str, Any]:
        found = np.asarray(self.context[self.y])
        y = {"y": found.astype(np.float32) if self.kernel.precision == "bf16" else found}
        return y | {"x.grad": np.asarray(self.context[self.x.grad])} if self.kernel.backward else y
