"""Convolutions alone in OCANNL, and their gradients."""

from typing import Any

import numpy as np
from kernels import Convolution, data_of

import ocannl as oc


class Runs:
    def __init__(self, kernel: Convolution, device: str = "cpu") -> None:
        self.kernel, self.device, self.data = kernel, device, data_of(kernel)
        step = "" if kernel.stride == 1 else f"{kernel.stride}*"
        spec = f"..., {step}h + i, {step}w + j | c; o, i, j | c => ..., h, w | o"
        x, other = (self.operand(name) for name in ("x", "other"))
        self.y = oc.einsum(spec, x, other, use_padding=True)
        self.code = oc.forward(self.y)
        if kernel.backward:
            self.result = (x if kernel.found == "x.grad" else other).grad
            self.code = oc.set(self.result, 0) + self.y.backprop
        else:
            self.result = self.y

    def operand(self, name: str) -> oc.Tensor:
        """A parameter where its gradient is wanted, else data."""
        array = getattr(self.data, name)
        if self.kernel.found != f"{name}.grad":
            return oc.data(array, label=name)
        *batch, columns = array.shape
        return oc.param(name, array, batch=batch, output=[columns], input=[])

    def first(self) -> None:
        self.context = oc.Context(self.device)
        self.routine = self.context.compile(self.code, name="convolution")
        self.context.init_params(self.y, seed=1)
        if self.kernel.backward:
            self.context[self.y.grad] = self.data.gradient
        self.routine()

    def call(self, count: int) -> None:
        for _ in range(count):
            self.routine()
        self.context.synchronize()

    def values(self) -> dict[str, Any]:
        return {self.kernel.found: np.asarray(self.context[self.result])}
