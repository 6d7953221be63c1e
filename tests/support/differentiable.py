"""Every logic and form of axis as a function of arrays, to be differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import ocannl as oc

Array = NDArray[Any]
TOTAL = "...|...->... => 0"


def arrays_of(*shapes: tuple[int, ...], seed: int = 3, low: float = -2, high: float = 2) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.uniform(low, high, shape)) for shape in shapes]


Logic: TypeAlias = tuple[Callable[..., oc.Tensor], Callable[..., Array], list[tuple[int, ...]], list[str]]
"""A builder, its meaning in NumPy, and the shapes and axes of its operands."""
LOGICS: dict[str, Logic] = {
    "compose": (lambda w, x: w @ x, lambda w, x: x @ w.T, [(3, 2), (4, 2)], ["oi", "bo"]),
    "compose of matrices": (lambda a, b: a @ b, lambda a, b: a @ b, [(3, 2), (2, 4)], ["oi", "oi"]),
    "compose with batches": (
        lambda w, x: w @ x,
        lambda w, x: np.einsum("boi,bi->bo", w, x),
        [(4, 3, 2), (4, 2)],
        ["boi", "bo"],
    ),
    "compose with one": (lambda w, x: w @ x, lambda w, x: w.sum(1) * x, [(3, 2), (4, 1)], ["oi", "bo"]),
    "compose with a number": (lambda w: w @ 2, lambda w: 2 * w.sum(1), [(3, 2)], ["oi"]),
    "twice": (lambda w, x: w @ (w @ x), lambda w, x: x @ w.T @ w.T, [(3, 3), (4, 3)], ["oi", "bo"]),
    "transpose": (lambda w, x: w.T @ x, lambda w, x: x @ w, [(3, 2), (4, 3)], ["oi", "bo"]),
    "gram": (lambda w: w.T @ w, lambda w: w.T @ w, [(3, 2)], ["oi"]),
    "size one": (lambda a, b: a * b, lambda a, b: a * b, [(4, 1), (1, 3)], ["bo", "bo"]),
    "rank": (lambda a, b: a * b, lambda a, b: a * b, [(4, 2, 3), (3,)], ["boo", "o"]),
    "same operand": (lambda a: a * a, lambda a: a * a, [(3, 2)], ["bo"]),
    "sum": (lambda a: a.einsum(TOTAL), lambda a: a.sum().reshape(1), [(2, 3, 2)], ["boi"]),
    "einsum": (
        lambda a, b: oc.einsum("i j; j k => k i", a, b),
        lambda a, b: (a @ b).T,
        [(3, 4), (4, 2)],
        ["oo", "oo"],
    ),
    "three operands": (
        lambda a, b, c: oc.einsum("i; i j; j => i j", a, b, c),
        lambda a, b, c: np.einsum("i,ij,j->ij", a, b, c),
        [(3,), (3, 4), (4,)],
        ["o", "oo", "o"],
    ),
    "diagonal": (lambda a: oc.einsum("i i => i", a), np.diagonal, [(4, 4)], ["oo"]),
    "trace": (lambda a: oc.einsum("i i => ", a), np.trace, [(4, 4)], ["oo"]),
    "to a diagonal": (lambda a: oc.einsum("i => i i", a), np.diag, [(4,)], ["o"]),
    "diagonal by itself": (
        lambda a: oc.einsum("i i; i j => j", a, a),
        lambda a: np.diagonal(a) @ a,
        [(3, 3)],
        ["oo"],
    ),
    "fixed in an operand": (lambda a: oc.einsum("i 2 => i", a), lambda a: a[:, 2], [(3, 4)], ["oo"]),
    "fixed in the result": (
        lambda a: oc.einsum("i => 1 i", a),
        lambda a: np.stack([np.zeros_like(a), a]),
        [(3,)],
        ["o"],
    ),
    "anything": (lambda a: oc.einsum("i _ => i", a), lambda a: a.sum(1), [(3, 4)], ["oo"]),
    "only in the result": (
        lambda a: oc.einsum("i => i j", a, j=3),
        lambda a: np.repeat(a[:, None], 3, 1),
        [(2,)],
        ["o"],
    ),
    "slice": (lambda a: a[1], lambda a: a[1], [(3, 2, 2)], ["bbo"]),
    "two slices": (lambda a: a[0] * a[2], lambda a: a[0] * a[2], [(3, 4)], ["bo"]),
    "one slice twice": (lambda a: a[1] * a[1] + a[0], lambda a: a[1] * a[1] + a[0], [(3, 4)], ["bo"]),
    "maximum over rows": (lambda a: oc.einmax("b | o => b |", a), lambda a: a.max(1), [(5, 9)], ["bo"]),
    "minimum over rows": (lambda a: oc.einmin("b | o => b |", a), lambda a: a.min(1), [(5, 9)], ["bo"]),
    "maximum over all": (lambda a: oc.einmax(TOTAL, a), lambda a: a.max().reshape(1), [(3, 4)], ["bo"]),
    "maximum of products": (
        lambda a, b: oc.einmax("i k; k j => i j", a, b),
        lambda a, b: (a[:, :, None] * b[None]).max(1),
        [(3, 4), (4, 2)],
        ["oo", "oo"],
    ),
    "tropical": (
        lambda a, b: oc.tropical("i k; k j => i j", a, b),
        lambda a, b: (a[:, :, None] + b[None]).max(1),
        [(3, 4), (4, 2)],
        ["oo", "oo"],
    ),
    "outer sum": (
        lambda a, b: oc.outer_sum("i; j => i j", a, b),
        lambda a, b: a[:, None] + b[None],
        [(3,), (4,)],
        ["o", "o"],
    ),
    "outer sum over an axis": (
        lambda a, b: oc.outer_sum("i k; j => i j", a, b),
        lambda a, b: (a[:, :, None] + b[None, None]).sum(1),
        [(3, 2), (4,)],
        ["oo", "o"],
    ),
    "softmax": (
        lambda a: oc.exp(a - oc.einmax("b | o => b |", a)) / oc.exp(a).einsum("b | o => b | "),
        lambda a: np.exp(a - a.max(1, keepdims=True)) / np.exp(a).sum(1, keepdims=True),
        [(4, 3)],
        ["bo"],
    ),
}


IDS = np.array([2, 0, 2, 7])
"""Of positions along an axis of three."""


def ids() -> oc.Tensor:
    return oc.data(IDS, axes="b", label="ids")


FORMS: dict[str, Logic] = {
    "a product": (lambda a: oc.einsum("h w => w&h", a), lambda a: a.T.ravel(), [(2, 3)], ["oo"]),
    "a split": (lambda a: oc.einsum("h&w => h w", a, w=3), lambda a: a.reshape(2, 3), [(6,)], ["o"]),
    "a concatenation": (
        lambda a, b: oc.concat("a; b => a^2^b", a, b),
        lambda a, b: np.concatenate([a, [0, 0], b]),
        [(3,), (2,)],
        ["o", "o"],
    ),
    "a part": (lambda a: oc.einsum("1^a^2 => a", a), lambda a: a[1:-2], [(6,)], ["o"]),
    "a stack": (
        lambda a, b: oc.stack([a, b], axis="input"),
        lambda a, b: np.stack([a, b], -1),
        [(3,), (3,)],
        ["o", "o"],
    ),
    "a window": (
        lambda a, b: oc.einsum("2*o + k; k => o", a, b),
        lambda a, b: np.array([a[2 * o : 2 * o + 3] @ b for o in range(3)]),
        [(7,), (3,)],
        ["o", "o"],
    ),
    "a padded window": (
        lambda a, b: oc.einsum("o =+ k; k => o", a, b),
        lambda a, b: np.convolve(a, b[::-1], "same"),
        [(5,), (3,)],
        ["o", "o"],
    ),
    "a maximum of windows": (
        lambda a: oc.einmax("2*o + k => o", a, k=2),
        lambda a: a.reshape(3, 2).max(1),
        [(6,)],
        ["o"],
    ),
    "a gather": (
        lambda a: oc.gather("v d; b | => b | d", a, ids(), at="v", out_of_range="drop"),
        lambda a: np.concatenate([a, np.zeros((5, 2))])[IDS],
        [(3, 2)],
        ["oo"],
    ),
    "a scatter": (
        lambda a: oc.scatter("b | d; b | => v d", a, ids(), at="v", v=3, out_of_range="drop"),
        lambda a: (np.arange(3)[:, None] == IDS) @ a,
        [(4, 2)],
        ["bo"],
    ),
    "a scatter of minima": (
        lambda a: oc.minimum(
            oc.scatter("b |; b | => v", a, ids(), at="v", v=3, accum="min", out_of_range="drop"), 5.0
        ),
        lambda a: np.array([a[1], 5, min(a[0], a[2])]),
        [(4,)],
        ["b"],
    ),
}


FUNCTIONS: dict[str, Logic] = {
    "sums": (lambda a: oc.sum(a, 1), lambda a: a.sum(1), [(3, 4)], ["oo"]),
    "products": (lambda a: oc.prod(a, 1), lambda a: a.prod(1), [(3, 4)], ["oo"]),
    "means": (lambda a: oc.mean(a, 1), lambda a: a.mean(1), [(3, 4)], ["oo"]),
    "maxima": (lambda a: oc.max(a, 1), lambda a: a.max(1), [(3, 4)], ["oo"]),
    "minima": (lambda a: oc.min(a, 1), lambda a: a.min(1), [(3, 4)], ["oo"]),
    "variances": (lambda a: oc.var(a, 1, ddof=1), lambda a: a.var(1, ddof=1), [(3, 4)], ["oo"]),
    "deviations": (lambda a: oc.std(a, 1), lambda a: a.std(1), [(3, 4)], ["oo"]),
    "norms": (lambda a: oc.norm(a), lambda a: np.sqrt((a * a).sum(1)), [(3, 4)], ["oo"]),
    "sorted": (lambda a: oc.sort(a, 0), lambda a: np.sort(a, 0), [(5, 2)], ["oo"]),
    "running sums": (lambda a: oc.cumsum(a), lambda a: np.cumsum(a, 1), [(2, 5)], ["oo"]),
    "running products": (lambda a: oc.cumprod(a), lambda a: np.cumprod(a, 1), [(2, 5)], ["oo"]),
    "running maxima": (lambda a: oc.cummax(a), lambda a: np.maximum.accumulate(a, 1), [(2, 5)], ["oo"]),
    "running minima": (lambda a: oc.cummin(a), lambda a: np.minimum.accumulate(a, 1), [(2, 5)], ["oo"]),
    "logarithms of sums": (
        lambda a: oc.logsumexp(a, 1),
        lambda a: np.log(np.exp(a).sum(1)),
        [(3, 4)],
        ["oo"],
    ),
    "lower triangles": (lambda a: oc.tril(a, 1), lambda a: np.tril(a, 1), [(3, 4)], ["oo"]),
    "upper triangles": (lambda a: oc.triu(a), lambda a: np.triu(a), [(2, 4, 3)], ["ooo"]),
    "flipped": (lambda a: oc.flip(a), lambda a: a[:, ::-1], [(2, 5)], ["oo"]),
    "rolled": (lambda a: oc.roll(a, 2), lambda a: np.roll(a, 2, 1), [(2, 5)], ["oo"]),
    "clipped": (lambda a: oc.clip(a, -0.5, 0.5), lambda a: np.clip(a, -0.5, 0.5), [(3, 4)], ["oo"]),
    "rearranged": (
        lambda a: oc.rearrange(a, "h (w c) -> c (w h)", c=2, axes="oo"),
        lambda a: a.reshape(3, 2, 2).transpose(2, 1, 0).reshape(2, 6),
        [(3, 4)],
        ["oo"],
    ),
    "reduced": (
        lambda a: oc.reduce(a, "h (w c) -> c", "mean", c=2, axes="o"),
        lambda a: a.reshape(6, 2).mean(0),
        [(3, 4)],
        ["oo"],
    ),
    "repeated": (
        lambda a: oc.repeat(a, "h w -> w h c", c=3, axes="ooo"),
        lambda a: a.T[..., None].repeat(3, -1),
        [(3, 4)],
        ["oo"],
    ),
}
"""Functions of tensors that have gradients."""
