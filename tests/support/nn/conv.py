"""Convolutions, and their references in NumPy and PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support.nn.check import Array, Case, arrays_of

from ocannl import nn

# References. Images are batch, spatial axes, channels; kernels are output channels, window, input channels.


def margins(window: int, dilation: int) -> tuple[int, int]:
    """The padding before and after an axis: an even window has one more after it."""
    span = (window - 1) * dilation
    return span // 2, span - span // 2


def conv(
    x: Array, w: Array, *, stride: tuple[int, ...], dilation: tuple[int, ...], padded: bool, groups: int = 1
) -> Array:
    """A sum over the positions of the window, of slices of the image."""
    rank = len(stride)
    window = w.shape[1 : 1 + rank]
    lead = x.ndim - rank - 1
    if padded:
        around = [margins(k, d) for k, d in zip(window, dilation, strict=True)]
        x = np.pad(x, [(0, 0)] * lead + around + [(0, 0)])
    sizes = x.shape[lead:-1]
    spans = [1 + (k - 1) * d for k, d in zip(window, dilation, strict=True)]
    out = [(size - span) // s + 1 for size, span, s in zip(sizes, spans, stride, strict=True)]
    x = x.reshape(*x.shape[:-1], groups, -1)
    w = w.reshape(groups, -1, *w.shape[1:])
    result: Any = 0.0
    for at in itertools.product(*map(range, window)):
        cut = tuple(
            slice(k * d, k * d + s * (o - 1) + 1, s)
            for k, d, s, o in zip(at, dilation, stride, out, strict=True)
        )
        seen = x[(..., *cut, slice(None), slice(None))]
        result = result + np.einsum("...gi,goi->...go", seen, w[(slice(None), slice(None), *at)])
    return np.asarray(result).reshape(*result.shape[:-2], -1)


def conv_transpose(x: Array, w: Array, *, stride: int, dilation: int, padded: bool) -> Array:
    """Every cell adds its window to the image."""
    window, sizes = w.shape[1:3], x.shape[-3:-1]
    reach = [stride * o + (k - 1) * dilation for k, o in zip(window, sizes, strict=True)]
    result = np.zeros((*x.shape[:-3], *reach, w.shape[0]))
    for at in itertools.product(*map(range, window)):
        rows, columns = (
            slice(k * dilation, k * dilation + stride * o, stride) for k, o in zip(at, sizes, strict=True)
        )
        result[..., rows, columns, :] += x @ w[:, *at, :].T
    if not padded:
        return result[..., : reach[0] - stride + 1, : reach[1] - stride + 1, :]
    rows, columns = (
        slice(before, before + stride * o)
        for (before, _), o in zip((margins(k, dilation) for k in window), sizes, strict=True)
    )
    return result[..., rows, columns, :]


def channels_first(x: Any, rank: int) -> Any:
    """PyTorch's axes, with one batch axis."""
    x = x.movedim(-1, -1 - rank)
    return x.reshape(-1, *x.shape[-1 - rank :])


def channels_last(y: Any, rank: int, batch: Any) -> Any:
    y = y.movedim(1, -1)
    return y.reshape(*batch, *y.shape[1:])


def torch_conv(
    x: Any,
    w: Any,
    b: Any,
    *,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    padded: bool,
    groups: int = 1,
) -> Any:
    functional = pytest.importorskip("torch").nn.functional
    rank = len(stride)
    image = channels_first(x, rank)
    if padded:
        around = [margins(k, d) for k, d in zip(w.shape[1 : 1 + rank], dilation, strict=True)]
        image = functional.pad(image, [size for pair in reversed(around) for size in pair])
    function = getattr(functional, f"conv{rank}d")
    result = function(image, w.movedim(-1, 1), b, stride=stride, dilation=dilation, groups=groups)
    return channels_last(result, rank, x.shape[: x.dim() - rank - 1])


def torch_same(x: Any, w: Any, b: Any) -> Any:
    """PyTorch's own padding."""
    functional = pytest.importorskip("torch").nn.functional
    result = functional.conv2d(channels_first(x, 2), w.movedim(-1, 1), b, padding="same")
    return channels_last(result, 2, x.shape[:-3])


