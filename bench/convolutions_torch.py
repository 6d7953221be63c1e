"""Convolutions alone in PyTorch, in the layout that is faster: channels before the image, or last."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from kernels import Convolution, data_of
from peers import Missing
from steps_torch import in_torch_layout, usable, wait
from torch import Tensor

LAYOUTS = (torch.contiguous_format, torch.channels_last)
# The runs by which layouts are compared.
COMPARED = 3


class Runs:
    def __init__(
        self, kernel: Convolution, compiled: bool = False, double: bool = False, device: str = "cpu"
    ) -> None:
        if compiled:
            raise Missing
        self.kernel, self.device = kernel, usable(device)
        dtype, data = torch.float64 if double else torch.float32, data_of(kernel)
        self.operands = [
            in_torch_layout(array, dtype).to(self.device) for array in (data.gradient, data.x, data.other)
        ]

    def first(self) -> None:
        """Takes the faster layout."""
        seconds = list[float]()
        laid_out = [
            [operand.contiguous(memory_format=layout) for operand in self.operands] for layout in LAYOUTS
        ]
        for self.operands in laid_out:
            self.call(1)
            start = time.perf_counter()
            self.call(COMPARED)
            seconds.append(time.perf_counter() - start)
        self.operands = laid_out[int(np.argmin(seconds))]
        self.call(1)

    def call(self, count: int) -> None:
        with torch.no_grad():
            for _ in range(count):
                self.result = self.convolved()
        wait(self.device)

    def convolved(self) -> Tensor:
        gradient, x, other = self.operands
        steps, padding = [self.kernel.stride] * 2, [self.kernel.other[1] // 2] * 2
        if not self.kernel.backward:
            return torch.conv2d(x, other, None, steps, padding)
        wanted = [self.kernel.found == "x.grad", self.kernel.found == "other.grad", False]
        found = torch.ops.aten.convolution_backward(
            gradient, x, other, None, steps, padding, [1, 1], False, [0, 0], 1, wanted
        )
        return next(each for each in found if each is not None)

    def values(self) -> dict[str, Any]:
        return {self.kernel.found: np.moveaxis(self.result.cpu().numpy(), 1, 3)}
