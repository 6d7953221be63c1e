"""tinygrad's windows of images, whose channels come last in `nn`."""

from __future__ import annotations

from typing import Any, Self

import pytest
from support.peers.tinygrad.arguments import as_list
from support.peers.tinygrad.values import Values

import ocannl as oc
from ocannl import nn


class Windows(Values):
    """Pools, transposed convolutions and interpolations."""

    def _image(self, rank: int = 2) -> oc.Tensor:
        """With the channels behind so many spatial axes."""
        return oc.rearrange(self.t, f"... c {names(rank)} -> ... {names(rank)} c")

    @classmethod
    def _of(cls, image: oc.Tensor, rank: int = 2) -> Self:
        """With the channels before them again."""
        return cls(oc.rearrange(image, f"... {names(rank)} c -> ... c {names(rank)}"))

    def max_pool2d(
        self,
        kernel_size: Any = (2, 2),
        stride: Any = None,
        dilation: Any = 1,
        padding: Any = 0,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        settings = windows(kernel_size, stride, padding, ceil_mode)
        if return_indices:
            found = nn.max_pool2d(dilation=dilation, return_indices=True, **settings)(self._image())
            return tuple(map(self._of, found))
        return self._of(nn.max_pool2d(dilation=dilation, **settings)(self._image()))

    def max_unpool2d(
        self,
        indices: Self,
        kernel_size: Any = (2, 2),
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Self:
        size = output_size or [
            (n - 1) * step - 2 * pad + length
            for n, length, step, pad in zip(
                self.shape[2:],
                kernel_size,
                each(kernel_size if stride is None else stride, 2),
                each(padding, 2),
                strict=True,
            )
        ]
        return self._of(nn.max_unpool(self._image(), indices._image(), size[-2:]))

    def avg_pool2d(
        self,
        kernel_size: Any = (2, 2),
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Self:
        settings = windows(kernel_size, stride, padding, ceil_mode)
        rank = 3 if len(as_list(kernel_size)) == 3 else 2
        pool = (nn.avg_pool2d, nn.avg_pool3d)[rank - 2](count_include_pad=count_include_pad, **settings)
        return self._of(pool(self._image(rank)), rank)

    def conv_transpose2d(
        self, weight: Values, bias: Values | None = None, groups: int = 1, padding: Any = 0, **settings: Any
    ) -> Self:
        """By the block, in which tensors stand for its parameters."""
        rank = self.ndim - 2
        if len(as_list(padding)) not in (1, rank):
            raise ValueError("padding")
        block = (nn.conv_transpose1d, nn.conv_transpose2d, nn.conv_transpose3d)[rank - 1](
            kernel_size=weight.shape[2:], padding=padding, groups=groups, bias=bias is not None, **settings
        )
        moved = f"(g i) o {names(rank)} -> (g o) {names(rank)} i"
        block = block.replace("w", oc.rearrange(weight.t, moved, g=groups, axes="o" + "i" * (rank + 1)))
        if bias is not None:
            block = block.replace("b", bias.t)
        return self._of(block(self._image(rank)), rank)

    def interpolate(self, size: Any, mode: str = "linear", align_corners: bool = False) -> Self:
        if self.dtype.kind in "iu" and mode == "linear":
            pytest.skip("PyTorch rounds integers after each axis")
        block = nn.interpolate(size=size, mode=mode, align_corners=align_corners)
        return self._of(block(self._image(len(size))), len(size))


def names(rank: int) -> str:
    return " ".join(f"a{k}" for k in range(rank))


def each(setting: Any, rank: int) -> list[Any]:
    given = as_list(setting)
    return given * rank if len(given) == 1 else given


def windows(size: Any, stride: Any, padding: Any, ceil_mode: bool) -> dict[str, Any]:
    pads = as_list(padding)
    if len(pads) == 4:
        padding = [(pads[2], pads[3]), (pads[0], pads[1])]
    elif len(pads) == 3:
        raise ValueError("padding")
    stride = size if stride is None else stride
    return {"window_size": size, "stride": stride, "padding": padding, "ceil_mode": ceil_mode}
