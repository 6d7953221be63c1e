"""Losses, and their references in NumPy and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.nn.check import Array, Case, arrays_of

import ocannl as oc
from ocannl import nn


def torch_functional() -> Any:
    return pytest.importorskip("torch").nn.functional


def log_softmax(x: Array) -> Array:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def picked(log_probs: Array, ids: Array) -> Array:
    return np.take_along_axis(log_probs, ids[..., None], -1)[..., 0]


def one_number(function: Any) -> Any:
    """Losses have no axes."""
    return lambda p, *inputs: (
        np.asarray(function(*inputs)) if isinstance(inputs[0], np.ndarray) else function(*inputs)
    )


X0, X1, X3, Y3 = arrays_of((5,), (4, 5), (2, 3, 2, 5), (2, 3, 2, 5))
IDS = {x.ndim: np.asarray(np.random.default_rng(0).integers(0, 5, x.shape[:-1])) for x in (X0, X1, X3)}
PROBS = np.exp(log_softmax(Y3))
FACTORS, POSITIVE = np.array([0.5, 2.0, 1.0, 3.0, 0.1]), np.array([3.0, 1.0, 0.5, 2.0, 0.2])

IGNORED = np.where(np.arange(4) == 2, -100, IDS[2])
WEIGHT = np.array([0.5, 1.0, 2.0, 0.25, 1.5])


def cross_entropy_of(x: Array, ids: Array, weight: Array, *, smoothing: float = 0.0) -> tuple[Array, Array]:
    """The loss of each id, and what it counts; those below 0 do not."""
    log_probs, kept = log_softmax(x), ids >= 0
    at = np.maximum(ids, 0)
    loss = -picked(log_probs, at) * weight[at] * (1 - smoothing)
    loss = loss - smoothing * (log_probs * weight).sum(-1) / x.shape[-1]
    return np.where(kept, loss, 0.0), weight[at] * kept


def settled(reduction: str, smoothing: float, weight: Array | None = None) -> Case:
    """Cross entropy of ids, one of which is left out, in the words of PyTorch."""
    own = np.ones(5) if weight is None else weight

    def in_numpy(p: Any, x: Array, ids: Array) -> Array:
        loss, count = cross_entropy_of(x, ids, own, smoothing=smoothing)
        return np.asarray({"mean": loss.sum() / count.sum(), "sum": loss.sum(), "none": loss}[reduction])

    def in_torch(p: Any, x: Any, ids: Any) -> Any:
        torch = pytest.importorskip("torch")
        factor = None if weight is None else torch.tensor(weight)
        return torch_functional().cross_entropy(
            x, ids, weight=factor, ignore_index=-100, label_smoothing=smoothing, reduction=reduction
        )

    def block(x: oc.Tensor, ids: oc.Tensor) -> oc.Tensor:
        factor = None if weight is None else oc.cast(oc.data(weight), np.float64)
        return nn.cross_entropy(
            x, ids, weight=factor, ignore_index=-100, label_smoothing=smoothing, reduction=reduction
        )

    return Case(block, [X1, IGNORED], in_numpy, in_torch, [None, "b"])


def difference(name: str, in_numpy: Any, **how: Any) -> Case:
    """A loss of a difference; `how` has the words of PyTorch."""
    torch_name = {"huber": "huber_loss", "smooth_l1": "smooth_l1_loss", "l1": "l1_loss"}[name]
    return Case(
        lambda a, b: getattr(nn, name)(a, b, **how),
        [2 * X3, Y3],
        one_number(lambda a, b: in_numpy(np.abs(a - b))),
        one_number(lambda a, b: getattr(torch_functional(), torch_name)(a, b, **how)),
    )


def distance(a: Array, b: Array, p: float) -> Array:
    return np.sum(np.abs(a - b + 1e-6) ** p, -1) ** (1 / p)


LABELS, TIMES, ENDS = np.array([[1, 1], [4, -7]]), np.array([5, 3]), np.array([2, 1])
SEQUENCES = arrays_of((2, 5, 5))[0]


def ctc_of(x: Array, labels: Array) -> float:
    """The loss of one sequence, by the recursion over its times."""
    states = np.zeros(2 * len(labels) + 1, int)
    states[1::2] = labels
    reached = np.zeros(len(states) + 2)
    reached[2] = 1
    skips = np.append([False] * 2, (states[2:] > 0) & (states[2:] != states[:-2]))
    for probs in np.exp(log_softmax(x)):
        reached[2:] = (reached[2:] + reached[1:-1] + skips * reached[:-2]) * probs[states]
    return float(-np.log(reached[-1] + reached[-2]))


def mean_of_sequences(x: Array, *lengths: Array) -> Array:
    loss = np.array([ctc_of(x[n, : TIMES[n]], LABELS[n, : ENDS[n]]) for n in range(2)])
    return np.asarray((loss / ENDS).mean())


CASES = {
    "ctc of sequences of other lengths, with a label twice and one of no meaning": Case(
        lambda x, labels, times, ends: nn.ctc(
            nn.log_softmax()(x), labels, input_lengths=times, target_lengths=ends
        ),
        [SEQUENCES, LABELS, TIMES, ENDS],
        one_number(mean_of_sequences),
        one_number(lambda x, *rest: torch_functional().ctc_loss(x.log_softmax(-1).movedim(1, 0), *rest)),
        [None, "bb", "b", "b"],
    ),
    **{
        f"cross entropy, {reduction}, smoothing {smoothing}, {'weighted' if weighted else 'plain'}": settled(
            reduction, smoothing, WEIGHT if weighted else None
        )
        for reduction, smoothing, weighted in (
            ("mean", 0.0, False),
            ("mean", 0.1, True),
            ("sum", 0.1, False),
            ("none", 0.2, True),
        )
    },
    "cross entropy of distributions, smoothing, weighted": Case(
        lambda x, y, w: nn.cross_entropy(x, y, weight=w, label_smoothing=0.1),
        [X3, PROBS, WEIGHT],
        one_number(lambda x, y, w: -(log_softmax(x) * (0.9 * y + 0.02) * w).sum(-1).mean()),
        one_number(lambda x, y, w: -(x.log_softmax(-1) * (0.9 * y + 0.02) * w).sum(-1).mean()),
    ),
    "huber": difference("huber", lambda d: np.where(d < 0.7, d * d / 2, 0.7 * (d - 0.35)).mean(), delta=0.7),
    "smooth l1": difference(
        "smooth_l1", lambda d: np.where(d < 0.7, d * d / 1.4, d - 0.35).sum(), beta=0.7, reduction="sum"
    ),
    "smooth l1 without a beta": difference("smooth_l1", lambda d: d.mean(), beta=0.0),
    "l1": difference("l1", lambda d: d.mean()),
    "kl": Case(
        nn.kl_div,
        [Y3, PROBS],
        one_number(lambda x, y: (y * (np.log(y) - x)).mean()),
        one_number(lambda x, y: (y * (y.log() - x)).mean()),
    ),
    "kl of logarithms": Case(
        lambda x, y: nn.kl_div(x, y, log_target=True, reduction="batchmean"),
        [X1, np.log(PROBS[0, 0, 0] + np.zeros((4, 1)))],
        one_number(lambda x, y: (np.exp(y) * (y - x)).sum(-1).mean()),
        one_number(lambda x, y: torch_functional().kl_div(x, y, log_target=True, reduction="batchmean")),
    ),
    "cosine similarity": Case(
        nn.cosine_similarity,
        [X3, Y3],
        lambda p, a, b: (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1)),
        lambda p, a, b: torch_functional().cosine_similarity(a, b, dim=-1),
    ),
    "triplet": Case(
        lambda a, b, c: nn.triplet(a, b, c, margin=2.5),
        [X3, Y3, np.flip(X3, 0) + 0.5],
        one_number(lambda a, b, c: np.maximum(distance(a, b, 2) - distance(a, c, 2) + 2.5, 0).mean()),
        one_number(lambda a, b, c: torch_functional().triplet_margin_loss(a, b, c, margin=2.5)),
    ),
    "triplet, p": Case(
        lambda a, b, c: nn.triplet(a, b, c, p=3.0, reduction="none"),
        [X1, Y3[0, 0, 0], np.roll(X1, 1, 0)],
        lambda p, a, b, c: np.maximum(distance(a, b, 3) - distance(a, c, 3) + 1, 0),
        lambda p, a, b, c: torch_functional().triplet_margin_loss(
            a, b.expand(a.shape), c, p=3, reduction="none"
        ),
    ),
    **{
        f"cross entropy of ids, {x.ndim - 1} batch axes": Case(
            nn.cross_entropy,
            [x, IDS[x.ndim]],
            one_number(lambda x, ids: -picked(log_softmax(x), ids).mean()),
            one_number(lambda x, ids: torch_functional().cross_entropy(x.reshape(-1, 5), ids.reshape(-1))),
            [None, "b" * (x.ndim - 1)],
        )
        for x in (X0, X1, X3, 500 * X3)
    },
    "cross entropy of distributions": Case(
        nn.cross_entropy,
        [X3, PROBS],
        one_number(lambda x, y: -(log_softmax(x) * y).sum(-1).mean()),
        one_number(lambda x, y: torch_functional().cross_entropy(x.reshape(-1, 5), y.reshape(-1, 5))),
    ),
    "cross entropy over two output axes": Case(
        nn.cross_entropy,
        [X3, PROBS],
        one_number(lambda x, y: -(log_softmax(x.reshape(6, 10)) * y.reshape(6, 10)).sum(-1).mean()),
        one_number(lambda x, y: torch_functional().cross_entropy(x.reshape(6, 10), y.reshape(6, 10))),
        ["bboo", "bboo"],
    ),
    "nll": Case(
        nn.nll,
        [X1, IDS[2]],
        one_number(lambda x, ids: -picked(x, ids).mean()),
        one_number(lambda x, ids: torch_functional().nll_loss(x, ids)),
        [None, "b"],
    ),
    "binary cross entropy": Case(
        nn.bce_with_logits,
        [10 * X3, 1 / (1 + np.exp(-Y3))],
        one_number(lambda x, y: (np.logaddexp(0, x) - x * y).mean()),
        one_number(lambda x, y: torch_functional().binary_cross_entropy_with_logits(x, y)),
    ),
    "binary cross entropy, weighted": Case(
        lambda x, y: nn.bce_with_logits(x, y, weight=FACTORS, pos_weight=oc.data(POSITIVE), reduction="sum"),
        [X3, 1 / (1 + np.exp(-Y3))],
        one_number(
            lambda x, y: (FACTORS * ((1 - y) * x + (1 + (POSITIVE - 1) * y) * np.logaddexp(0, -x))).sum()
        ),
        one_number(
            lambda x, y: torch_functional().binary_cross_entropy_with_logits(
                x, y, weight=x.new_tensor(FACTORS), pos_weight=x.new_tensor(POSITIVE), reduction="sum"
            )
        ),
    ),
    "binary cross entropy of rows": Case(
        lambda x, y: nn.bce_with_logits(x, y, reduction="batchmean"),
        [10 * X3, 1 / (1 + np.exp(-Y3))],
        one_number(lambda x, y: (np.logaddexp(0, x) - x * y).sum(-1).mean()),
        one_number(
            lambda x, y: (
                torch_functional().binary_cross_entropy_with_logits(x, y, reduction="none").sum(-1).mean()
            )
        ),
    ),
    "mse": Case(
        nn.mse,
        [X3, Y3],
        one_number(lambda a, b: ((a - b) ** 2).mean()),
        one_number(lambda a, b: torch_functional().mse_loss(a, b)),
    ),
    "mse of broadcast operands": Case(
        nn.mse,
        [X3, X0],
        one_number(lambda a, b: ((a - b) ** 2).mean()),
        one_number(lambda a, b: ((a - b) ** 2).mean()),
    ),
    "hinge": Case(
        nn.hinge,
        [X1],
        one_number(lambda x: np.maximum(0, 1 - x).mean()),
        one_number(lambda x: (1 - x).relu().mean()),
    ),
    "mean of all rows": Case(nn.mean, [X3], one_number(np.mean), one_number(lambda x: x.mean()), ["bboi"]),
}
