"""Metrics, against scikit-learn's definitions in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.nn.check import Case, check_all
from support.nn.metrics import CASES

import ocannl as oc
from ocannl import nn

Array = NDArray[Any]
RNG = np.random.default_rng(3)
SCORES = np.round(RNG.normal(size=(4, 9, 5)), 1)
SCORES[0, 0] = 0.5
IDS = RNG.integers(0, 4, (4, 9))
"""Of five classes, one never occurs."""


@check_all(CASES)
def test_against_numpy(case: Case):
    case.check_numpy()


@check_all(CASES)
def test_against_torch(case: Case):
    case.check_torch()


def value(tensor: oc.Tensor) -> Array:
    return np.asarray(oc.Context.cpu(threads=1)[tensor])


def ids(array: Array) -> oc.Tensor:
    return oc.data(array, axes="b" * array.ndim, label="ids")


CHOSEN = SCORES.argmax(-1)
COUNTS = np.array([[np.sum((t == IDS) & (p == CHOSEN)) for p in range(5)] for t in range(5)])


@pytest.mark.parametrize("predictions", [oc.data(SCORES), ids(CHOSEN)])
def test_accuracy(predictions: oc.Tensor):
    found = value(nn.accuracy(predictions, ids(IDS)))
    assert found.shape == ()
    np.testing.assert_allclose(found, (CHOSEN == IDS).mean(), rtol=1e-6)


def test_ignored_ids_do_not_count():
    kept = IDS != 2
    found = value(nn.accuracy(oc.data(SCORES), ids(IDS), ignore_index=2))
    np.testing.assert_allclose(found, (CHOSEN == IDS)[kept].mean(), rtol=1e-6)
    marked = ids(np.where(kept, IDS, -100))
    found = value(nn.top_k_accuracy(oc.data(SCORES), marked, k=2, ignore_index=-100))
    first = np.argsort(-SCORES, axis=-1, kind="stable")[..., :2]
    np.testing.assert_allclose(found, (first == IDS[..., None]).any(-1)[kept].mean(), rtol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_k_accuracy(k: int):
    first = np.argsort(-SCORES, axis=-1, kind="stable")[..., :k]
    found = value(nn.top_k_accuracy(oc.data(SCORES), ids(IDS), k=k))
    np.testing.assert_allclose(found, (first == IDS[..., None]).any(-1).mean(), rtol=1e-6)


def test_scores_that_are_no_numbers_are_not_right():
    scores, target = oc.data(np.full((3, 4), np.nan)), ids(np.array([0, 1, 3]))
    assert value(nn.accuracy(scores, target)) == value(nn.top_k_accuracy(scores, target, k=3)) == 0
    assert value(nn.confusion_matrix(scores, target)).sum() == 0


def test_confusion_matrix():
    np.testing.assert_array_equal(value(nn.confusion_matrix(oc.data(SCORES), ids(IDS))), COUNTS)
    np.testing.assert_array_equal(value(nn.confusion_matrix(ids(CHOSEN), ids(IDS), num=5)), COUNTS)
    with pytest.raises(oc.ArgumentError, match="`num` classes are given"):
        nn.confusion_matrix(ids(CHOSEN), ids(IDS))


def test_as_many_classes_as_a_model_turns_out_to_have():
    logits = nn.linear()(oc.data(SCORES)) + oc.data(np.zeros(7))
    counts = nn.confusion_matrix(logits, ids(IDS))
    oc.infer(counts)
    assert counts.shape == "7,7"


def test_f1():
    right, wanted, found = np.diag(COUNTS), COUNTS.sum(1), COUNTS.sum(0)
    with np.errstate(invalid="ignore"):
        each = np.where(wanted + found > 0, 2 * right / (wanted + found), 0)
    expected = {
        "macro": each[wanted + found > 0].mean(),
        "micro": 2 * right.sum() / (wanted + found).sum(),
        "weighted": (each * wanted).sum() / wanted.sum(),
    }
    for average, number in expected.items():
        score = value(nn.f1(oc.data(SCORES), ids(IDS), average=average))
        np.testing.assert_allclose(score, number, rtol=1e-6, err_msg=average)
    with pytest.raises(oc.ArgumentError, match="an average is binary, macro, micro, weighted"):
        nn.f1(oc.data(SCORES), ids(IDS), average="samples")


def test_f1_of_two_classes():
    guess, truth = RNG.integers(0, 2, (2, 30))
    expected = 2 * (guess & truth).sum() / (guess.sum() + truth.sum())
    np.testing.assert_allclose(value(nn.f1(ids(guess), ids(truth))), expected, rtol=1e-6)
    assert value(nn.f1(ids(np.zeros(3, int)), ids(np.zeros(3, int)))) == 0


def test_perplexity():
    shifted = SCORES - SCORES.max(-1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    picked = np.take_along_axis(log_probs, IDS[..., None], -1)
    np.testing.assert_allclose(value(nn.perplexity(oc.data(SCORES), ids(IDS))), np.exp(-picked.mean()))


def test_r2():
    a, b = RNG.normal(size=(2, 6, 3))
    a[:, 1], b[:, 1], a[:, 2], b[:, 2] = 4, 4, 5, 4
    explained = 1 - ((a - b) ** 2).sum(0)[0] / ((b - b.mean(0)) ** 2).sum(0)[0]
    np.testing.assert_allclose(value(nn.r2(oc.data(a), oc.data(b))), (explained + 1 + 0) / 3)


def test_ids_of_accuracy_have_batch_axes_only():
    scores = oc.tensor(np.ones((4, 5), np.float32))
    with pytest.raises(oc.ShapeError, match=r"ids of nn\.accuracy have batch axes only"):
        nn.accuracy(scores, oc.tensor([0, 1, 2, 3]))
    nn.accuracy(scores, oc.data([0, 1, 2, 3], axes="b"))


def test_numbers_of_classes_by_place():
    scores, target = oc.data(np.eye(4)), oc.data(np.array([0, 1, 3, 2]), axes="b")
    assert nn.top_k_accuracy(scores, target, 1).numpy() == 0.5
    assert nn.confusion_matrix(oc.data(np.array([0, 1]), axes="b"), target[:2], 3).numpy().shape == (3, 3)


def test_f1_of_more_than_two_classes_says_which_average():
    scores, target = oc.data(np.eye(4)), oc.data(np.arange(4), axes="b")
    with pytest.raises(
        oc.ArgumentError, match=r"test_metrics.py:\d+: .*of 2 classes, found 4: average='macro'"
    ):
        nn.f1(scores, target)
    assert nn.f1(scores, target, average="macro").numpy() == 1
