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


def torch_log_sum_exp(x: Any, window: int, stride: int, padding: int = 0) -> Any:
    functional = pytest.importorskip("torch").nn.functional
    around = (0, 0, padding, padding, padding, padding)
    image = functional.pad(x, around, value=-1e9).unfold(-3, window, stride).unfold(-3, window, stride)
    return image.flatten(-2).logsumexp(-1)


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
