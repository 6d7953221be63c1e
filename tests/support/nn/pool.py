"""Pooling, and its references in NumPy and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from support.nn.check import Array, Case, arrays_of

from ocannl import nn


def patches(x: Array, stride: tuple[int, int], window: tuple[int, int]) -> Array:
    """The windows of each position, as two last axes."""
    every = sliding_window_view(x, window, (-3, -2))
    return every[..., :: stride[0], :: stride[1], :, :, :]


def padded(x: Array, window: int, value: float) -> Array:
    around = ((window - 1) // 2, window // 2)
    return np.pad(x, [(0, 0)] * (x.ndim - 3) + [around, around, (0, 0)], constant_values=value)


def log_sum_exp(x: Array) -> Array:
    return np.asarray(np.log(np.exp(x).sum((-2, -1))))


def torch_pool(name: str, x: Any, window: Any, stride: Any, padding: int = 0) -> Any:
    functional = pytest.importorskip("torch").nn.functional
    images = x.movedim(-1, -3)
    result = getattr(functional, name)(images.reshape(-1, *images.shape[-3:]), window, stride, padding)
    return result.movedim(1, -1).reshape(*x.shape[:-3], *result.shape[2:], x.shape[-1])


def numpy_pad(x: Array, mode: Any) -> Array:
    around = [(0, 0), (1, 2), (0, 3), (0, 0)]
    if mode == "wrap":
        return np.pad(x[:, :, 1:], around, mode=mode)
    return np.pad(x, around, mode=mode)[:, :, 1:]


def torch_pad(x: Any, mode: str) -> Any:
    functional = pytest.importorskip("torch").nn.functional
    return functional.pad(x.movedim(-1, 1), (-1, 3, 1, 2), mode=mode).movedim(1, -1)


def torch_log_sum_exp(x: Any, window: int, stride: int, padding: int = 0) -> Any:
    functional = pytest.importorskip("torch").nn.functional
    around = (0, 0, padding, padding, padding, padding)
    image = functional.pad(x, around, value=-1e9).unfold(-3, window, stride).unfold(-3, window, stride)
    return image.flatten(-2).logsumexp(-1)


def spans(length: int, window: int, stride: int, padding: int, dilation: int, ceil: bool) -> list[range]:
    """The cells of each window along an axis, those in the padding too, as PyTorch counts windows."""
    left = length + 2 * padding - dilation * (window - 1) - 1
    count = left // stride + 1
    if ceil and left % stride and count * stride < length + padding:
        count += 1
    starts = [k * stride - padding for k in range(count)]
    return [range(s, s + dilation * (window - 1) + 1, dilation) for s in starts]


def pooled(
    x: Array, rank: int, *, window: int, stride: int, padding: int = 0, dilation: int = 1, **how: bool
) -> tuple[Array, Array, Array]:
    """The maximum and the sum of each window, and how many cells count."""
    most, total, count = x, x, np.ones((1,) * x.ndim)
    for axis in range(x.ndim - 1 - rank, x.ndim - 1):
        length = x.shape[axis]
        cells = spans(length, window, stride, padding, dilation, how.get("ceil", False))
        inside = [[at for at in each if 0 <= at < length] for each in cells]
        bounded = [[at for at in each if at < length + padding] for each in cells]
        most = np.stack([most.take(at, axis).max(axis) for at in inside], axis)
        total = np.stack([total.take(at, axis).sum(axis) for at in inside], axis)
        counted = bounded if how.get("count_padding", True) else inside
        sizes = np.array([len(at) for at in counted], float)
        count = count * sizes.reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    return most, total, count


def pools(rank: int, x: Array, name: str, **how: Any) -> Case:
    """A block beside PyTorch's function; `how` has the words of PyTorch."""
    kernel, stride = how.pop("kernel_size"), how.pop("stride")
    block = getattr(nn, f"{name}_pool{rank}d")(window_size=kernel, stride=stride, **how)
    ceil, counts = how.get("ceil_mode", False), how.get("count_include_pad", True)
    sizes = {key: how[key] for key in ("padding", "dilation") if key in how}

    def in_numpy(p: Any, x: Array) -> Array:
        most, total, count = pooled(
            x, rank, window=kernel, stride=stride, ceil=ceil, count_padding=counts, **sizes
        )
        return most if name == "max" else total / count

    def in_torch(p: Any, x: Any) -> Any:
        functional = pytest.importorskip("torch").nn.functional
        images = x.movedim(-1, -1 - rank).reshape(-1, x.shape[-1], *x.shape[-1 - rank : -1])
        result = getattr(functional, f"{name}_pool{rank}d")(images, kernel, stride, **how)
        return result.movedim(1, -1).reshape(*x.shape[: -1 - rank], *result.shape[2:], x.shape[-1])

    return Case(block, [x], in_numpy, in_torch)


def unpooled(x: Any, size: tuple[int, int]) -> Any:
    """Maxima put back at their places."""
    y, places = nn.max_pool2d(return_indices=True)(x)
    return nn.max_unpool(y, places, size)


def torch_unpooled(x: Any) -> Any:
    functional = pytest.importorskip("torch").nn.functional
    pooled = functional.max_pool2d(x.movedim(-1, 1), 2, return_indices=True)
    return functional.max_unpool2d(*pooled, 2, output_size=x.shape[1:3]).movedim(1, -1)


