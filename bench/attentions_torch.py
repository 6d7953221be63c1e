"""Causal attention in PyTorch, whose own kernel takes the heads before the positions."""

from __future__ import annotations

from typing import Any

import torch
from kernels import Kernel, data_of
from steps_torch import allow_tf32, compile_anew, usable, wait
from torch import Tensor
from torch.nn import functional


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Runs:
    def __init__(
        self, kernel: Kernel, compiled: bool = False, double: bool = False, device: str = "cpu"
    ) -> None:
        self.kernel, self.device = kernel, usable(device)
        allow_tf32(kernel.precision == "tf32")
        self.own = torch.bfloat16 if kernel.precision == "bf16" else torch.float32
        self.dtype, data = torch.float64 if double else self.own, data_of(kernel)
        *self.operands, self.gradient = map(self.operand, (*data.attended, data.gradient))
        for operand in self.operands:
            operand.requires_grad_(kernel.backward)
        self.attention = compile_anew(attention) if compiled else attention

    def operand(self, array: Any) -> Tensor:
        return torch.tensor(array).to(self.own).to(self.dtype).to(self.device).transpose(1, 2).contiguous()

    def first(self) -> None:
        self.call(1)

    def call(self, count: int) -> None:
        for _ in range(count):
            if self.kernel.backward:
                for operand in self.operands:
                    operand.grad = None
                self.y = self.attention(*self.operands)
                self.y.backward(self.gradient)
            else:
                with torch.no_grad():
                    self.y = self.attention(*self.operands)
        wait(self.device)

    def values(self) -> dict[str, Any]:
        found = {"y": self.y}
        if self.kernel.backward:
            found |= {f"{label}.grad": t.grad for label, t in zip("qkv", self.operands, strict=True)}
        return {
            name: t.detach().transpose(1, 2).float().cpu().numpy()
            for name, t in found.items()
            if t is not None
        }