def torch_conv_transpose(x: Any, w: Any, b: Any, *, stride: int, dilation: int, padded: bool) -> Any:
    functional = pytest.importorskip("torch").nn.functional
    window = w.shape[1:3]
    odd = [(k - 1) * dilation % 2 for k in window]
    result = functional.conv_transpose2d(
        channels_first(x, 2),
        w.permute(3, 0, 1, 2),
        b,
        stride=stride,
        dilation=dilation,
        padding=[(k - 1) * dilation // 2 if padded else 0 for k in window],
        output_padding=[stride - 1 - o if padded else 0 for o in odd],
    )
    return channels_last(result, 2, x.shape[:-3])


def case(
    rank: int,
    shape: tuple[int, ...],
    *,
    kernel: int | tuple[int, ...] = 3,
    stride: int | tuple[int, ...] = 1,
    dilation: int | tuple[int, ...] = 1,
    padded: bool = True,
    groups: int = 1,
    bias: bool = True,
) -> Case:
    """A convolution to four channels."""

    def each(sizes: int | tuple[int, ...]) -> tuple[int, ...]:
        return (sizes,) * rank if isinstance(sizes, int) else sizes

    block = (nn.conv1d, nn.conv2d, nn.conv3d)[rank - 1](
        kernel_size=kernel,
        stride=stride,
        use_padding=padded,
        dilation=dilation,
        groups=groups,
        out_channels=4,
        bias=bias,
    )
    how: dict[str, Any] = {
        "stride": each(stride),
        "dilation": each(dilation),
        "padded": padded,
        "groups": groups,
    }
    return Case(
        block,
        arrays_of(shape),
        lambda p, x: conv(x, p["conv.w"], **how) + p.get("conv.b", 0.0),
        lambda p, x: torch_conv(x, p["conv.w"], p.get("conv.b"), **how),
    )


def transposed(
    shape: tuple[int, ...], *, kernel: int = 3, stride: int = 1, dilation: int = 1, padded: bool = True
) -> Case:
    how: dict[str, Any] = {"stride": stride, "dilation": dilation, "padded": padded}
    block = nn.conv_transpose2d(
        kernel_size=kernel, stride=stride, dilation=dilation, use_padding=padded, out_channels=4
    )
    return Case(
        block,
        arrays_of(shape),
        lambda p, x: conv_transpose(x, p["conv.w"], **how) + p["conv.b"],
        lambda p, x: torch_conv_transpose(x, p["conv.w"], p["conv.b"], **how),
    )


def around(rank: int, shape: tuple[int, ...], padding: Any, mode: str = "zeros", **sizes: Any) -> Case:
    """A convolution with so many cells around the image, by NumPy's mode in the reference."""
    stride, kernel, dilation = (sizes.get(name, 1) for name in ("stride", "kernel", "dilation"))
    pairs = [
        (p, p) if isinstance(p, int) else p
        for p in ([padding] * rank if isinstance(padding, int) else padding)
    ]
    block = (nn.conv1d, nn.conv2d, nn.conv3d)[rank - 1](
        kernel_size=kernel,
        stride=stride,
        dilation=dilation,
        padding=padding,
        padding_mode=mode,
        out_channels=4,
    )
    how: dict[str, Any] = {"stride": (stride,) * rank, "dilation": (dilation,) * rank, "padded": False}

    def in_numpy(x: Array) -> Array:
        of_numpy: Any = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[
            mode
        ]
        return np.pad(x, [(0, 0)] * (x.ndim - rank - 1) + pairs + [(0, 0)], mode=of_numpy)

    def in_torch(x: Any) -> Any:
        functional = pytest.importorskip("torch").nn.functional
        image = channels_first(x, rank)
        sides = [size for pair in reversed(pairs) for size in pair]
        image = functional.pad(image, sides, mode="constant" if mode == "zeros" else mode)
        return channels_last(image, rank, x.shape[: x.dim() - rank - 1])

    return Case(
        block,
        arrays_of(shape),
        lambda p, x: conv(in_numpy(x), p["conv.w"], **how) + p["conv.b"],
        lambda p, x: torch_conv(in_torch(x), p["conv.w"], p["conv.b"], **how),
    )


def cropped(rank: int, shape: tuple[int, ...], *, padding: int, output_padding: int, stride: int) -> Case:
    """A transposed convolution with a window of 3, as PyTorch has it."""
    block = (nn.conv_transpose1d, nn.conv_transpose2d, nn.conv_transpose3d)[rank - 1](
        padding=padding, output_padding=output_padding, stride=stride, out_channels=4
    )

    def in_torch(p: Any, x: Any) -> Any:
        functional = pytest.importorskip("torch").nn.functional
        function = getattr(functional, f"conv_transpose{rank}d")
        w = p["conv.w"].movedim(-1, 0)
        result = function(channels_first(x, rank), w, p["conv.b"], stride, padding, output_padding)
        return channels_last(result, rank, x.shape[: x.dim() - rank - 1])

    def in_numpy(p: Any, x: Array) -> Array:
        w = p["conv.w"]
        spread = np.zeros(
            (*x.shape[: -1 - rank], *(stride * (n - 1) + 1 for n in x.shape[-1 - rank : -1]), x.shape[-1])
        )
        spread[(..., *[slice(None, None, stride)] * rank, slice(None))] = x
        room = [(2 - padding, 2 - padding + output_padding)] * rank
        spread = np.pad(spread, [(0, 0)] * (x.ndim - rank - 1) + room + [(0, 0)])
        flipped = np.flip(w, tuple(range(1, 1 + rank)))
        return conv(spread, flipped, stride=(1,) * rank, dilation=(1,) * rank, padded=False) + p["conv.b"]

    return Case(block, arrays_of(shape), in_numpy, in_torch)


def separable(shape: tuple[int, ...], *, stride: int = 1, bias: bool = True) -> Case:
    how: dict[str, Any] = {
        "stride": (stride, stride),
        "dilation": (1, 1),
        "padded": True,
        "groups": shape[-1],
    }

    def reference(p: Any, function: Any) -> Any:
        y = function(p["conv.depthwise.w"][..., None])
        y = y @ p["conv.pointwise.w"].T
        return y + p["conv.pointwise.b"] if bias else y

    return Case(
        nn.depthwise_separable_conv2d(stride=stride, out_channels=5, bias=bias),
        arrays_of(shape),
        lambda p, x: reference(p, lambda w: conv(x, w, **how)),
        lambda p, x: reference(p, lambda w: torch_conv(x, w, None, **how)),
    )


IMAGES = (2, 6, 8, 3)

CASES = {
    "padded": case(2, IMAGES),
    "valid": case(2, IMAGES, padded=False),
    "no bias": case(2, IMAGES, bias=False),
    "one image": case(2, IMAGES[1:]),
    "two batch axes": case(2, (2, 3, 4, 5, 2)),
    "one cell": case(2, IMAGES, kernel=1, stride=2),
    "stride": case(2, IMAGES, stride=2),
    "stride, valid": case(2, (2, 7, 9, 3), stride=2, padded=False),
    "stride beyond the window": case(2, (2, 6, 9, 2), stride=3, kernel=2),
    "dilation": case(2, IMAGES, dilation=2),
    "dilation, valid": case(2, IMAGES, dilation=2, padded=False),
    "pairs": case(2, IMAGES, kernel=(3, 2), stride=(1, 2), dilation=(2, 1)),
    "pairs, valid": case(2, (2, 7, 8, 3), kernel=(3, 2), stride=(1, 2), dilation=(2, 1), padded=False),
    "window greater than the image": case(2, (2, 4, 3, 2), kernel=7),
    "groups": case(2, (2, 4, 6, 6), groups=2),
    "groups, stride, valid": case(2, (2, 5, 7, 8), groups=4, stride=2, padded=False),
    "one axis": case(1, (2, 9, 3), kernel=5),
    "one axis, dilated, grouped": case(1, (2, 9, 4), kernel=3, dilation=3, padded=False, groups=2),
    "three axes": case(3, (2, 4, 3, 5, 2), stride=(2, 1, 1), kernel=(3, 2, 1)),
    "transposed": transposed((2, 4, 5, 3)),
    "transposed, valid": transposed((2, 4, 5, 3), padded=False),
    "transposed, stride": transposed((2, 3, 4, 3), stride=2),
    "transposed, stride, even": transposed((2, 3, 4, 3), stride=2, kernel=2),
    "transposed, stride, dilation, valid": transposed((3, 4, 3), stride=3, dilation=2, padded=False),
    "stride that does not divide": case(2, (2, 7, 8, 3), stride=2),
    "stride that does not divide, valid": case(2, (2, 8, 9, 3), stride=2, padded=False),
    "stride that does not divide, even": case(2, (2, 7, 8, 3), stride=3, kernel=2),
    "padding": around(2, (2, 7, 8, 3), 1, kernel=3, stride=2),
    "padding, none, cut off": around(2, (2, 8, 6, 2), 0, kernel=3, stride=3),
    "padding, more than the window": around(1, (2, 5, 3), 3, kernel=3, stride=2),
    "padding, asymmetric": around(2, (2, 5, 6, 2), [(0, 2), 1], kernel=3, dilation=2),
    "padding, reflect": around(2, (2, 5, 6, 2), [1, (2, 0)], "reflect", kernel=3),
    "padding, replicate, cut off": around(1, (2, 6, 3), 2, "replicate", kernel=4, stride=3),
    "padding, circular": around(3, (1, 3, 4, 3, 2), 1, "circular", kernel=3, stride=2),
    "transposed, padding": cropped(2, (2, 3, 4, 3), padding=1, output_padding=1, stride=2),
    "transposed, one axis": cropped(1, (2, 4, 3), padding=0, output_padding=2, stride=3),
    "transposed, three axes": cropped(3, (1, 2, 3, 2, 2), padding=2, output_padding=0, stride=2),
    "separable": separable(IMAGES),
    "separable, stride": separable(IMAGES, stride=2, bias=False),
    "even window": Case(
        nn.conv2d(kernel_size=4, out_channels=2),
        arrays_of(IMAGES),
        lambda p, x: conv(x, p["conv.w"], stride=(1, 1), dilation=(1, 1), padded=True) + p["conv.b"],
        lambda p, x: torch_same(x, p["conv.w"], p["conv.b"]),
    ),
    "inferred channels": Case(
        lambda x, y: nn.conv2d(label="conv")(x) + y,
        arrays_of(IMAGES, (2, 6, 8, 5)),
        lambda p, x, y: conv(x, p["conv.w"], stride=(1, 1), dilation=(1, 1), padded=True) + p["conv.b"] + y,
        lambda p, x, y: torch_same(x, p["conv.w"], p["conv.b"]) + y,
        ["bbbo", "bbbo"],
    ),
}