def maxima_alone(x: Array) -> Array:
    cut = x[:, : x.shape[1] // 2 * 2, : x.shape[2] // 2 * 2]
    most = patches(cut, (2, 2), (2, 2)).max((-2, -1)).repeat(2, 1).repeat(2, 2)
    around = [(0, whole - part) for whole, part in zip(x.shape, cut.shape, strict=True)]
    return np.pad(np.where(cut == most, cut, 0.0), around)


X = arrays_of((2, 6, 8, 3))[0]
ODD = arrays_of((2, 7, 9, 2))[0]
MORE = arrays_of((2, 2, 4, 6, 2))[0]
ONE = arrays_of((4, 6, 2))[0]

CASES = {
    **{
        f"max, {x.ndim - 3} batch axes": Case(
            nn.max_pool2d(),
            [x],
            lambda p, x: patches(x, (2, 2), (2, 2)).max((-2, -1)),
            lambda p, x: torch_pool("max_pool2d", x, 2, 2),
        )
        for x in (ONE, X, MORE)
    },
    "max, overlapping": Case(
        nn.max_pool2d(window_size=3),
        [ODD],
        lambda p, x: patches(x, (2, 2), (3, 3)).max((-2, -1)),
        lambda p, x: torch_pool("max_pool2d", x, 3, 2),
    ),
    "max, pairs": Case(
        nn.max_pool2d(window_size=(3, 1), stride=(1, 2)),
        [ODD],
        lambda p, x: patches(x, (1, 2), (3, 1)).max((-2, -1)),
        lambda p, x: torch_pool("max_pool2d", x, (3, 1), (1, 2)),
    ),
    "max, padded, of negative numbers": Case(
        nn.max_pool2d(window_size=3, use_padding=True),
        [-np.exp(X)],
        lambda p, x: patches(padded(x, 3, -np.inf), (2, 2), (3, 3)).max((-2, -1)),
        lambda p, x: torch_pool("max_pool2d", x, 3, 2, 1),
    ),
    "mean": Case(
        nn.avg_pool2d(),
        [X],
        lambda p, x: patches(x, (2, 2), (2, 2)).mean((-2, -1)),
        lambda p, x: torch_pool("avg_pool2d", x, 2, 2),
    ),
    "mean, overlapping": Case(
        nn.avg_pool2d(window_size=3, stride=1),
        [X],
        lambda p, x: patches(x, (1, 1), (3, 3)).mean((-2, -1)),
        lambda p, x: torch_pool("avg_pool2d", x, 3, 1),
    ),
    "mean, padded": Case(
        nn.avg_pool2d(window_size=3, use_padding=True),
        [X],
        lambda p, x: patches(padded(x, 3, 0), (2, 2), (3, 3)).mean((-2, -1)),
        lambda p, x: torch_pool("avg_pool2d", x, 3, 2, 1),
    ),
    "max, cut off": pools(2, ODD, "max", kernel_size=2, stride=2),
    "max, padding": pools(2, -np.exp(ODD), "max", kernel_size=3, stride=2, padding=1),
    "max, dilation": pools(2, X, "max", kernel_size=2, stride=2, dilation=3, padding=1),
    "max, ceil": pools(2, X, "max", kernel_size=3, stride=2, ceil_mode=True),
    "max, ceil, padding": pools(2, -np.exp(X), "max", kernel_size=3, stride=3, padding=1, ceil_mode=True),
    "max, one axis": pools(1, X[0], "max", kernel_size=3, stride=2),
    "max, three axes": pools(3, MORE, "max", kernel_size=2, stride=2),
    "max, put back": Case(
        lambda x: unpooled(x, (7, 9)), [ODD], lambda p, x: maxima_alone(x), lambda p, x: torch_unpooled(x)
    ),
    "mean, cut off": pools(2, ODD, "avg", kernel_size=2, stride=2),
    "mean, padding": pools(2, ODD, "avg", kernel_size=4, stride=2, padding=2),
    "mean, padding that does not count": pools(
        2, X, "avg", kernel_size=3, stride=2, padding=1, count_include_pad=False
    ),
    "mean, ceil": pools(2, X, "avg", kernel_size=3, stride=2, padding=1, ceil_mode=True),
    "mean, one axis": pools(1, X[0], "avg", kernel_size=3, stride=2, ceil_mode=True),
    "mean, three axes": pools(3, MORE, "avg", kernel_size=2, stride=2),
    **{
        f"padding, {mode}": Case(
            nn.pad([(1, 2), (-1, 3)], mode=mode),
            [X],
            lambda p, x, mode=of_numpy: numpy_pad(x, mode),
            lambda p, x, mode=of_torch: torch_pad(x, mode),
        )
        for mode, of_numpy, of_torch in (
            ("zeros", "constant", "constant"),
            ("reflect", "reflect", "reflect"),
            ("replicate", "edge", "replicate"),
            ("circular", "wrap", "circular"),
        )
    },
    "smooth maximum": Case(
        nn.smooth_max_pool2d(),
        [X],
        lambda p, x: log_sum_exp(patches(x, (2, 2), (2, 2))),
        lambda p, x: torch_log_sum_exp(x, 2, 2),
    ),
    "smooth maximum, overlapping, beta": Case(
        nn.smooth_max_pool2d(beta=7.0, window_size=3, stride=1),
        [ODD],
        lambda p, x: log_sum_exp(7 * patches(x, (1, 1), (3, 3))) / 7,
        lambda p, x: torch_log_sum_exp(7 * x, 3, 1) / 7,
    ),
    "smooth maximum, padded": Case(
        nn.smooth_max_pool2d(window_size=3, use_padding=True),
        [X],
        lambda p, x: log_sum_exp(patches(padded(x, 3, -np.inf), (2, 2), (3, 3))),
        lambda p, x: torch_log_sum_exp(x, 3, 2, 1),
    ),
    **{
        f"global mean, {x.ndim - 3} batch axes": Case(
            nn.global_avg_pool2d, [x], lambda p, x: x.mean((-3, -2)), lambda p, x: x.mean((-3, -2))
        )
        for x in (ONE, X, MORE)
    },
}
