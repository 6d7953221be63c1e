"""Causal attention in OCANNL, and the gradients of queries, keys and values."""

from typing import Any

import kernels_ocannl
import numpy as np
from kernels import Kernel, data_of

import ocannl as oc
from ocannl import nn


class Runs(kernels_ocannl.Runs):
    def __init__(self, kernel: Kernel, device: str = "cpu") -> None:
        self.kernel, self.device = kernel, device
        data = data_of(kernel)
        q, k, v, gradient = (
            self.operand(*pair) for pair in zip("qkvg", (*data.attended, data.gradient), strict=True)
        )
        y = nn.dot_product_attention(q, k, v, nn.causal_mask()).named("y")
        self.found = {"y": y}
        if kernel.backward:
            names = ("q.grad", "k.grad", "v.grad")
            self.found |= zip(names, oc.vjp(y, [q, k, v], gradient), strict=True)
        self.code = sum(map(oc.forward, self.found.values()), oc.Code())

    def operand(self, label: str, array: Any) -> oc.Tensor:
        """Example, position | head, feature."""
        dtype = oc.bfloat16 if self.kernel.precision == "bf16" else np.float32
        return oc.data(array, label=label, axes="bboo", dtype=dtype)

    def first(self) -> None:
        self.context = oc.Context(self.device, tf32=self.device == "cuda" and self.kernel.precision == "tf32")
        self.routine = self.context.compile(self.code, name="attention")
        self.routine()

    def values(self) -> dict[str, Any]:
        return {name: np.asarray(self.context[t]).astype(np.float32) for name, t in self.found.items()}
