"""Convolutions as nests, and what they compute."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from support.tensor_core_kernels import DTYPES, rounded

Array = NDArray[Any]


@dataclass(frozen=True)
class Images:
    """A convolution of images, which are padded already; `size` is that of the results."""

    count: int
    size: tuple[int, int]
    channels: int
    outputs: int
    window: tuple[int, int] = (3, 3)
    stride: int = 1
    element: str = "bf16"

    @property
    def outer(self) -> tuple[int, int]:
        """The height and the width of the images."""
        rows, columns = ((n - 1) * self.stride + w for n, w in zip(self.size, self.window, strict=True))
        return rows, columns

    @property
    def positions(self) -> int:
        """Those of all results."""
        return self.count * math.prod(self.size)

    def text(self) -> str:
        """A function with the nest `y[b, h, p, o] = sum of x[b, h + i, p + j, c] * w[o, i, j, c]`."""
        (height, width), (i, j), (rows, columns) = self.size, self.window, self.outer
        wide = [f"%{n}v = arith.extf %{n}n : {self.element} to f32" for n in "xw"]
        name = "v" if self.element == "f32" else "n"
        step = "" if self.stride == 1 else f"{self.stride}*"
        return f"""
loops.func @convolution {{
  %w = assign.node "w" on_device : memref<{self.outputs}x{i}x{j}x{self.channels}x{self.element}>
  %x = assign.node "x" on_device : memref<{self.count}x{rows}x{columns}x{self.channels}x{self.element}>
  %y = assign.node "y" on_device : memref<{self.count}x{height}x{width}x{self.outputs}xf32>
  loops.nest "y" (b = {self.count}, h = {height}, p = {width}, o = {self.outputs}) {{
    %sum = loops.reduce add (i = {i}, j = {j}, c = {self.channels}) : f32 {{
      %w{name} = loops.load %w[o, i, j, c]
      %x{name} = loops.load %x[b, {step}h + i, {step}p + j, c]
      {"" if self.element == "f32" else wide[0]}
      {"" if self.element == "f32" else wide[1]}
      %product = arith.mulf %wv, %xv : f32
      loops.yield %product
    }}
    loops.store %sum, %y[b, h, p, o]
  }}
}}
"""

    def arrays(self) -> dict[str, Array]:
        rng = np.random.default_rng(5)
        x = rng.standard_normal((self.count, *self.outer, self.channels)).astype(DTYPES[self.element])
        w = rng.standard_normal((self.outputs, *self.window, self.channels)).astype(DTYPES[self.element])
        return {"x": x, "w": w, "y": np.zeros((self.count, *self.size, self.outputs), np.float32)}

    def expected(self, found: dict[str, Array], tf32: bool) -> Array:
        """The convolution in f64, of operands that are rounded to TF32 on request."""
        x, w = (rounded(found[n]) if tf32 else found[n].astype(np.float64) for n in "xw")
        (height, width), step = self.size, self.stride
        total = np.zeros(found["y"].shape)
        for i, j in itertools.product(*map(range, self.window)):
            part = x[:, i : i + step * height : step, j : j + step * width : step]
            total += np.einsum("bhpc,oc->bhpo", part, w[:, i, j])
        return total
