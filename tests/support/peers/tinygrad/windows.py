"""tinygrad's windows of images, whose channels come last in `nn`."""

from __future__ import annotations

from typing import Any, Self

import pytest
from support.peers.tinygrad.arguments import as_list
from support.peers.tinygrad.names import REASONS
from support.peers.tinygrad.values import Values

import ocannl as oc
from ocannl import nn


class Windows(Values):
    """Pools and interpolations."""

    def _image(self, block: Any) -> Self:
        last = oc.rearrange(self.t, "... c h w -> ... h w c")
        return type(self)(oc.rearrange(block(last), "... h w c -> ... c h w"))

    def max_pool2d(
        self,
        kernel_size: Any = (2, 2),
        stride: Any = None,
        dilation: Any = 1,
        padding: Any = 0,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Self:
        if return_indices:
            pytest.skip(REASONS["max_unpool2d"])
        settings = windows(kernel_size, stride, padding, ceil_mode)
        return self._image(nn.max_pool2d(dilation=dilation, **settings))

    def avg_pool2d(
        self,
        kernel_size: Any = (2, 2),
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Self:
        settings = windows(kernel_size, stride, padding, ceil_mode)
        if len(as_list(kernel_size)) != 2 and not isinstance(kernel_size, int):
            pytest.skip("images of three dimensions are another block")
        return self._image(nn.avg_pool2d(count_include_pad=count_include_pad, **settings))

    def interpolate(self, size: Any, mode: str = "linear", align_corners: bool = False) -> Self:
        if self.dtype.kind in "iu" or mode == "nearest-exact":
            pytest.skip(f"interpolation of {self.dtype} by {mode}")
        block = nn.interpolate(size=size, mode=mode, align_corners=align_corners)
        axes = [f"a{k}" for k in range(len(size))]
        last = oc.rearrange(self.t, f"b c {' '.join(axes)} -> b {' '.join(axes)} c")
        return type(self)(oc.rearrange(block(last), f"b {' '.join(axes)} c -> b c {' '.join(axes)}"))


def windows(size: Any, stride: Any, padding: Any, ceil_mode: bool) -> dict[str, Any]:
    pads = as_list(padding)
    if len(pads) == 4:
        padding = [(pads[2], pads[3]), (pads[0], pads[1])]
    elif len(pads) == 3:
        raise ValueError("padding")
    stride = size if stride is None else stride
    return {"window_size": size, "stride": stride, "padding": padding, "ceil_mode": ceil_mode}
