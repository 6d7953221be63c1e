"""Losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.nn.check import Case, check_all
from support.nn.losses import CASES, IDS, X1, X3, ctc_of, log_softmax, picked

import ocannl as oc
from ocannl import nn


@pytest.mark.sampled(7)
@check_all(CASES)
def test_against_numpy(case: Case):
    case.check_numpy()


@check_all(CASES)
def test_against_torch(case: Case):
    case.check_torch()


def test_targets_of_a_batch():
    n = oc.index("n", 2)
    logits, ids = oc.data(X3)[n], oc.data(IDS[4], axes="bbb")[n]
    loss = nn.cross_entropy(logits, ids)
    ctx = oc.Context.cpu()
    step = ctx.compile(loss.forward)
    step(n=1)
    np.testing.assert_allclose(ctx[loss], -picked(log_softmax(X3[1]), IDS[4][1]).mean())


def test_ids_say_nothing_about_the_number_of_classes():
    with pytest.raises(oc.ShapeError, match=r"hidden dimension of `linear\.w`"):
        oc.infer(nn.cross_entropy(nn.linear()(oc.data(X1)), oc.data(IDS[2], axes="b")))


def test_nothing_but_ignored_ids_is_no_number():
    """As in PyTorch: a mean of nothing."""
    ids = oc.data(np.array([-1, -1]), axes="b")
    ctx = oc.Context.cpu(threads=1)
    assert np.isnan(ctx[nn.cross_entropy(oc.data(X1[:2]), ids, ignore_index=-1)])
    assert ctx[nn.cross_entropy(oc.data(X1[:2]), ids, ignore_index=-1, reduction="sum")] == 0


def test_a_divergence_from_what_never_happens():
    log_probs, target = oc.data(np.log([0.25, 0.75])), oc.data(np.array([0.0, 1.0]))
    ctx = oc.Context.cpu(threads=1)
    np.testing.assert_allclose(ctx[nn.kl_div(log_probs, target, reduction="sum")], -np.log(0.75), rtol=1e-15)


def test_losses_have_no_axes():
    loss = nn.cross_entropy(oc.data(X1), oc.data(IDS[2], axes="b"))
    oc.infer(loss)
    assert loss.shape.array == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reduction": "median"}, "a reduction is mean, sum, none, found 'median'"),
        ({"label_smoothing": 1.5}, "at least 0 and at most 1"),
        ({"ignore_index": 0.5}, "ignore_index is an integer"),
    ],
)
def test_settings_that_there_are_not(settings: Any, message: str):
    with pytest.raises(oc.ArgumentError, match=message):
        nn.cross_entropy(oc.data(X1), oc.data(IDS[2], axes="b"), **settings)
    with pytest.raises(oc.ArgumentError, match="the target is a distribution"):
        nn.cross_entropy(oc.data(X1), oc.data(X1), ignore_index=0)


def test_ids_are_of_one_output_axis():
    with pytest.raises(oc.ShapeError):
        nn.cross_entropy(oc.data(X3, axes="bboo"), oc.data(IDS[4][..., 0], axes="bb"))


@pytest.mark.exhaustive
def test_a_target_that_is_too_long():
    """It has no path, and no gradient."""
    x = oc.param("x", X3[0, :2, 0], batch=2, output=5, input=[], dtype=np.float64)
    labels, ctx = oc.data(np.array([1, 1]), axes="b"), oc.Context.cpu(threads=1)
    ctx.init_params(x)
    assert ctx[nn.ctc(nn.log_softmax()(x), labels)] == np.inf
    loss = nn.ctc(nn.log_softmax()(x), labels, zero_infinity=True)
    assert ctx[loss] == 0
    np.testing.assert_array_equal(ctx[oc.grad(loss, x)], np.zeros((2, 5)))


@pytest.mark.exhaustive
@pytest.mark.sampled(7)
@pytest.mark.parametrize("dtype", [np.float64, np.float16])
@pytest.mark.parametrize(
    "never", [(2, 0), (slice(1, 3), 0), (0, slice(1, 3)), ([0, 4], [0, 2]), (slice(None), 2)]
)
def test_classes_that_never_are(never: Any, dtype: Any):
    """At some times, so that some paths, or all, have a probability of 0."""
    logits, labels = X1[[0, 1, 2, 3, 0]], np.array([3, 2, 1])
    x = oc.param("x", logits, batch=5, output=5, input=[], dtype=dtype)
    losses = [
        nn.ctc(nn.log_softmax()(x), oc.data(labels, axes="b"), reduction="sum", zero_infinity=zero)
        for zero in (False, True)
    ]
    slope, ctx = oc.grad(losses[1], x), oc.Context.cpu(threads=1)
    ctx.init_params(slope)
    logits[never] = -np.inf
    ctx[x] = logits
    with np.errstate(divide="ignore"):
        wanted = ctc_of(logits.astype(dtype).astype(np.float64), labels)
    precise = 1e-3 if dtype == np.float16 else 1e-12
    np.testing.assert_allclose(ctx[losses[0]], wanted, rtol=precise)
    found = ctx[slope]
    ctx[x] = np.maximum(logits, -1000)
    is_possible = np.isfinite(wanted)
    np.testing.assert_allclose(found, ctx[slope] if is_possible else np.zeros((5, 5)), atol=precise)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_what_is_no_number_is_no_infinite_loss(zero_infinity: bool):
    log_probs, labels = X1.copy(), oc.data(np.array([1, 2]), axes="b")
    log_probs[1, 1] = np.nan
    loss = nn.ctc(oc.data(log_probs), labels, zero_infinity=zero_infinity)
    assert np.isnan(oc.Context.cpu(threads=1)[loss])


def test_improbable_paths_are_not_lost():
    """Where a network is sure of blanks, in f32: far below the smallest number that is no zero."""
    torch = pytest.importorskip("torch")
    logits = np.zeros((1, 4, 3), np.float32)
    logits[..., 0] = 60
    labels = np.array([[1, 2]])
    found = oc.Context.cpu(threads=1)[nn.ctc(nn.log_softmax()(oc.data(logits)), oc.data(labels, axes="bb"))]
    log_probs = torch.tensor(logits).log_softmax(-1).movedim(1, 0)
    wanted = torch.nn.functional.ctc_loss(log_probs, torch.tensor(labels), [4], [2])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("lengths", [(1, 1), (3, 2)])
def test_sequences_of_any_length(lengths: tuple[int, int]):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    x, labels = rng.normal(size=(2, lengths[0], 4)), rng.integers(0, 3, (2, lengths[1]))
    log_probs = nn.log_softmax()(oc.data(x))
    loss = nn.ctc(log_probs, oc.data(labels, axes="bb"), blank=3, reduction="none")
    theirs = torch.tensor(x).log_softmax(-1).movedim(1, 0)
    ends = [torch.full((2,), n) for n in lengths]
    wanted = torch.nn.functional.ctc_loss(theirs, torch.tensor(labels), *ends, blank=3, reduction="none")
    np.testing.assert_allclose(oc.Context.cpu(threads=1)[loss], wanted, rtol=1e-12)


def test_sequences_of_nothing():
    with pytest.raises(oc.ArgumentError, match="ctc needs at least one label"):
        nn.ctc(oc.data(X1), oc.data(np.zeros(0, int), axes="b"))
    with pytest.raises(oc.ShapeError, match="`p`"):
        nn.ctc(oc.param("p", output=5, batch=oc.Dim("t")), oc.data(np.zeros(2, int), axes="b"))


PAIRS = {
    "mse": nn.mse,
    "l1": nn.l1,
    "huber": nn.huber,
    "bce_with_logits": nn.bce_with_logits,
    "kl_div": nn.kl_div,
    "r2": nn.r2,
}


@pytest.mark.parametrize("name", PAIRS)
def test_batches_do_not_meet_rows(name: str):
    """Numbers along a batch axis and as many along an output axis are all pairs, which nobody means."""
    x = oc.tensor(np.ones((4, 5), np.float32))
    y = oc.tensor(np.ones(4, np.float32))
    for prediction in (x.sum(1), x[:, :1], oc.param("w", output=None) @ x):
        for pair in ((prediction, y), (y, prediction)):
            with pytest.raises(oc.ShapeError, match="each would meet each"):
                PAIRS[name](*pair)
    with pytest.raises(oc.ShapeError, match=r"a layer with these outputs for each row says out_dim=4$"):
        PAIRS[name](nn.linear()(x), y)
    loss = PAIRS[name]
    loss(x.sum(1), oc.data(np.ones(4, np.float32), axes="b"))
    loss(x[:, :1], oc.data(np.ones((4, 1), np.float32)))
    loss(y, y)
    loss(x, oc.tensor(np.ones(5, np.float32)))
    loss(oc.param("w", output=None) @ x, oc.tensor(np.ones(3, np.float32)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist, oc.data])
def test_factors_of_classes_may_be_arrays_and_lists(form: Callable[[Any], Any]):
    rng = np.random.default_rng(3)
    ids, factors = rng.integers(0, 3, 6), np.array([0.5, 2.0, 1.0])
    log_probs = log_softmax(scores := rng.normal(size=(6, 3)))
    losses = -(factors * log_probs)[np.arange(6), ids]
    found = nn.cross_entropy(oc.data(scores), oc.data(ids, axes="b"), weight=form(factors))
    np.testing.assert_allclose(found.numpy(), losses.sum() / factors[ids].sum(), rtol=1e-6)
    found = nn.cross_entropy(oc.data(scores), oc.data(np.eye(3)[ids]), weight=form(factors))
    np.testing.assert_allclose(found.numpy(), losses.mean(), rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((4, 3, 5), r"along 1 more axis than ids: those of 4,3\|, .*axes=\{'x': 'boo'\}"),
        ((4, 3, 3, 5), r"along 2 more axes than ids: .*h\.reshape\(len\(h\), -1\)"),
    ],
)
def test_scores_of_each_row_of_a_picture(shape: tuple[int, ...], hint: str):
    """As where a linear layer gets pictures whose features are batch axes."""
    layer, pictures, ids = nn.linear(out_dim=2), oc.data(np.zeros(shape)), oc.data(np.zeros(4, int), axes="b")
    with pytest.raises(oc.ShapeError, match=rf"(?s){hint}"):
        nn.cross_entropy(layer(pictures), ids)
    flat = oc.data(np.zeros(shape), axes="b" + "o" * (len(shape) - 1))
    nn.cross_entropy(nn.linear(out_dim=2)(flat), ids)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (np.zeros(5, int), r'ids of nn\.cross_entropy .* found <y: 5, i64>: oc\.data\(ids, axes="b"\)'),
        (np.zeros((5, 1), int), r"ids of nn\.cross_entropy .* found <y: 5\|1, i64>: y\[\.\.\., 0\] has such"),
        (np.zeros((5, 9)), r"a number for each class: there are 10 of these, and 9 in <y: 5\|9, f64>"),
    ],
)
def test_targets_that_are_neither_ids_nor_distributions(target: Any, said: str):
    """In words about what was given, not about what the loss is made of."""
    scores = nn.linear(out_dim=10)(oc.data(np.zeros((5, 2)), label="x"))
    with pytest.raises(oc.ShapeError, match=said):
        nn.cross_entropy(scores, oc.data(target, label="y"))
    with pytest.raises(oc.ShapeError, match=said.replace("cross_entropy", "nll")):
        nn.nll(nn.log_softmax()(scores), oc.data(target, label="y"))


def test_one_hot_integers_are_a_distribution():
    scores = oc.data(np.eye(3, dtype=np.float32))
    found, ids = nn.cross_entropy(scores, oc.data(np.eye(3, dtype=int))), oc.data(np.arange(3), axes="b")
    assert found.numpy() == nn.cross_entropy(scores, ids).numpy()


def test_scores_come_first():
    scores, ids = oc.data(np.zeros((5, 10)), label="scores"), oc.data(np.zeros(5, int), axes="b", label="y")
    with pytest.raises(oc.ShapeError, match=r"found <y: 5\|, i64> without one: they come first, and then"):
        nn.cross_entropy(ids, scores)
