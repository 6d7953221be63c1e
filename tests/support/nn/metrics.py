"""Metrics, whose gradients are zero, and their references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support.nn.check import Array, Case, arrays_of

from ocannl import nn

SCORES, OTHER = arrays_of((6, 4), (6, 4))
IDS = np.array([0, 2, 1, 1, 3, 0])


def metric(
    block: Callable[..., Any], number: Callable[[Array], Any], dtype: type[np.number[Any]] = np.float32
) -> Case:
    """A metric of scores, which no small change of them changes."""

    def in_torch(p: Any, x: Any, ids: Any) -> Any:
        return x.new_tensor(number(x.detach().numpy())) + 0 * x.sum()

    return Case(block, [SCORES, IDS], lambda p, x, ids: np.asarray(number(x)), in_torch, [None, "b"], dtype)


def counts(x: Array) -> Array:
    found = np.zeros((4, 4))
    np.add.at(found, (IDS, x.argmax(-1)), 1)
    return found


def macro_f1(x: Array) -> float:
    c = counts(x)
    both = c.sum(0) + c.sum(1)
    return float(np.mean(2 * np.diag(c)[both > 0] / both[both > 0]))


def top_2(x: Array) -> float:
    return float(np.mean([t in np.argsort(-row)[:2] for row, t in zip(x, IDS, strict=True)]))


CASES = {
    "accuracy": metric(nn.accuracy, lambda x: (x.argmax(-1) == IDS).mean()),
    "top 2": metric(lambda x, ids: nn.top_k_accuracy(x, ids, k=2), top_2),
    "confusion": metric(nn.confusion_matrix, counts, np.int32),
    "f1": metric(lambda x, ids: nn.f1(x, ids, average="macro"), macro_f1),
    "perplexity": Case(
        nn.perplexity,
        [SCORES, IDS],
        lambda p, x, ids: np.exp(np.mean(np.log(np.exp(x).sum(-1)) - x[range(6), ids])),
        lambda p, x, ids: (x.logsumexp(-1) - x[range(6), ids]).mean().exp(),
        [None, "b"],
    ),
    "r2": Case(
        nn.r2,
        [SCORES, OTHER],
        lambda p, x, y: np.mean(1 - ((x - y) ** 2).sum(0) / ((y - y.mean(0)) ** 2).sum(0)),
        lambda p, x, y: (1 - ((x - y) ** 2).sum(0) / ((y - y.mean(0)) ** 2).sum(0)).mean(),
    ),
}
