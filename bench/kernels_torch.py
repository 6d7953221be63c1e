"""The kernels in PyTorch: eager, by `torch.compile`, or in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from kernels import Kernel, data_of, views
from steps_torch import allow_tf32, compile_anew, in_torch_layout, usable, wait
from torch import Tensor
from torch.nn import functional

DTYPES = {"bf16": torch.bfloat16, "f64": torch.float64}
EPSILON = 1e-5


def blocks(other: Tensor, ids: Tensor, gain: Tensor, offset: Tensor) -> dict[str, Callable[[Tensor], Tensor]]:
    shape = gain.shape
    return {
        "add": lambda x: x + other,
        "gelu": functional.gelu,
        "tanh": torch.tanh,
        "softmax": lambda x: functional.softmax(x, -1),
        "log_softmax": lambda x: functional.log_softmax(x, -1),
        "layer_norm": lambda x: functional.layer_norm(x, shape, gain, offset),
        "rms_norm": lambda x: functional.rms_norm(x, shape, gain, EPSILON),
        "batch_norm": lambda x: functional.batch_norm(x, None, None, gain, offset, training=True),
        "cross_entropy": lambda x: functional.cross_entropy(x, ids),
        "transpose": lambda x: x.T.contiguous(),
        "remainder": lambda x: torch.remainder(x, other),
        "cumsum": lambda x: x.cumsum(-1),
        "tril": torch.tril,
        "convolution": lambda x: functional.conv2d(x, other, padding="same"),
        "product": lambda x: torch.matmul(x, other),
    }


class Runs:
    def __init__(self, kernel: Kernel, compiled: bool = False, double: bool = False, device: str = "cpu"):
        self.device = usable(device)
        own = DTYPES.get(kernel.precision, torch.float32)
        dtype = torch.float64 if double else own
        allow_tf32(kernel.precision == "tf32")
        self.kernel, data = kernel, data_of(kernel)
        x, other, gradient = data.x, data.other, data.gradient
        if kernel.product:
            x, other, self.order = views(kernel, x, other)
        self.x, other, self.gradient = (
            (in_torch_layout if kernel.block == "convolution" else as_it_is)(array, own).to(dtype).to(device)
            for array in (x, other, gradient)
        )
        self.x.requires_grad_(kernel.backward)
        self.parameters = [
            torch.full(kernel.x[-1:], value, dtype=dtype, device=device, requires_grad=kernel.backward)
            for value in (1.0, 0.0)
        ]
        block = blocks(other, torch.tensor(data.ids).long().to(device), *self.parameters)[kernel.block]
        self.block = compile_anew(block) if compiled else block

    def first(self) -> None:
        self.call(1)

    def call(self, count: int) -> None:
        for _ in range(count):
            if self.kernel.backward:
                for tensor in (self.x, *self.parameters):
                    tensor.grad = None
                self.y = self.block(self.x)
                self.y.backward(self.gradient.view(self.y.shape))
            else:
                with torch.no_grad():
                    self.y = self.block(self.x)
        wait(self.device)

    def values(self) -> dict[str, Any]:
        found = {"y": self.in_own_layout(self.y.detach())}
        if self.kernel.backward:
            assert self.x.grad is not None
            found["x.grad"] = self.in_own_layout(self.x.grad)
        return found

    def in_own_layout(self, tensor: Tensor) -> Any:
        array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).cpu().numpy()
        if self.kernel.product:
            return array.transpose(self.order)
        return np.moveaxis(array, 1, 3) if self.kernel.block == "convolution" else array


def as_it_is(array: Any, dtype: torch.dtype) -> Tensor:
    """The same array, with its strides, where the dtype is its own."""
    return torch.from_numpy(array).to(dtype)
