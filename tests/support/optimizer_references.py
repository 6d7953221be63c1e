"""The optimizers in NumPy, as their papers and PyTorch's pages have them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Rule: TypeAlias = Callable[[Array, Array, dict[str, Any], int], Array]
"""A parameter, its gradient, what is kept of it, and the step, from 1: gives the parameter after it."""


def new_memory() -> dict[str, Any]:
    return defaultdict(lambda: 0.0)


def means(g: Array, s: dict[str, Any], b1: float, b2: float) -> tuple[Array, Array]:
    s["m"] = b1 * s["m"] + (1 - b1) * g
    s["v"] = b2 * s["v"] + (1 - b2) * g * g
    return s["m"], s["v"]


def sgd(p: Array, g: Array, s: dict[str, Any], t: int) -> Array:
    g = g + 0.01 * p
    s["m"] = g if t == 1 else 0.9 * s["m"] + 0.8 * g
    return p - 0.1 * s["m"]


def nesterov(p: Array, g: Array, s: dict[str, Any], t: int) -> Array:
    s["m"] = g if t == 1 else 0.9 * s["m"] + g
    return p - 0.1 * (g + 0.9 * s["m"])


def adam(p: Array, g: Array, s: dict[str, Any], t: int) -> Array:
    m, v = means(g + 0.1 * p, s, 0.9, 0.999)
    return p - 0.01 * m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)


def adamw(p: Array, g: Array, s: dict[str, Any], t: int, rate: float = 0.01, decay: float = 0.1) -> Array:
    m, v = means(g, s, 0.9, 0.999)
    return p * (1 - rate * decay) - rate * m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)


def amsgrad(p: Array, g: Array, s: dict[str, Any], t: int) -> Array:
    m, v = means(g, s, 0.9, 0.9)
    s["top"] = np.maximum(s["top"], v)
    return p - 0.01 * m / (1 - 0.9**t) / (np.sqrt(s["top"] / (1 - 0.9**t)) + 1e-8)


def rmsprop(p: Array, g: Array, s: dict[str, Any], t: int) -> Array:
    s["v"] = 0.99 * s["v"] + 0.01 * g * g
    s["a"] = 0.99 * s["a"] + 0.01 * g
    s["m"] = 0.5 * s["m"] + g / (np.sqrt(s["v"] - s["a"] ** 2) + 1e-8)
    return p - 0.01 * s["m"]


def adagrad(p: Array, g: Array, s: dict[str, Any], t: int) -> Array:
    s["v"] = s["v"] + g * g if t > 1 else 0.1 + g * g
    return p - 0.1 / (1 + (t - 1) * 0.01) * g / (np.sqrt(s["v"]) + 1e-10)


def adadelta(p: Array, g: Array, s: dict[str, Any], t: int) -> Array:
    g = g + 0.1 * p
    s["v"] = 0.9 * s["v"] + 0.1 * g * g
    delta = np.sqrt(s["d"] + 1e-6) / np.sqrt(s["v"] + 1e-6) * g
    s["d"] = 0.9 * s["d"] + 0.1 * delta**2
    return p - delta


def nadam(p: Array, g: Array, s: dict[str, Any], t: int) -> Array:
    m, v = means(g, s, 0.9, 0.999)
    now, then = (0.9 * (1 - 0.5 * 0.96 ** (k * 0.004)) for k in (t, t + 1))
    s["mu"] = np.float32(s["mu"] if t > 1 else 1) * np.float32(now)
    product = float(s["mu"])
    spread = np.sqrt(v / (1 - 0.999**t)) + 1e-8
    p = p - 0.01 * 0.1 * p
    return p - 0.01 * ((1 - now) / (1 - product) * g + then / (1 - product * then) * m) / spread


def radam(p: Array, g: Array, s: dict[str, Any], t: int) -> Array:
    m, v = means(g + 0.1 * p, s, 0.9, 0.99)
    longest = 2 / (1 - 0.99) - 1
    length = longest - 2 * t * 0.99**t / (1 - 0.99**t)
    if length <= 5:
        return p - 0.01 * m / (1 - 0.9**t)
    r = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    return p - 0.01 * m / (1 - 0.9**t) * np.sqrt(r) * np.sqrt(1 - 0.99**t) / (np.sqrt(v) + 1e-8)


def lamb(p: Array, g: Array, s: dict[str, Any], t: int) -> Array:
    m, v = means(g, s, 0.9, 0.999)
    delta = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + 0.1 * p
    return p - 0.01 * np.linalg.norm(p) / np.linalg.norm(delta) * delta


def lion(p: Array, g: Array, s: dict[str, Any], t: int) -> Array:
    p = p - 0.01 * (np.sign(0.9 * s["m"] + 0.1 * g) + 0.1 * p)
    s["m"] = 0.99 * s["m"] + 0.01 * g
    return p


def rprop(p: Array, g: Array, s: dict[str, Any], t: int) -> Array:
    sign = np.sign(g * s["g"])
    s["size"] = np.clip(
        (s["size"] if t > 1 else 0.01) * np.select([sign > 0, sign < 0], [1.2, 0.5], 1), 1e-6, 50
    )
    s["g"] = np.where(sign < 0, 0, g)
    return p - np.sign(s["g"]) * s["size"]


def muon(p: Array, g: Array, s: dict[str, Any], t: int) -> Array:
    s["m"] = 0.95 * s["m"] + 0.05 * g
    x = 0.05 * g + 0.95 * s["m"]
    x = (x.T if x.shape[0] > x.shape[1] else x) / np.linalg.norm(x)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    x = x if x.shape == p.shape else x.T
    return p * (1 - 0.01 * 0.1) - 0.01 * np.sqrt(max(1, p.shape[0] / p.shape[1])) * x
