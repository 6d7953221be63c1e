"""Norms and sizes of images, normalized weights, and their references in NumPy and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.nn.check import Array, Case, arrays_of
from support.nn.conv import channels_first, channels_last

from ocannl import nn

X = arrays_of((2, 5, 6, 8))[0]
LINE = arrays_of((3, 7, 6))[0]


def functional() -> Any:
    return pytest.importorskip("torch").nn.functional


def in_torch(function: Any, x: Any, rank: int = 2) -> Any:
    """A function of PyTorch on images that have their channels last."""
    return channels_last(function(channels_first(x, rank)), rank, x.shape[: x.dim() - rank - 1])


def normalized(x: Array, axes: tuple[int, ...], epsilon: float = 1e-5) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def grouped(x: Array, groups: int, rank: int) -> Array:
    split = x.reshape(*x.shape[:-1], groups, -1)
    axes = (*range(x.ndim - 1 - rank, x.ndim - 1), x.ndim)
    return normalized(split, axes).reshape(x.shape)


def line_of(x: Array, axis: int, count: int, mode: str, align: bool) -> Array:
    """An axis interpolated to so many points, by a matrix of weights."""
    length = x.shape[axis]
    weights = np.zeros((count, length))
    for o in range(count):
        place = o * (length - 1) / (count - 1) if align else (o + 0.5) * length / count - 0.5
        if mode.startswith("nearest"):
            weights[o, int((o + 0.5 * (mode == "nearest-exact")) * length / count)] = 1
            continue
        place = np.clip(place, 0, length - 1) if mode == "linear" else place
        base = int(np.floor(place))
        for cell in range(base - 1, base + 3):
            t = abs(place - cell)
            if mode == "linear":
                weight = max(1 - t, 0)
            elif t <= 1:
                weight = 1.25 * t**3 - 2.25 * t**2 + 1
            else:
                weight = -0.75 * (t**3 - 5 * t**2 + 8 * t - 4) if t < 2 else 0
            weights[o, min(max(cell, 0), length - 1)] += weight
    return np.moveaxis(np.tensordot(weights, x, (1, axis)), 0, axis)


def resized(mode: str, align: bool, size: tuple[int, int]) -> Case:
    name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    how: dict[str, Any] = {} if mode.startswith("nearest") else {"align_corners": align}
    return Case(
        nn.interpolate(size=size, mode=mode, **how),
        [X],
        lambda p, x: line_of(line_of(x, 1, size[0], mode, align), 2, size[1], mode, align),
        lambda p, x: in_torch(lambda y: functional().interpolate(y, size=size, mode=name, **how), x),
    )


def unit_rows(w: Any) -> Any:
    norm = (w * w).sum(1) ** 0.5
    return w / norm.reshape(-1, 1)


CASES = {
    "group norm": Case(
        nn.group_norm(num_groups=4, label="n"),
        [X],
        lambda p, x: grouped(x, 4, 2) * p["n.gain"] + p["n.offset"],
        lambda p, x: in_torch(lambda y: functional().group_norm(y, 4, p["n.gain"], p["n.offset"]), x),
    ),
    "group norm, one axis, one group": Case(
        nn.group_norm(num_groups=1, spatial_axes=1, epsilon=1e-5, label="n"),
        [LINE],
        lambda p, x: grouped(x, 1, 1) * p["n.gain"] + p["n.offset"],
        lambda p, x: in_torch(lambda y: functional().group_norm(y, 1, p["n.gain"], p["n.offset"]), x, 1),
    ),
    "instance norm": Case(
        nn.instance_norm(),
        [X],
        lambda p, x: normalized(x, (1, 2)),
        lambda p, x: in_torch(lambda y: functional().instance_norm(y), x),
    ),
    "instance norm, one axis, affine": Case(
        nn.instance_norm(spatial_axes=1, affine=True, label="n"),
        [LINE],
        lambda p, x: normalized(x, (1,)) * p["n.gain"] + p["n.offset"],
        lambda p, x: in_torch(
            lambda y: functional().instance_norm(y, weight=p["n.gain"], bias=p["n.offset"]), x, 1
        ),
    ),
    "weight norm": Case(
        nn.weight_norm(nn.linear(out_dim=3)),
        [LINE],
        lambda p, x: x @ (unit_rows(p["linear.w"]) * p["weight_norm.g"][:, None]).T + p["linear.b"],
        lambda p, x: x @ (unit_rows(p["linear.w"]) * p["weight_norm.g"][:, None]).T + p["linear.b"],
    ),
    "spectral norm of one row": Case(
        nn.spectral_norm(nn.linear(out_dim=1)),
        [LINE],
        lambda p, x: x @ unit_rows(p["linear.w"]).T + p["linear.b"],
        lambda p, x: x @ unit_rows(p["linear.w"]).T + p["linear.b"],
    ),
    "pixel shuffle": Case(
        nn.pixel_shuffle(2),
        [X],
        lambda p, x: x.reshape(2, 5, 6, 2, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(2, 10, 12, 2),
        lambda p, x: in_torch(lambda y: functional().pixel_shuffle(y, 2), x),
    ),
    "pixel unshuffle": Case(
        nn.pixel_unshuffle(2),
        [X[:, :4]],
        lambda p, x: x.reshape(2, 2, 2, 3, 2, 8).transpose(0, 1, 3, 5, 2, 4).reshape(2, 2, 3, 32),
        lambda p, x: in_torch(lambda y: functional().pixel_unshuffle(y, 2), x),
    ),
    **{
        f"interpolation, {mode}, {size}{', corners' if align else ''}": resized(mode, align, size)
        for mode, align, size in (
            ("nearest", False, (9, 4)),
            ("nearest", False, (4, 12)),
            ("nearest-exact", False, (9, 4)),
            ("linear", False, (9, 4)),
            ("linear", True, (3, 11)),
            ("cubic", False, (9, 4)),
            ("cubic", True, (7, 8)),
        )
    },
    "interpolation by a factor": Case(
        nn.interpolate(scale=2.0, mode="linear", spatial_axes=1),
        [LINE],
        lambda p, x: line_of(x, 1, 14, "linear", False),
        lambda p, x: in_torch(lambda y: functional().interpolate(y, scale_factor=2.0, mode="linear"), x, 1),
    ),
}
